"""Streams that are fetched at a node that does not lead: it answers out of its own files, as the leader would."""

from collections.abc import Iterator

import pytest

import flintmq.client as fc
from tests.cluster.nodes import Cluster
from tests.etcd import EtcdProcess
from tests.integration.test_cluster_relay import await_relay, relaying

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed"),
]
COUNT = 2_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nodes with streams of small segments, which are damaged one by one. All of them survive."""
    directory = tmp_path_factory.mktemp("streams")
    with Cluster(directory, more=lambda _: {"FLINTMQ_STORAGE_SEGMENT_BYTES": "65536"}) as made:
        yield made


def url(cluster: Cluster, node: str) -> str:
    return f"amqp://guest:guest@127.0.0.1:{cluster.ports[node]}/%2f"


def fill(cluster: Cluster, stream: str, **arguments: object) -> None:
    with fc.connect(url(cluster, cluster.leader())) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream", **arguments})
        channel.publish_batch([("", stream, body(number)) for number in range(COUNT)])


def body(number: int) -> bytes:
    return b"message %d " % number * 10


def fetched(cluster: Cluster, node: str, stream: str) -> list[int]:
    """The offsets of all messages that a client of this node gets."""
    with fc.connect(url(cluster, node)) as connection:
        channel = connection.channel()
        records = [record for chunk in channel.stream_chunks(stream, 0, COUNT, 20_000) for record in chunk.records]
    assert all(record.body == body(record.offset) for record in records)
    return [record.offset for record in records]


def harm(cluster: Cluster, node: str) -> None:
    """Change a byte in every segment of all streams in the node's directory."""
    files = list((cluster.nodes[node].data / "streams").glob("*/*.stream"))
    assert files
    for file in files:
        with file.open("r+b") as opened:
            opened.seek(file.stat().st_size // 2)
            changed = bytes([opened.read(1)[0] ^ 1])
            opened.seek(-1, 1)
            opened.write(changed)


def test_a_follower_reads_its_own_files(cluster: Cluster) -> None:
    """It gives all messages when the leader's files are damaged, and the leader does when the follower's are."""
    leader = cluster.leader()
    follower = relaying(cluster)
    other = next(node for node in cluster.nodes if node not in (leader, follower))
    await_relay(cluster, other, leader)
    fill(cluster, "s")
    assert fetched(cluster, follower, "s") == list(range(COUNT))
    harm(cluster, follower)
    assert fetched(cluster, follower, "s") == list(range(COUNT))
    harm(cluster, leader)
    assert len(fetched(cluster, leader, "s")) < COUNT
    assert fetched(cluster, other, "s") == list(range(COUNT))


def test_messages_that_are_gone(cluster: Cluster) -> None:
    """The error is the leader's, at whichever node the client is."""
    fill(cluster, "short", **{"x-max-length-bytes": 150_000})
    with fc.connect(url(cluster, relaying(cluster))) as connection:
        channel = connection.channel()
        with pytest.raises(fc.ChannelClosed, match="offset 0 of stream 'short'"):
            list(channel.stream_chunks("short", 0, COUNT))
