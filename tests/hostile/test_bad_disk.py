"""A disk that fills up or fails: nothing confirmed is lost, everybody concerned is told, and others are served."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.confirms import ConfirmedPublisher
from tests.hostile.disks import enlarge, mounted_tmpfs
from tests.servers import BrokerProcess
from tests.sockets import NO_PROPERTIES, AmqpSocket

# The alarm for a disk that runs low would stop publishers before it is full.
UNALARMED = {"FLINTMQ_ALARMS_DISK_FREE_MIN_BYTES": "0"}

QUEUES = ("first", "second")
STREAM = "stream"
BODY_BYTES = 4_096
# How far a publisher runs ahead of its confirms.
WINDOW = 64


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    with mounted_tmpfs(directory, "size=12m"):
        yield directory


def _open(broker: BrokerProcess) -> AmqpSocket:
    client = AmqpSocket(broker.port).open()
    client.open_channel()
    return client


def _declare(broker: BrokerProcess) -> None:
    """Two queues of the fanout exchange, and a stream on it too."""
    with _open(broker) as client:
        for name in (*QUEUES, STREAM):
            arguments: dict[str, object] = {"x-queue-type": "stream"} if name == STREAM else {}
            client.call(1, QueueDeclare(queue=name, durable=True, arguments=arguments), QueueDeclareOk)
            client.call(1, QueueBind(queue=name, exchange="amq.fanout"), QueueBindOk)


def _body(number: int) -> bytes:
    return b"%d:" % number + bytes(BODY_BYTES)


def _publish_until_refused(broker: BrokerProcess) -> tuple[list[int], str]:
    """Publishes until the broker does not take it; returns what it confirmed, and how it said no."""
    with _open(broker) as client:
        publisher = ConfirmedPublisher[int](client)
        said_no = "nack"
        try:
            _publish_into(publisher)
        except ClosedByPeer as closed:
            said_no = str(closed)
    assert said_no == "nack" or said_no.startswith("506 ")
    return publisher.confirmed, said_no


def _publish_into(publisher: ConfirmedPublisher[int]) -> None:
    number = 0
    while not publisher.refused:
        publisher.publish(number, "amq.fanout", "", _body(number))
        number += 1
        while publisher.pending >= WINDOW and not publisher.refused:
            publisher.collect(30.0)


def _contents(broker: BrokerProcess, queue: str) -> list[int]:
    """The numbers of all messages on a queue or stream, in order; they stay there."""
    with _open(broker) as client:
        count = client.call(1, QueueDeclare(queue=queue, passive=True), QueueDeclareOk).message_count
        arguments: dict[str, object] = {"x-stream-offset": "first"} if queue == STREAM else {}
        if queue == STREAM:
            client.call(1, BasicQos(prefetch_count=0xFFFF), BasicQosOk)
        client.call(1, BasicConsume(queue=queue, arguments=arguments), BasicConsumeOk)
        numbers = []
        for _ in range(count):
            client.expect(BasicDeliver, 1)
            number, _, rest = client.read_content()[1].partition(b":")
            assert rest == bytes(BODY_BYTES)
            numbers.append(int(number))
        return numbers


def _refuses_durable_work_alone(broker: BrokerProcess) -> None:
    """The broker still lets clients in and serves what needs no disk; what does is refused with 506 or a nack."""
    with _open(broker) as client:
        queue = client.call(1, QueueDeclare(exclusive=True), QueueDeclareOk).queue
        publisher = ConfirmedPublisher[str](client)
        publisher.publish("transient", "", queue, b"x", NO_PROPERTIES)
        while not publisher.confirmed:
            publisher.collect(30.0)
        publisher.publish("persistent", "amq.fanout", "", b"x")
        while not publisher.refused:
            publisher.collect(30.0)
    with _open(broker) as client:
        client.send_method(1, QueueDeclare(queue="third", durable=True))
        close = client.expect_close(506)
        assert close.reply_text.startswith("RESOURCE_ERROR - nothing durable can be stored: ")
        assert close.reply_text.endswith("restart the broker")


def _nothing_is_lost(broker: BrokerProcess, confirmed: list[int]) -> None:
    """Every queue has what was confirmed, in order, and nothing that was not published."""
    for queue in (*QUEUES, STREAM):
        found = _contents(broker, queue)
        assert found == list(range(len(found))), f"{queue} lost its order"
        assert len(found) >= len(confirmed), f"{queue} lost messages"
    assert confirmed == list(range(len(confirmed)))


def test_a_full_disk(small_disk: Path) -> None:
    """Publishers get nacks or 506, the log says why, the broker stays up, and with room and a restart all goes on."""
    with BrokerProcess(small_disk / "data", wrapper=(), **UNALARMED) as broker:
        _declare(broker)
        confirmed, said_no = _publish_until_refused(broker)
        assert len(confirmed) > 100
        assert said_no == "nack" or "disk full" in said_no
        fenced = broker.wait_for_log("storage fenced")
        assert fenced["level"] == "error"
        assert fenced["reason"].startswith("disk full: cannot write ")
        assert fenced["reason"].endswith("make room and restart the broker")
        _refuses_durable_work_alone(broker)
        assert broker.is_running
        # A clean end would be a lie.
        assert broker.stop() == 1
        enlarge(small_disk, "64m")
        broker.start()
        _nothing_is_lost(broker, confirmed)
        with _open(broker) as client:
            publisher = ConfirmedPublisher[int](client)
            publisher.publish(0, "", "first", b"again")
            while not publisher.confirmed:
                publisher.collect(30.0)


def test_a_disk_that_is_still_full_at_the_restart(small_disk: Path) -> None:
    """Without room the broker says at its start what it cannot write, or serves what it has; it loses nothing."""
    with BrokerProcess(small_disk / "data", wrapper=(), **UNALARMED) as broker:
        _declare(broker)
        confirmed, _ = _publish_until_refused(broker)
        broker.kill()
        broker.launch()
        broker.process.wait(60)
        assert broker.process.returncode == 1
        assert broker.log[-1]["event"].startswith("flintmq: disk full: ")
        enlarge(small_disk, "64m")
        broker.start()
        _nothing_is_lost(broker, confirmed)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which makes system calls fail, is not installed")
def test_a_sync_that_fails_once(tmp_path: Path) -> None:
    """After one failed sync nothing durable is promised, though the next sync would succeed."""
    strace = ("strace", "-D", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync")
    with BrokerProcess(tmp_path / "data", wrapper=(*strace, "-e", "inject=fdatasync:error=EIO:when=40")) as broker:
        _declare(broker)
        confirmed, said_no = _publish_until_refused(broker)
        assert said_no == "nack" or "disk failed" in said_no
        assert "EIO" in broker.wait_for_log("storage fenced", level="error")["reason"]
        _refuses_durable_work_alone(broker)
        assert broker.stop() == 1
    with BrokerProcess(tmp_path / "data") as broker:
        _nothing_is_lost(broker, confirmed)


def test_a_stream_that_cannot_be_read(tmp_path: Path) -> None:
    """Who reads a stream whose file is gone is closed with 541 and told the file; others of its queues go on."""
    with BrokerProcess(tmp_path / "data") as broker:
        _declare(broker)
        with _open(broker) as client:
            publisher = ConfirmedPublisher[int](client)
            publisher.publish(0, "amq.fanout", "", _body(0))
            while publisher.pending:
                publisher.collect(30.0)
        broker.restart()
        (file,) = (tmp_path / "data" / "streams").glob("*/*.stream")
        file.unlink()
        with _open(broker) as client:
            client.call(1, BasicQos(prefetch_count=1), BasicQosOk)
            client.call(1, BasicConsume(queue=STREAM, arguments={"x-stream-offset": "first"}), BasicConsumeOk)
            close = client.expect_close(541)
            assert close.reply_text.startswith(f"INTERNAL_ERROR - {file} cannot be read (")
            assert str(file) in broker.wait_for_log("connection ended", peer=client.name)["reason"]
        for queue in QUEUES:
            assert _contents(broker, queue) == [0]
        assert broker.stop() == 0
