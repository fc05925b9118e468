"""Links of AMQP 1.0 that end and come back, in frames written here by the specification, beside a queue of pika's."""

import re
from collections.abc import Callable, Iterator

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.hostile.amqp10_frames import (
    ACCEPTED,
    DETACH,
    DISPOSITION,
    ERROR,
    FALSE,
    FLOW,
    NULL,
    SOURCE,
    TARGET,
    TRANSFER,
    TRUE,
    VALUE,
    Frame,
    Peer,
    described,
    section,
    symbol,
    table,
    text,
    uint,
)
from tests.hostile.conftest import Bystander
from tests.hostile.test_partial_messages import add_user
from tests.servers import BrokerProcess
from tests.waiting import WAIT_SECONDS

Connect = Callable[..., Peer]
COPY = symbol("copy")
OFFSET = symbol("rabbitmq:stream-offset-spec")
FROM_FIRST = table(OFFSET, b"\x00" + OFFSET + text("first"))


@pytest.fixture
def connect(broker: BrokerProcess, bystander: Bystander) -> Iterator[Connect]:
    """Connects a client that calls itself as it is told."""
    made: list[Peer] = []

    def connect(container: str = "", user: str = "guest") -> Peer:
        peer = Peer(broker.port)
        made.append(peer)
        peer.start(container, user=user)
        return peer

    yield connect
    for peer in made:
        peer.close()
    bystander.is_served()
    assert not broker.faults, broker.faults


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return re.sub(r"\W+", "-", request.node.name)


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> Iterator[str]:
    channel.queue_declare(name, durable=True)
    yield name
    channel.queue_delete(name)


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))


def depth(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def source(queue: str, expiry: str = "session-end", mode: bytes = NULL, filters: bytes = NULL) -> bytes:
    return described(SOURCE, text(f"/queues/{queue}"), uint(0), symbol(expiry), uint(0), FALSE, NULL, mode, filters)


def body(frame: Frame) -> bytes:
    """What pika published, in the only section of its kind."""
    return frame.payload.partition(b"\x00\x53\x75\xa0")[2][1:]


def drained(peer: Peer, count: int) -> list[bytes]:
    """All that there is for a link whose delivery-count is this, which is settled."""
    found: list[bytes] = []
    peer.flow(100, count=count, drain=TRUE)
    while True:
        frame = peer.next()
        if frame.code == FLOW:
            assert frame.fields[6] == 0
            return found
        assert frame.code == TRANSFER, frame
        peer.settle(frame.fields[1], frame.fields[1], described(ACCEPTED))
        found.append(body(frame))


def taken(peer: Peer, count: int) -> list[bytes]:
    return [body(peer.expect(TRANSFER)) for _ in range(count)]


# -- dispositions behind a detach -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("closed", "error", "left"),
    [
        (FALSE, NULL, 1),
        (TRUE, NULL, 3),
        (FALSE, described(ERROR, symbol("amqp:internal-error")), 3),
    ],
    ids=["detached", "closed", "in error"],
)
def test_a_disposition_behind_a_detach(
    connect: Connect, channel: BlockingChannel, queue: str, closed: bytes, error: bytes, left: int
) -> None:
    """2.7.6: a state is applied to deliveries of links that are detached, unless they are closed or in error."""
    publish(channel, queue, b"1", b"2", b"3")
    peer = connect()
    peer.receiver("link", source(queue))
    peer.flow(3)
    assert taken(peer, 3) == [b"1", b"2", b"3"]
    peer.detach(closed, error=error)
    peer.settle(0, 1, described(ACCEPTED))
    peer.leave()
    assert depth(channel, queue) == left


# -- names of links ---------------------------------------------------------------------------------------------


@pytest.fixture
def other_user(broker: BrokerProcess) -> Iterator[str]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_SECONDS) as api:
        add_user(api, "other")
        yield "other"
        assert api.delete("/api/users/other").is_success


