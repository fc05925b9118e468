"""A broker with I/O workers: the same to its clients, and what happens when one of its processes dies."""

import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pika
import pika.exceptions
import pytest
import trustme

from flintmq.base.errors import FlintError
from flintmq.embedded import Broker
from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from flintmq.wire.amqp091.methods import BasicConsume, ConnectionStart, QueueDeclare, QueueDeclareOk
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, publish_frames
from tests.waiting import WAIT_SECONDS, wait_until

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def broker(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Two workers, TLS, and `guest` may log in by certificate."""
    directory = tmp_path_factory.mktemp("workers")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    certify(authority, directory)
    settings: dict[str, Any] = {
        "FLINTMQ_SERVER_IO_WORKERS": "2",
        "FLINTMQ_TLS_CERTIFICATE": str(directory / "server.pem"),
        "FLINTMQ_TLS_CA": str(directory / "ca.pem"),
        "FLINTMQ_TLS_PORT": "0",
        "FLINTMQ_TLS_VERIFY": "optional",
    }
    with BrokerProcess(directory / "data", **settings) as running:
        yield running
        assert running.stop() == 0


def certify(authority: trustme.CA, directory: Path) -> None:
    new = directory / "new.pem"
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(new)
    new.replace(directory / "server.pem")


def parameters(broker: BrokerProcess) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", broker.port, heartbeat=0)


def connections(broker: BrokerProcess) -> Any:  # noqa: ANN401 - whatever the API tells of them
    return httpx.get(f"{broker.http_url}/api/connections", auth=("guest", "guest"), timeout=WAIT_SECONDS).json()


def owner_of(broker: BrokerProcess, port: int) -> int:
    """The process that has the broker's end of the connection of a client's port."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    wanted = f"0100007F:{broker.port:04X}", f"0100007F:{port:04X}"
    inode = next(line.split()[9] for line in lines if tuple(line.split()[1:3]) == wanted)
    for pid in [broker.process.pid, *broker.workers]:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if file.readlink().name == f"socket:[{inode}]":
                    return pid
    raise AssertionError(f"nobody has the connection of port {port}")


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Client:
    """A client with a queue of its own, which tells whether it is served."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._connection = pika.BlockingConnection(parameters(broker))
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._queue = self._channel.queue_declare("", exclusive=True).method.queue
        stream = self._connection._impl._transport
        self.port = int(stream._sock.getsockname()[1])
        self.worker = owner_of(broker, self.port)

    def is_served(self) -> bool:
        try:
            self._channel.basic_publish("", self._queue, b"still here", mandatory=True)
            return bool(self._channel.basic_get(self._queue, auto_ack=True)[2] == b"still here")
        except pika.exceptions.AMQPError:
            return False

    def close(self) -> None:
        with suppress(pika.exceptions.AMQPError):
            self._connection.close()


def of_both_workers(broker: BrokerProcess, stack: ExitStack) -> list[Client]:
    """Clients of every worker."""
    clients: list[Client] = []
    while {client.worker for client in clients} != set(broker.workers):
        assert len(clients) < 200, "one worker accepts all clients"
        clients.append(stack.enter_context(closing(Client(broker))))
    return clients


def test_clients_do_not_notice(broker: BrokerProcess) -> None:
    """A message of any size goes through, and the API tells the client's own address."""
    with closing(pika.BlockingConnection(parameters(broker))) as connection:
        port = connection._impl._transport._sock.getsockname()[1]
        assert owner_of(broker, port) in broker.workers
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for size in (0, 1, 70_000, 9_000_000):
            body = os.urandom(size)
            channel.basic_publish("", queue, body, mandatory=True)
            assert channel.basic_get(queue, auto_ack=True)[2] == body
        found = connections(broker)
        mine = next(each for each in found if each["peer_port"] == port)
        assert (mine["peer_host"], mine["host"], mine["port"]) == ("127.0.0.1", "127.0.0.1", broker.port)
        assert mine["ssl"] is False


def test_tls_ends_at_the_worker(broker: BrokerProcess, authority: trustme.CA) -> None:
    """A client that has logged in by its certificate is seen as one by TLS."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert("client", common_name="guest").configure_cert(context)
    options = pika.SSLOptions(context, "localhost")
    by_certificate = pika.ConnectionParameters(
        "127.0.0.1", broker.tls_port, ssl_options=options, credentials=pika.credentials.ExternalCredentials()
    )
    with closing(pika.BlockingConnection(by_certificate)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        body = os.urandom(3_000_000)
        channel.basic_publish("", queue, body, mandatory=True)
        assert channel.basic_get(queue, auto_ack=True)[2] == body
        found = connections(broker)
        assert [each["user"] for each in found if each["ssl"]] == ["guest"]


def test_workers_load_renewed_certificates(broker: BrokerProcess, authority: trustme.CA) -> None:
    """On SIGHUP, every worker presents the new certificate to the clients that come then."""
    context = ssl.create_default_context()
    authority.configure_trust(context)

    def presented() -> bytes | None:
        with (
            socket.create_connection(("127.0.0.1", broker.tls_port), WAIT_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as secure,
        ):
            secure.send(PROTOCOL_HEADER)
            return secure.getpeercert(binary_form=True)

    before = presented()
    certify(authority, broker.data.parent)
    broker.process.send_signal(signal.SIGHUP)
    broker.wait_for_log("settings read again")
    wait_until(lambda: all(presented() != before for _ in range(20)))


def test_everybody_gets_in_who_comes_at_the_same_time(broker: BrokerProcess) -> None:
    """A worker that has told the broker of as many clients as it may goes on when the broker has heard of them."""
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(AmqpSocket(broker.port))) for _ in range(300)]
        for client in clients:
            client.send(PROTOCOL_HEADER)
        for client in clients:
            client.expect(ConnectionStart)


def test_a_killed_worker_takes_only_its_clients_along(broker: BrokerProcess) -> None:
    """Its clients are disconnected, those of the other one stay, and another worker takes its place."""
    with ExitStack() as stack:
        clients = of_both_workers(broker, stack)
        victim = clients[0].worker
        os.kill(victim, signal.SIGKILL)
        line = broker.wait_for_log("I/O worker ended", pid=victim)
        assert line["status"] == -signal.SIGKILL
        for client in clients:
            assert client.is_served() == (client.worker != victim)
        broker.wait_for_log("I/O worker started again", worker=line["worker"])
        assert len(broker.workers) == 2
        assert victim not in broker.workers
        of_both_workers(broker, stack)
    wait_until(lambda: not connections(broker))


def test_a_worker_is_replaced_while_the_certificate_is_unusable(authority: trustme.CA, tmp_path: Path) -> None:
    """It has the certificate that the broker has loaded, whatever is in the file by then."""
    certify(authority, tmp_path)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    settings: dict[str, Any] = {"FLINTMQ_TLS_CERTIFICATE": str(tmp_path / "server.pem"), "FLINTMQ_TLS_PORT": "0"}
    with BrokerProcess(tmp_path / "data", FLINTMQ_SERVER_IO_WORKERS="1", **settings) as broker:
        (tmp_path / "server.pem").write_text("half a file")
        os.kill(broker.workers[0], signal.SIGKILL)
        broker.wait_for_log("I/O worker started again")
        options = pika.SSLOptions(context, "localhost")
        for to in (parameters(broker), pika.ConnectionParameters("127.0.0.1", broker.tls_port, ssl_options=options)):
            pika.BlockingConnection(to).close()
        assert broker.stop() == 0


def test_a_stopped_worker_does_not_stop_the_other(broker: BrokerProcess) -> None:
    """The system may not run one of them for a while: its clients wait, and the others are served and accepted."""
    with ExitStack() as stack:
        clients = of_both_workers(broker, stack)
        stopped = clients[0].worker
        os.kill(stopped, signal.SIGSTOP)
        try:
            assert all(client.is_served() for client in clients if client.worker != stopped)
            assert stack.enter_context(closing(Client(broker))).worker != stopped
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert all(client.is_served() for client in clients)


def test_a_client_that_does_not_read_stalls_nobody(tmp_path: Path) -> None:
    """Of the one worker: what waits for it stays in the broker, and in no other's way."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_SERVER_IO_WORKERS="1") as broker:
        with closing(Client(broker)) as other, AmqpSocket(broker.port) as client:
            client.open().open_channel()
            client.call(1, QueueDeclare(queue="unread"), QueueDeclareOk)
            client.send_method(1, BasicConsume(queue="unread", no_ack=True, no_wait=True))
            for _ in range(64):
                client.send(publish_frames(1, "", "unread", bytes(1024 * 1024)))
            for _ in range(100):
                assert other.is_served()
            (worker,) = broker.workers
            status = Path(f"/proc/{worker}/status").read_text()
            resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
            assert resident < 150_000
        assert broker.stop() == 0


def test_the_end_of_the_broker_is_the_end_of_its_workers(tmp_path: Path) -> None:
    """However it ends: killed, or in order, with a word to its clients."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_SERVER_IO_WORKERS="2") as broker:
        workers = broker.workers
        assert len(workers) == 2
        client = Client(broker)
        broker.kill()
        wait_until(lambda: not any(map(is_there, workers)))
        assert not client.is_served()
        broker.start()
        workers = broker.workers
        told = pika.BlockingConnection(parameters(broker))
        broker.process.send_signal(signal.SIGTERM)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            told.process_data_events(time_limit=WAIT_SECONDS)
        assert closed.value.reply_code == 320
        assert broker.ended() == 0
        assert not any(map(is_there, workers))


def test_signals_to_all_processes_stop_the_broker_in_order(tmp_path: Path) -> None:
    """A terminal sends SIGINT to the whole group, and the workers leave it to the broker."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_SERVER_IO_WORKERS="2") as broker:
        client = pika.BlockingConnection(parameters(broker))
        for pid in [*broker.workers, broker.process.pid]:
            os.kill(pid, signal.SIGINT)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            client.process_data_events(time_limit=WAIT_SECONDS)
        assert broker.ended() == 0
        assert not [line for line in broker.log if line["event"] == "I/O worker ended"]


def test_confirmed_messages_survive_both(tmp_path: Path) -> None:
    """Whichever process is killed, what was confirmed is on its queue."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_SERVER_IO_WORKERS="1") as broker:
        confirmed = 0
        for victim in ("worker", "broker"):
            connection = pika.BlockingConnection(parameters(broker))
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("kept", durable=True)
            for _ in range(200):
                channel.basic_publish("", "kept", b"%d" % confirmed, PERSISTENT, mandatory=True)
                confirmed += 1
            if victim == "worker":
                os.kill(broker.workers[0], signal.SIGKILL)
                broker.wait_for_log("I/O worker started again")
            else:
                broker.kill()
                broker.start()
        with closing(pika.BlockingConnection(parameters(broker))) as connection:
            channel = connection.channel()
            kept = [int(channel.basic_get("kept", auto_ack=True)[2]) for _ in range(confirmed)]
            assert kept == list(range(confirmed))
        assert broker.stop() == 0


def workers_of_this_process() -> list[int]:
    pids = [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in pids if "relay.worker" in Path(f"/proc/{pid}/cmdline").read_text()]


def test_an_embedded_broker_has_workers_too() -> None:
    """It starts and ends them with itself."""
    with (
        Broker(settings={"server": {"io_workers": 1}}) as broker,
        closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection,
    ):
        assert len(workers_of_this_process()) == 1
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, b"hello")
        assert channel.basic_get(queue, auto_ack=True)[2] == b"hello"
    assert not workers_of_this_process()


def test_a_worker_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not start either, and says which setting does without."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with (
        pytest.raises(FlintError, match=r"I/O worker 0 did not start.*server\.io_workers = 0"),
        Broker(settings={"server": {"io_workers": 1}}),
    ):
        pass
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with (
        pytest.raises(FlintError, match=r"cannot be started.*server\.io_workers = 0"),
        Broker(settings={"server": {"io_workers": 1}}),
    ):
        pass
