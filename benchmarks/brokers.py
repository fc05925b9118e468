"""Brokers to measure: each started on loopback with a data directory of its own, and gone afterwards."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# A cold RabbitMQ on a busy machine; FlintMQ takes a tenth of a second.
_BOOT_SECONDS: Final = 60.0
# What a broker may take to write down what it holds before it is killed.
_STOP_SECONDS: Final = 30.0
_RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
# What speaks AMQP 1.0 in RabbitMQ 3.
_PLUGIN_10: Final = "lib/*/plugins/rabbitmq_amqp1_0-*"


class BrokerError(Exception):
    """A broker did not start; its own words are in the text."""


@dataclass(frozen=True)
class Running:
    """A broker that accepts connections. `boot_seconds` and `idle_mb` are None for one that ran already."""

    name: str
    port: int
    pid: int | None = None
    boot_seconds: float | None = None
    idle_mb: float | None = None

    def pause(self) -> None:
        """Let it stand still while another is measured."""
        if self.pid:
            os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.pid:
            os.killpg(self.pid, signal.SIGCONT)


class Broker:
    """How to start one. `confirm` and `quorum_confirm` say what its confirms promise.

    `address` is what stands before a queue's name in AMQP 1.0, None where a broker does not speak it.
    """

    name: str
    confirm: str
    quorum_confirm: str
    address: str | None

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def environment(self, directory: Path, port: int) -> dict[str, str]: ...

    @contextlib.contextmanager
    def running(self, base: Path) -> Iterator[Running]:
        """Start it with an empty data directory below `base`; stop it and delete that when the block ends."""
        directory = base / self.name.lower()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        port = free_port()
        log = directory / "output.log"
        with log.open("w") as output:
            start = time.monotonic()
            process = subprocess.Popen(
                self.command(),
                cwd=directory,
                env=os.environ | self.environment(directory, port),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._wait(process, port, log)
                boot = time.monotonic() - start
                time.sleep(1)
                yield Running(self.name, port, process.pid, boot, resident_mb(process.pid))
            finally:
                _stop(process)
                shutil.rmtree(directory, ignore_errors=True)

    def _wait(self, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
        deadline = time.monotonic() + _BOOT_SECONDS
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BrokerError(f"{self.name} did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.01)


class FlintMQ(Broker):
    name = "FlintMQ"
    confirm = quorum_confirm = "on disk, synced"
    address = "/queues/"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "flintmq.cli", "serve"]

    def environment(self, directory: Path, port: int) -> dict[str, str]:
        return {
            "FLINTMQ_STORAGE_DIRECTORY": str(directory / "data"),
            "FLINTMQ_LISTEN_PORT": str(port),
            "FLINTMQ_MANAGEMENT_PORT": "0",
        }


class RabbitMQ(Broker):
    """Debian's package, as a node of its own: nothing of a node that may run beside it is touched.

    Before version 4, AMQP 1.0 is a plugin, the only one that is enabled, and its addresses are of another form.
    """

    name = "RabbitMQ"
    confirm = "not synced"
    quorum_confirm = "on disk, synced"

    def __init__(self) -> None:
        self._mapper_port = free_port()
        self._plugin = next(_RABBITMQ.parent.parent.glob(_PLUGIN_10), None)
        self.address = None if self._plugin is None else "/amq/queue/"

    @staticmethod
    def installed() -> bool:
        return _RABBITMQ.exists() and shutil.which("epmd") is not None

    def says_of_10(self) -> str:
        """Whether and by what it speaks AMQP 1.0."""
        if self._plugin is None:
            return f"{self.name} is not measured in AMQP 1.0: its plugin for it is not installed"
        return f"{self.name} speaks AMQP 1.0 by its plugin {self._plugin.name}"

    def command(self) -> list[str]:
        return [str(_RABBITMQ)]

    def environment(self, directory: Path, port: int) -> dict[str, str]:
        plugins = directory / "enabled_plugins"
        plugins.write_text("[].\n" if self._plugin is None else "[rabbitmq_amqp1_0].\n")
        return {
            "HOME": str(directory),
            "RABBITMQ_NODENAME": "flintmq-bench@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_CONFIG_FILE": str(directory / "none"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "none"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            # So that the script becomes the node, and a signal to our process reaches it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    @contextlib.contextmanager
    def running(self, base: Path) -> Iterator[Running]:
        # Erlang's port mapper would be left behind as a daemon if the node had to start it.
        command = ["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"]
        mapper = subprocess.Popen(command, start_new_session=True)
        try:
            with super().running(base) as node:
                yield node
        finally:
            _stop(mapper)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _answers(port: int) -> bool:
    """Whether a broker speaks there: it answers a protocol header with connection.start."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
            peer.sendall(b"AMQP\x00\x00\x09\x01")
            return peer.recv(1) == b"\x01"
    except OSError:
        return False


def resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _stop(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGCONT)
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
