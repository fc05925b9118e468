"""Links of AMQP 1.0 that survive a killed broker: what either side had is not sent again, and arrives exactly once.

The termini are durable (unsettled-state) and never expire, so the broker keeps its half in the journal.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import pika
import pytest

import flintmq.client.amqp10 as amqp
from flintmq.base.errors import ConnectionLost, FlintError
from flintmq.client import socket_driver, url
from flintmq.client.amqp10 import terms
from flintmq.client.amqp10.connection import ClientConnection
from flintmq.client.driven import Timers
from flintmq.client.waitable import Waitable
from flintmq.protocol.output import Output
from flintmq.wire.amqp10.received import bytes_before
from flintmq.wire.amqp10.states import Received
from tests.crash.with_pika import opened
from tests.servers import BrokerProcess

# Kills, starts, and 64 MiB several times: more than other tests may take on a machine that is busy.
pytestmark = pytest.mark.timeout(400)

MIB: Final = 1024 * 1024
LARGE_BYTES: Final = 64 * MIB
# Between two kills, so much of the large message travels at least.
STRETCH_BYTES: Final = 12 * MIB
# What frames, and all that is said beside them, add to a payload: less than one part in so many.
OVERHEAD: Final = 500


class Counted:
    """A connection's core, and how many bytes travelled each way; no more go out than `sent_max`, or little more."""

    def __init__(self, core: ClientConnection) -> None:
        self._core = core
        self.received = 0
        self.sent = 0
        self.sent_max = 1 << 62

    @property
    def opened(self) -> Waitable:
        return self._core.opened

    @property
    def ended(self) -> Waitable:
        return self._core.ended

    @property
    def engine(self) -> Timers:
        return self._core.engine

    @property
    def output(self) -> Output:
        return self._core.output

    def check(self) -> None:
        self._core.check()

    def receive(self, data: bytes, now: float) -> None:
        self.received += len(data)
        self._core.receive(data, now)

    def lost(self, error: FlintError | None) -> None:
        self._core.lost(error)

    def has_output(self) -> bool:
        return self.sent < self.sent_max and self._core.has_output()

    def take_output(self) -> list[bytes | memoryview]:
        taken = self._core.take_output()
        self.sent += sum(map(len, taken))
        return taken

    def notice_end(self) -> None:
        self._core.notice_end()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", FLINTMQ_LIMITS_MESSAGE_MAX_BYTES=str(LARGE_BYTES + MIB)) as running:
        with opened(running) as channel:
            for name in ("q", "behind"):
                channel.queue_declare(name, durable=True)
        yield running


def connect(broker: BrokerProcess) -> tuple[amqp.Connection, Counted]:
    target = url.parse(broker.url)
    core = terms.connection(target, "survivor")
    counted = Counted(core)
    return amqp.Connection(core, socket_driver.connect(target, counted, 60.0)), counted


def until(connection: amqp.Connection, reached: Callable[[], bool]) -> None:
    """Take in what comes until then; raises ConnectionLost."""
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline, "nothing more came"
        connection.process(0.0)
        time.sleep(0.0005)


def queued(broker: BrokerProcess) -> int:
    with opened(broker) as channel:
        count: int = channel.queue_declare("q", durable=True, passive=True).method.message_count
    return count


def written(broker: BrokerProcess) -> int:
    """How many bytes the broker has written so far, wherever to: those of a file outlive its process."""
    (count,) = re.findall(r"^wchar: (\d+)$", Path(f"/proc/{broker.process.pid}/io").read_text(), re.MULTILINE)
    return int(count)


def crash(broker: BrokerProcess, connection: amqp.Connection) -> None:
    """Kill the broker once it has written what it has read, hear the last it said, and start it again."""
    with opened(broker) as channel:
        # A confirm says that this is on the disk, and so is what came before it.
        channel.basic_publish("", "behind", b"", pika.BasicProperties(delivery_mode=2))
    broker.kill()
    with pytest.raises(ConnectionLost):
        connection.process(60.0)
    connection.close()
    broker.start()


def bytes_of(delivery: amqp.Delivery) -> bytes:
    body = delivery.message.body
    assert isinstance(body, bytes)
    return body


def large() -> bytes:
    return random.Random(1).randbytes(LARGE_BYTES)


def test_a_large_message_that_is_received(broker: BrokerProcess) -> None:
    """Of 64 MiB on their way to a receiver, no byte that it has is sent again after a kill, and all come once."""
    body = large()
    connection, counted = connect(broker)
    assert connection.sender("/queues/q").send(amqp.Message(body)) == amqp.Accepted()
    source = amqp.Source("/queues/q", amqp.DURABLE_UNSETTLED_STATE, amqp.EXPIRE_NEVER)
    receiver = connection.receiver(source, name="download", credit=1)
    kills = 0
    had = 0
    while had + 2 * STRETCH_BYTES < LARGE_BYTES:
        goal = had + STRETCH_BYTES
        until(connection, lambda goal=goal: receiver.core.arrived >= goal)  # type: ignore[misc]
        crash(broker, connection)
        kills += 1
        had = receiver.core.arrived
        connection, counted = connect(broker)
        connection.resume(receiver)
    delivery = receiver.receive(timeout=60.0)
    assert kills >= 2
    assert counted.received - (LARGE_BYTES - had) < LARGE_BYTES // OVERHEAD
    assert delivery is not None
    assert sha256(bytes_of(delivery)).digest() == sha256(body).digest()
    receiver.accept(delivery)
    receiver.close()
    assert queued(broker) == 0
    crash(broker, connection)
    assert queued(broker) == 0


