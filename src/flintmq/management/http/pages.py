"""The files of the web interface, which are cached in memory after the first request.

A path is looked up and never converted to a file name, so no path leads outside of the folder. Browsers cache the files
and revalidate them each time: after an upgrade, no page mixes parts of two versions.
"""

import hashlib
from pathlib import Path
from typing import Final, final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

_FOLDER: Final = Path(__file__).parents[1] / "ui"
_FIRST: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}


@final
class Pages(BaseRoute):
    """A Starlette route that matches only existing files."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._files = {
            f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.suffix in _TYPES
        }
        if (folder / _FIRST).is_file():
            self._files["/"] = folder / _FIRST
        self._kept: dict[str, tuple[bytes, str]] = {}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_known = scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and scope["path"] in self._files
        return (Match.FULL if is_known else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path not in self._kept:
            content = self._files[path].read_bytes()
            self._kept[path] = (content, f'"{hashlib.sha256(content).hexdigest()[:24]}"')
        content, tag = self._kept[path]
        headers = {"etag": tag, "cache-control": "no-cache"}
        if Headers(scope=scope).get("if-none-match") == tag:
            response = Response(status_code=304, headers=headers)
        else:
            response = Response(content, headers=headers, media_type=_TYPES[self._files[path].suffix])
        await response(scope, receive, send)
