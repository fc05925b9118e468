"""A real etcd for tests, of one node, on ports of its own."""

import shutil
import ssl
import subprocess
from base64 import b64encode
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.servers import free_port
from tests.waiting import wait_until


class EtcdProcess:
    """etcd as a process; `url` is its endpoint. It keeps its data over `stop` and `start`.

    With a `certificate`, which contains its key, clients use TLS; if it `asks_for_certificates`, with one of `ca`.
    """

    def __init__(
        self,
        directory: Path,
        certificate: Path | None = None,
        ca: Path | None = None,
        asks_for_certificates: bool = False,
    ) -> None:
        self._directory = directory
        self.port = free_port()
        self._peers = free_port()
        self._tls: list[str] = []
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = ["--cert-file", str(certificate), "--key-file", str(certificate)]
            if asks_for_certificates:
                self._tls += ["--client-cert-auth", "--trusted-ca-file", str(ca)]
            self._context = ssl.create_default_context(cafile=ca)
            self._context.load_cert_chain(certificate)
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @staticmethod
    def is_installed() -> bool:
        return shutil.which("etcd") is not None

    def start(self) -> None:
        """Start etcd, and return when it answers."""
        peers = f"http://127.0.0.1:{self._peers}"
        self.process = subprocess.Popen(  # noqa: S603 - the system's etcd
            [  # noqa: S607 - wherever it is
                "etcd",
                *("--data-dir", str(self._directory), "--name", "one", "--initial-cluster", f"one={peers}"),
                *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--log-level", "error"),
                *self._tls,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            return bool(self._client().get("/health").json().get("health") == "true")
        except (httpx.HTTPError, ValueError):
            return False

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self._context or True, timeout=10.0)

    def require_login(self, user: str, password: str, prefix: str) -> None:
        """From now on, who asks needs to log in: as this user, who may use the keys with this prefix, or as root."""

        def text(data: str) -> str:
            return b64encode(data.encode()).decode()

        keys = {"key": text(prefix), "range_end": text(prefix[:-1] + chr(ord(prefix[-1]) + 1))}
        with self._client() as client:
            for path, body in (
                ("user/add", {"name": "root", "password": "root"}),
                ("user/grant", {"user": "root", "role": "root"}),
                ("role/add", {"name": "nodes"}),
                ("role/grant", {"name": "nodes", "perm": {"permType": "READWRITE", **keys}}),
                ("user/add", {"name": user, "password": password}),
                ("user/grant", {"user": user, "role": "nodes"}),
                ("enable", {}),
            ):
                client.post(f"/v3/auth/{path}", json=body).raise_for_status()

    def stop(self) -> None:
        """Stop etcd, as a power loss would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