def test_a_large_message_that_is_sent(broker: BrokerProcess) -> None:
    """Of 64 MiB on their way to a queue, no byte that the broker had confirmed is sent again, and it has them once."""
    body = large()
    payload = amqp.Message(body).encode()
    connection, counted = connect(broker)
    target = amqp.Target("/queues/q", amqp.DURABLE_UNSETTLED_STATE, amqp.EXPIRE_NEVER)
    sender = connection.sender(target, name="upload")
    counted.sent_max = STRETCH_BYTES
    begun = written(broker)
    sent = sender.core.send(payload)
    confirmed = 0
    kills = 0
    while len(payload) - confirmed > 2 * STRETCH_BYTES:
        until(connection, lambda counted=counted: counted.sent >= STRETCH_BYTES)  # type: ignore[misc]
        # However slow the disk is: of all that was sent, at least most.
        until(connection, lambda begun=begun: written(broker) - begun >= STRETCH_BYTES - MIB)  # type: ignore[misc]
        crash(broker, connection)
        kills += 1
        connection, counted = connect(broker)
        begun = written(broker)
        counted.sent_max = STRETCH_BYTES
        connection.resume(sender)
        state = (sender.server.unsettled or {}).get(sent.tag)
        before = confirmed
        confirmed = bytes_before(payload, state) if isinstance(state, Received) else 0
        # What was on the disk once stays there.
        assert confirmed >= before
        if kills > 8:
            pytest.fail("the broker keeps nothing of a message that it has not got whole")
    counted.sent_max = 1 << 62
    sender.wait(timeout=60.0)
    assert kills >= 3
    assert counted.sent - (len(payload) - confirmed) < LARGE_BYTES // OVERHEAD
    assert sent.outcome == amqp.Accepted()
    sender.close()
    crash(broker, connection)
    connection, _ = connect(broker)
    receiver = connection.receiver("/queues/q")
    delivery = receiver.receive(timeout=60.0)
    assert delivery is not None
    assert sha256(bytes_of(delivery)).digest() == sha256(body).digest()
    receiver.accept(delivery)
    assert receiver.receive(timeout=0.5) is None
    connection.close()


def test_many_messages_that_are_sent(broker: BrokerProcess) -> None:
    """A sender that resumes after each kill has every message on the queue exactly once, in its order."""
    rng = random.Random(2)
    connection, _ = connect(broker)
    target = amqp.Target("/queues/q", amqp.DURABLE_UNSETTLED_STATE, amqp.EXPIRE_NEVER)
    sender = connection.sender(target, name="sender")
    count = 0
    for _ in range(4):
        for _ in range(rng.randrange(100, 1000)):
            sender.core.send(amqp.Message(b"%d" % count).encode())
            count += 1
        stop = time.monotonic() + rng.uniform(0.0, 0.1)
        until(connection, lambda stop=stop: time.monotonic() > stop)  # type: ignore[misc]
        crash(broker, connection)
        connection, _ = connect(broker)
        connection.resume(sender)
    sender.wait(timeout=60.0)
    sender.close()
    receiver = connection.receiver("/queues/q", credit=1000)
    got: list[bytes] = []
    while len(got) < count:
        batch = next(receiver.batches(timeout=60.0))
        got += [bytes_of(delivery) for delivery in batch.messages]
        batch.accept()
    assert receiver.receive(timeout=0.5) is None
    assert sorted(got) == sorted(b"%d" % number for number in range(count))
    connection.close()


def test_many_messages_that_are_received(broker: BrokerProcess) -> None:
    """A receiver that resumes after each kill takes every message exactly once, whatever it had settled by then."""
    rng = random.Random(3)
    count = 1500
    connection, _ = connect(broker)
    connection.sender("/queues/q").send_batch(amqp.Message(b"%d" % number) for number in range(count))
    source = amqp.Source("/queues/q", amqp.DURABLE_UNSETTLED_STATE, amqp.EXPIRE_NEVER)
    receiver = connection.receiver(source, name="receiver", credit=200, second=True)
    got: list[object] = []
    held: list[amqp.Delivery] = []
    while len(got) < count:
        quota = min(len(got) + rng.randrange(100, 600), count)
        while len(got) < quota:
            delivery = receiver.receive(timeout=60.0)
            assert delivery is not None, f"only {len(got)} came"
            got.append(delivery.message.body)
            held.append(delivery)
            if len(held) > rng.randrange(50):
                receiver.accept(*held)
                held.clear()
        crash(broker, connection)
        # What a program says while there is no connection counts, too.
        if rng.random() < 0.5 and held:
            receiver.core.settle(held.pop(), amqp.Accepted())
        connection, _ = connect(broker)
        connection.resume(receiver)
    receiver.accept(*held)
    until(connection, lambda: receiver.unsettled == 0)
    assert receiver.receive(timeout=0.5) is None
    receiver.close()
    connection.close()
    assert len(got) == len(set(got)) == count
    assert queued(broker) == 0