@pytest.mark.parametrize("role", ["receiver", "sender"])
def test_a_link_of_the_same_name_elsewhere(
    connect: Connect, channel: BlockingChannel, queue: str, other_user: str, role: str
) -> None:
    """2.6.1: it takes over the link of its name, direction and container; that one is detached as stolen.

    Links of another container, or of another user who takes the container's name, are others.
    """
    first, second, stranger = connect("one"), connect("one"), connect("other")
    impostor = connect("one", other_user)
    for peer in (first, stranger, impostor, second):
        if role == "receiver":
            peer.receiver("link", source(queue))
        else:
            peer.sender("link", described(TARGET, text(f"/queues/{queue}")))
    detach = first.expect(DETACH)
    assert detach.fields[1] is not True
    assert detach.fields[2].value[0] == "amqp:link:stolen"
    first.say(DETACH, uint(0), FALSE)
    for peer in (second, stranger, impostor):
        if role == "receiver":
            peer.flow(1)
            publish(channel, queue, b"m")
            assert taken(peer, 1) == [b"m"]
            peer.settle(0, 0, described(ACCEPTED))
        else:
            peer.transfer(0, section(VALUE, text("m")))
            assert peer.expect(DISPOSITION).fields[4].descriptor == ACCEPTED
    assert depth(channel, queue) == (0 if role == "receiver" else 3)


# -- copies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["detached", "disconnected"])
@pytest.mark.parametrize("kind", ["classic", "stream"])
def test_a_copying_link_that_comes_back(
    connect: Connect, channel: BlockingChannel, name: str, kind: str, how: str
) -> None:
    """3.5.2: it gets each message once, whatever offset its source asks for."""
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    publish(channel, name, b"1", b"2", b"3")
    copying = source(name, "never", COPY, NULL if kind == "classic" else FROM_FIRST)
    peer = connect(name)
    answer = peer.receiver("copies", copying)
    assert drained(peer, answer.fields[9]) == [b"1", b"2", b"3"]
    if how == "detached":
        peer.detach(FALSE)
    else:
        peer.leave()
        peer = connect(name)
    publish(channel, name, b"4")
    answer = peer.receiver("copies", copying, unsettled=table())
    assert drained(peer, answer.fields[9]) == [b"4"]
    peer.detach(TRUE)
    # It has begun anew once it was closed.
    answer = peer.receiver("copies", copying)
    assert drained(peer, answer.fields[9]) == [b"1", b"2", b"3", b"4"]
    peer.detach(TRUE)
    channel.queue_delete(name)


# -- what flows tell --------------------------------------------------------------------------------------------


def told_active(peer: Peer) -> bool:
    """What the next flow about it says."""
    while True:
        properties = peer.expect(FLOW).fields[10]
        if properties is not None:
            return bool(properties["rabbitmq:active"])


def test_a_standby_that_becomes_active(connect: Connect, channel: BlockingChannel, name: str) -> None:
    """Consumers of a quorum queue with a single active one are told which of them that is, without any message."""
    arguments = {"x-queue-type": "quorum", "x-single-active-consumer": True}
    channel.queue_declare(name, durable=True, arguments=arguments)
    first, second, third = connect(), connect(), connect()
    for peer, is_active in ((first, True), (second, False), (third, False)):
        peer.receiver("link", source(name))
        peer.flow(10)
        assert told_active(peer) == is_active
    publish(channel, name, b"1")
    assert taken(first, 1) == [b"1"]
    first.detach(TRUE)
    assert told_active(second)
    assert taken(second, 1) == [b"1"]
    second.settle(0, 0, described(ACCEPTED))
    # Nor does a lost connection leave the queue without one.
    second.close()
    assert told_active(third)
    publish(channel, name, b"2")
    assert taken(third, 1) == [b"2"]
    third.settle(0, 0, described(ACCEPTED))
    third.detach(TRUE)
    assert channel.queue_delete(name).method.message_count == 0


@pytest.mark.parametrize("mode", [NULL, COPY], ids=["by default", "copy"])
def test_what_is_available_of_a_stream(connect: Connect, channel: BlockingChannel, name: str, mode: bytes) -> None:
    """`available` is what is left for this reader: nothing behind the end, whatever the stream keeps."""
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    publish(channel, name, b"1", b"2", b"3")
    peer = connect()
    count = peer.receiver("link", source(name, mode=mode, filters=FROM_FIRST)).fields[9]

    def available(credit: int) -> int:
        peer.flow(credit, count=count, echo=TRUE)
        return int(peer.expect(FLOW).fields[7])

    assert available(0) == 3
    peer.flow(2, count=count)
    assert taken(peer, 2) == [b"1", b"2"]
    peer.settle(0, 1, described(ACCEPTED))
    count += 2
    assert available(0) == 1
    peer.flow(1, count=count)
    assert taken(peer, 1) == [b"3"]
    count += 1
    for credit in (0, 5):
        assert available(credit) == 0
    peer.settle(2, 2, described(ACCEPTED))
    assert available(0) == 0
    peer.detach(TRUE)
    channel.queue_delete(name)
