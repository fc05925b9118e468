"""A real etcd for tests, of one node, on ports of its own."""

import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.servers import free_port
from tests.waiting import wait_until


class EtcdProcess:
    """etcd as a process; `url` is its endpoint. It keeps its data over `stop` and `start`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.port = free_port()
        self._peers = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
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
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            return bool(httpx.get(f"{self.url}/health", timeout=1.0).json().get("health") == "true")
        except (httpx.HTTPError, ValueError):
            return False

    def stop(self) -> None:
        """Stop etcd, as a power loss would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
