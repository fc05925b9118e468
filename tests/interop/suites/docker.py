"""Answers as a Docker daemon would to tests that start RabbitMQ in containers: every container is a broker of ours."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from types import TracebackType
from typing import Any, Final, Self

from tests.servers import BrokerProcess, free_port

# What a container of RabbitMQ exposes. There is no TLS: nothing answers there as TLS would.
_EXPOSED: Final = ("5672/tcp", "5671/tcp")
_CONTAINER: Final = re.compile(r"/(containers|exec)/([0-9]+)(?:/([a-z]+))?")


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


class Docker:
    """A context in which `variables` lead a client of Docker to this daemon. Its brokers get `settings`.

    A container has two processes in it, as RabbitMQ's does: `rabbitmqctl stop_app` ends the broker and keeps the
    container, and `kill` ends both.
    """

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        socket = folder / "docker.sock"
        self.variables = {"DOCKER_HOST": f"unix://{socket}"}
        self.brokers: list[BrokerProcess] = []
        self._folder = folder
        self._settings = settings
        docker = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._answer(docker.post(self.path.partition("?")[0], json.loads(body or b"{}")))

            def do_GET(self) -> None:
                self._answer(docker.get(self.path))

            def do_DELETE(self) -> None:
                self._answer({})

            def _answer(self, value: dict[str, Any]) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            # A socket in the file system has no peer address.
            def address_string(self) -> str:
                return "unix"

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = _Server(str(socket), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        for broker in self.brokers:
            broker.close()

    # -- requests -----------------------------------------------------------------------------------------------

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/containers/create":
            number = len(self.brokers)
            # A port of its own, as a container's: clients come back to it.
            settings = {**self._settings, "FLINTMQ_LISTEN_PORT": str(free_port())}
            self.brokers.append(BrokerProcess(self._folder / f"data-{number}", wrapper=(), **settings))
            return {"Id": str(number)}
        named = _CONTAINER.fullmatch(path)
        if named is None:
            # The image needs no pulling.
            return {}
        kind, number_text, what = named.groups()
        broker = self.brokers[int(number_text)]
        if kind == "containers" and what == "exec":
            _control(broker, body["Cmd"])
            return {"Id": number_text}
        if kind == "containers" and what == "start" and not broker.is_running:
            broker.start()
        elif what in ("kill", "stop"):
            broker.close()
        return {}

    def get(self, path: str) -> dict[str, Any]:
        named = _CONTAINER.fullmatch(path)
        assert named is not None, path
        kind, number_text, _ = named.groups()
        if kind == "exec":
            return {"Running": False, "ExitCode": 0}
        port = str(self.brokers[int(number_text)].port)
        ports = {exposed: [{"HostIp": "127.0.0.1", "HostPort": port}] for exposed in _EXPOSED}
        return {"Id": number_text, "NetworkSettings": {"Ports": ports}}


def _control(broker: BrokerProcess, command: list[str]) -> None:
    assert command[0] == "rabbitmqctl", command
    if command[1] == "stop_app":
        broker.stop()
    else:
        assert command[1] == "start_app", command
        broker.start()
