"""Clients of a node that does not lead: the leader serves them as its own."""

import os
import signal
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pika
import pika.exceptions
import pytest
import trustme
from proton import Message
from proton.utils import BlockingConnection

from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from flintmq.wire.amqp091.methods import BasicConsume, ConnectionStart, QueueDeclare, QueueDeclareOk
from tests.cluster.nodes import NODES, Cluster
from tests.commands import run_process
from tests.etcd import EtcdProcess
from tests.servers import free_port
from tests.sockets import AmqpSocket, publish_frames
from tests.waiting import WAIT_SECONDS, wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed"),
]
DURABLE = pika.BasicProperties(delivery_mode=2)
GUEST = ("guest", "guest")


class ClusterOfAll(Cluster):
    """Nodes with all listeners. The certificates are in `path`, and so is each node's file of settings."""

    def __init__(self, path: Path) -> None:
        self.files = {node: path / f"{node}.toml" for node in NODES}
        for file in self.files.values():
            file.touch()
        self.tls_ports, self.http_ports, self.https_ports = ({node: free_port() for node in NODES} for _ in range(3))
        super().__init__(
            path,
            more=lambda node: {
                "FLINTMQ_CONFIG": str(self.files[node]),
                "FLINTMQ_TLS_CERTIFICATE": str(path / "server.pem"),
                "FLINTMQ_TLS_CA": str(path / "ca.pem"),
                "FLINTMQ_TLS_VERIFY": "optional",
                "FLINTMQ_TLS_PORT": str(self.tls_ports[node]),
                "FLINTMQ_MANAGEMENT_ENABLED": "true",
                "FLINTMQ_MANAGEMENT_PORT": str(self.http_ports[node]),
                "FLINTMQ_MANAGEMENT_TLS_PORT": str(self.https_ports[node]),
            },
        )

    def _launch(self) -> None:
        super()._launch()
        # The API is loaded while clients of AMQP are served already.
        self.nodes[self.leader()].wait_for_log("listening", matches=lambda line: "https" in line)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def cluster(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfAll]:
    """Nodes with TLS and the HTTP API, of which all survive."""
    directory = tmp_path_factory.mktemp("relay")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        directory / "server.pem"
    )
    with ClusterOfAll(directory) as made:
        yield made


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Cluster]:
    """Nodes whose end is part of the test."""
    with Cluster(tmp_path) as made:
        yield made


@pytest.fixture
def follower(cluster: ClusterOfAll) -> str:
    return relaying(cluster)


def relaying(cluster: Cluster) -> str:
    """A node that relays clients."""
    leader = cluster.leader()
    node = next(each for each in NODES if each != leader and cluster.nodes[each].is_running)
    await_relay(cluster, node, leader)
    return node


def await_relay(cluster: Cluster, node: str, leader: str) -> None:
    """Wait until the leader has the relay of a node."""

    def is_there() -> bool:
        lines = [line for line in cluster.nodes[leader].log if line["event"] in ("relay begins", "relay ended")]
        mine = [line for line in lines if line["node"] == node]
        return bool(mine) and mine[-1]["event"] == "relay begins"

    wait_until(is_there)


def parameters(cluster: Cluster, node: str) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", cluster.ports[node], heartbeat=0)


def port_of(connection: pika.BlockingConnection) -> int:
    return int(connection._impl._transport._sock.getsockname()[1])


