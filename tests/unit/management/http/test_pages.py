"""The web interface's files, as the HTTP API serves them beside its own paths."""

from pathlib import Path
from typing import Final

import flintmq.management
from flintmq.management.api.table import ROUTES
from flintmq.management.http.pages import Pages
from tests.unit.management.fake_node import Api

UI: Final = Path(flintmq.management.__file__).parent / "ui"


def served() -> Api:
    return Api(ROUTES, beside=(Pages(),))


def test_the_first_page_needs_no_login() -> None:
    """/ is the interface's page, for it asks for the login itself; what it shows then comes by the API, which does."""
    api = served()
    answer = api.get("/", by=None)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.text == (UI / "index.html").read_text()
    assert api.get("/api/overview", by=None).status_code == 401


def test_every_file_is_served_with_its_type() -> None:
    """Scripts, styles and pictures come with types that browsers take together with `nosniff`."""
    api = served()
    types = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
    files = [path for path in UI.rglob("*") if path.suffix in types]
    assert files
    for path in files:
        answer = api.get(f"/{path.relative_to(UI)}", by=None)
        assert (answer.status_code, answer.content) == (200, path.read_bytes()), path
        assert answer.headers["content-type"] == types[path.suffix]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    """A browser asks with the tag it was given, and is told that nothing has changed; any other tag gets the file."""
    api = served()
    first = api.get("/main.js", by=None)
    assert first.headers["cache-control"] == "no-cache"
    again = api.get("/main.js", by=None, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert api.get("/main.js", by=None, headers={"if-none-match": '"other"'}).status_code == 200


def test_no_path_leads_out_of_the_folder() -> None:
    """Only the exact names of files are found, however a path is written."""
    api = served()
    for path in ("/../http/pages.py", "/%2e%2e/http/pages.py", "/core/..%2f..%2fhttp%2fpages.py", "/core"):
        assert api.get(path, by=None).status_code == 404, path
    assert api.request("POST", "/main.js", {}).status_code == 404
