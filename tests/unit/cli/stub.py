"""A stub of the HTTP API, which records requests, and a function that runs commands against it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from typer.testing import CliRunner

from flintmq.base.errors import FlintError
from flintmq.cli.main import app

QUEUE: dict[str, Any] = {
    "vhost": "/",
    "name": "[bold]a\x1b[31m\n",
    "type": "classic",
    "messages_ready": 12345,
    "message_bytes": 1500,
    "message_stats": {"publish_details": {"rate": 2.5}},
    "arguments": {"x-max-length": 1},
}


class StubApi(ThreadingHTTPServer):
    """`answers` maps "METHOD path?query" to a status and a body; `asked` has the requests with their bodies."""

    def __init__(self, answers: dict[str, tuple[int, Any]] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers or {}
        self.asked: list[tuple[str, Any]] = []
        self.logins: set[str | None] = set()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://admin:s3cret@127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubApi

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        what = f"{self.command} {self.path.removeprefix('/api/')}"
        self.server.asked.append((what, body))
        self.server.logins.add(self.headers.get("Authorization"))
        status, answer = self.server.answers.get(what, (204, None))
        text = b"" if answer is None else answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the base class calls these

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def run(stub: StubApi, *arguments: str) -> str:
    """Run a command and return its standard output. Raises the FlintError with which it fails."""
    ran = CliRunner().invoke(app, list(arguments), env={"FLINTMQ_API": stub.url}, terminal_width=200)
    if isinstance(ran.exception, FlintError):
        raise ran.exception
    assert ran.exit_code == 0, ran.output
    return ran.stdout