def connections(cluster: ClusterOfAll, node: str) -> Any:  # noqa: ANN401 - whatever the API tells of them
    url = f"http://127.0.0.1:{cluster.http_ports[node]}/api/connections"
    return httpx.get(url, auth=GUEST, timeout=WAIT_SECONDS).json()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_messages_through_a_follower(cluster: ClusterOfAll, follower: str) -> None:
    """Messages of any size go through in both directions, with confirms, and the API tells the client's own address."""
    leader = cluster.leader()
    with (
        closing(pika.BlockingConnection(parameters(cluster, follower))) as connection,
        closing(pika.BlockingConnection(parameters(cluster, leader))) as at_leader,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("relayed", durable=True)
        for size in (0, 1, 70_000, 9_000_000):
            body = os.urandom(size)
            for here, there in ((channel, at_leader.channel()), (at_leader.channel(), channel)):
                here.basic_publish("", "relayed", body, DURABLE, mandatory=True)
                wait_until(lambda there=there: there.queue_declare("relayed", passive=True).method.message_count == 1)  # type: ignore[misc]
                assert there.basic_get("relayed", auto_ack=True)[2] == body
        for _ in range(100):
            channel.basic_publish("", "relayed", b"consumed", DURABLE, mandatory=True)
        consumed = [
            body for _, (_, _, body) in zip(range(100), channel.consume("relayed", auto_ack=True), strict=False)
        ]
        assert consumed == [b"consumed"] * 100
        channel.cancel()
        mine = next(each for each in connections(cluster, leader) if each["peer_port"] == port_of(connection))
        assert (mine["peer_host"], mine["host"], mine["port"]) == ("127.0.0.1", "127.0.0.1", cluster.ports[follower])
        assert mine["ssl"] is False


def test_amqp_1_0_through_a_follower(cluster: ClusterOfAll, follower: str) -> None:
    """A message that the broker has accepted comes back."""
    connection = BlockingConnection(f"amqp://guest:guest@127.0.0.1:{cluster.ports[follower]}", timeout=WAIT_SECONDS)
    with closing(pika.BlockingConnection(parameters(cluster, follower))) as other:
        other.channel().queue_declare("one-zero", durable=True)
        connection.create_sender("/queues/one-zero").send(Message(body="hello", durable=True))
        receiver = connection.create_receiver("/queues/one-zero", credit=1)
        assert receiver.receive(WAIT_SECONDS).body == "hello"
        receiver.accept()
    connection.close()


def test_tls_ends_at_the_follower(cluster: ClusterOfAll, follower: str, authority: trustme.CA) -> None:
    """On either port, and who the client's certificate says it is may log in."""
    context = trusting(authority)
    authority.issue_cert("client", common_name="guest").configure_cert(context)
    for port in (cluster.tls_ports[follower], cluster.ports[follower]):
        by_certificate = pika.ConnectionParameters(
            "127.0.0.1",
            port,
            ssl_options=pika.SSLOptions(context, "localhost"),
            credentials=pika.credentials.ExternalCredentials(),
        )
        with closing(pika.BlockingConnection(by_certificate)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            queue = channel.queue_declare("", exclusive=True).method.queue
            body = os.urandom(3_000_000)
            channel.basic_publish("", queue, body, mandatory=True)
            assert channel.basic_get(queue, auto_ack=True)[2] == body
            found = connections(cluster, follower)
            assert [(each["user"], each["port"]) for each in found if each["ssl"]] == [("guest", port)]


def test_a_follower_takes_up_settings_of_tls(cluster: ClusterOfAll, follower: str, authority: trustme.CA) -> None:
    """By a signal, like a broker that is alone, while it relays clients."""
    context = trusting(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    old = pika.ConnectionParameters(
        "127.0.0.1", cluster.tls_ports[follower], ssl_options=pika.SSLOptions(context, "localhost")
    )
    pika.BlockingConnection(old).close()
    reread = "settings read again"
    for settings in ('tls.minimum_version = "1.3"', ""):
        cluster.files[follower].write_text(settings)
        count = sum(line["event"] == reread for line in cluster.nodes[follower].log)
        cluster.nodes[follower].process.send_signal(signal.SIGHUP)
        wait_until(lambda count=count: sum(x["event"] == reread for x in cluster.nodes[follower].log) > count)  # type: ignore[misc]
        if settings:
            with pytest.raises(ssl.SSLError):
                pika.BlockingConnection(old)
        else:
            pika.BlockingConnection(old).close()


def test_http_through_a_follower(cluster: ClusterOfAll, follower: str, authority: trustme.CA) -> None:
    """The API and its pages, with requests and answers of any size; by TLS, too."""
    for url in (
        f"http://127.0.0.1:{cluster.http_ports[follower]}",
        f"https://127.0.0.1:{cluster.https_ports[follower]}",
    ):
        with httpx.Client(base_url=url, auth=GUEST, timeout=WAIT_SECONDS, verify=trusting(authority)) as client:
            assert client.get("/api/whoami").json()["name"] == "guest"
            page = client.get("/")
            assert page.status_code == 200
            # A page that came by TLS is to be asked for by TLS from then on.
            assert ("strict-transport-security" in page.headers) == url.startswith("https")
            queues = [{"name": f"q{number}", "vhost": "/", "durable": True} for number in range(1_000)]
            assert client.post("/api/definitions", json={"queues": queues}).is_success
            assert len(client.get("/api/definitions").json()["queues"]) >= 1_000
            assert client.get("/api/whoami", auth=("guest", "wrong")).status_code == 401


def test_commands_at_a_follower(cluster: ClusterOfAll, follower: str) -> None:
    """They ask the API of any node, and list clients of all nodes by their own addresses."""
    with closing(pika.BlockingConnection(parameters(cluster, follower))) as connection:
        api = f"http://guest:guest@127.0.0.1:{cluster.http_ports[follower]}"
        listed = run_process("list-connections", "--json", "--api", api)
        assert listed.returncode == 0, listed.stderr
        assert f"127.0.0.1:{port_of(connection)}" in listed.stdout


def test_a_crowd_through_a_follower(cluster: ClusterOfAll, follower: str) -> None:
    """All come in that come at the same time."""
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(AmqpSocket(cluster.ports[follower]))) for _ in range(200)]
        for client in clients:
            client.send(PROTOCOL_HEADER)
        for client in clients:
            client.expect(ConnectionStart)


def test_a_client_that_does_not_read_stalls_nobody(cluster: ClusterOfAll, follower: str) -> None:
    """What waits for it is in the way of no other client of the same follower."""
    with (
        closing(pika.BlockingConnection(parameters(cluster, follower))) as other,
        AmqpSocket(cluster.ports[follower]) as client,
    ):
        client.open().open_channel()
        client.call(1, QueueDeclare(queue="unread", exclusive=True), QueueDeclareOk)
        client.send_method(1, BasicConsume(queue="unread", no_ack=True, no_wait=True))
        for _ in range(64):
            client.send(publish_frames(1, "", "unread", bytes(1024 * 1024)))
        channel = other.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(100):
            channel.basic_publish("", queue, b"still here", mandatory=True)
            assert channel.basic_get(queue, auto_ack=True)[2] == b"still here"


def test_the_leader_is_killed(mortal: Cluster) -> None:
    """Clients of a follower learn of it at once, and are served again at the same address, also by the next leader."""
    old = mortal.leader()
    others = [node for node in NODES if node != old]
    for node in others:
        await_relay(mortal, node, old)
    clients = [pika.BlockingConnection(parameters(mortal, node)) for node in others]
    mortal.nodes[old].kill()
    for client in clients:
        with pytest.raises(pika.exceptions.AMQPError):
            client.process_data_events(time_limit=WAIT_SECONDS)
    mortal.await_another_than(old)
    leader = mortal.leader()
    await_relay(mortal, next(node for node in others if node != leader), leader)
    for node in others:
        with closing(pika.BlockingConnection(parameters(mortal, node))) as client:
            channel = client.channel()
            channel.confirm_delivery()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", queue, b"again", mandatory=True)
            assert channel.basic_get(queue, auto_ack=True)[2] == b"again"


def test_the_leader_stands_still(mortal: Cluster) -> None:
    """Clients of a follower are disconnected when another node leads, although the old leader says nothing."""
    old = mortal.leader()
    node = relaying(mortal)
    client = pika.BlockingConnection(parameters(mortal, node))
    process = mortal.nodes[old].process
    process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(pika.exceptions.AMQPError):
            client.process_data_events(time_limit=WAIT_SECONDS)
    finally:
        process.send_signal(signal.SIGCONT)


def test_the_leader_stops(mortal: Cluster) -> None:
    """It closes the connections of all clients in order, and tells those of followers why, too."""
    client = pika.BlockingConnection(parameters(mortal, relaying(mortal)))
    old = mortal.leader()
    mortal.nodes[old].process.terminate()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        client.process_data_events(time_limit=WAIT_SECONDS)
    assert closed.value.reply_code == 320
    assert mortal.nodes[old].ended() == 0


def test_without_a_leader_clients_are_not_kept_waiting(mortal: Cluster) -> None:
    """A node that can serve nobody disconnects clients, so that they try others."""
    leader = mortal.leader()
    last = next(node for node in NODES if node != leader)
    for node in NODES:
        if node != last:
            mortal.nodes[node].kill()
    with AmqpSocket(mortal.ports[last]) as client:
        client.expect_end()
