"""Brokers to measure: each started on loopback with a data directory of its own, and gone afterwards."""

import contextlib
import datetime as dt
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

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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
class Certificate:
    """Paths of PEM files: a certificate that signs itself, and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Running:
    """A broker that accepts connections.

    `boot_seconds` passed until it did, and `boot_cpu_seconds` is the processor time that it and the programs its start
    waited for spent until then. `idle_mb` is its resident memory a second later. All three are None for a broker that
    ran already. `tls_port` is None without a certificate.
    """

    name: str
    port: int
    pid: int | None = None
    boot_seconds: float | None = None
    boot_cpu_seconds: float | None = None
    idle_mb: float | None = None
    tls_port: int | None = None

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

    @abstractmethod
    def tls_environment(self, directory: Path, port: int, certificate: Certificate) -> dict[str, str]:
        """What makes it accept TLS at `port`, too."""

    @contextlib.contextmanager
    def running(self, base: Path) -> Iterator[Running]:
        """Start it with an empty data directory below `base`; stop it and delete that when the block ends."""
        with self.directory(base) as directory, self.serving(directory) as running:
            yield running

    @contextlib.contextmanager
    def directory(self, base: Path) -> Iterator[Path]:
        """An empty data directory below `base`, which is deleted when the block ends."""
        directory = base / self.name.lower()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @contextlib.contextmanager
    def serving(self, directory: Path, certificate: Certificate | None = None) -> Iterator[Running]:
        """Start it with what `directory` holds; stop it as an operator would when the block ends.

        Raises BrokerError if it does not accept connections.
        """
        port = free_port()
        environment = os.environ | self.environment(directory, port)
        tls_port = None
        if certificate is not None:
            tls_port = free_port()
            environment |= self.tls_environment(directory, tls_port, certificate)
        log = directory / "output.log"
        with log.open("w") as output:
            start = time.monotonic()
            process = subprocess.Popen(
                self.command(),
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._wait(process, port, log)
                boot = time.monotonic() - start
                cpu = cpu_seconds(process.pid)
                time.sleep(1)
                yield Running(self.name, port, process.pid, boot, cpu, resident_mb(process.pid), tls_port)
            finally:
                _stop(process)

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

    def tls_environment(self, directory: Path, port: int, certificate: Certificate) -> dict[str, str]:
        return {
            "FLINTMQ_TLS_CERTIFICATE": str(certificate.certificate),
            "FLINTMQ_TLS_KEY": str(certificate.key),
            "FLINTMQ_TLS_PORT": str(port),
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

    def tls_environment(self, directory: Path, port: int, certificate: Certificate) -> dict[str, str]:
        settings = directory / "rabbitmq.conf"
        settings.write_text(
            f"listeners.ssl.default = 127.0.0.1:{port}\n"
            f"ssl_options.certfile = {certificate.certificate}\n"
            f"ssl_options.keyfile = {certificate.key}\n"
            "ssl_options.verify = verify_none\n"
        )
        return {"RABBITMQ_CONFIG_FILE": str(settings)}

    @contextlib.contextmanager
    def serving(self, directory: Path, certificate: Certificate | None = None) -> Iterator[Running]:
        # Erlang's port mapper would be left behind as a daemon if the node had to start it.
        command = ["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"]
        mapper = subprocess.Popen(command, start_new_session=True)
        try:
            with super().serving(directory, certificate) as node:
                yield node
        finally:
            _stop(mapper)


def make_certificate(directory: Path) -> Certificate:
    """A certificate for localhost that is valid for a day, written below `directory`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(hours=1)).not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    written = Certificate(directory / "certificate.pem", directory / "key.pem")
    written.certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    written.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return written


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


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has spent, with that of the children it has waited for (/proc/PID/stat)."""
    # The name in parentheses may hold spaces: utime, stime, cutime and cstime are the 12th to 15th field behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGCONT)
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
