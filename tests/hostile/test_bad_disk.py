"""A disk that fills up or fails: nothing confirmed is lost, everybody concerned is told, and others are served."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pika.exceptions
import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.wire.amqp091.methods import (
    BasicAck,
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
# Many of which can be removed while the disk is full.
SMALL_SEGMENTS = {**UNALARMED, "FLINTMQ_STORAGE_SEGMENT_BYTES": str(4 * 1024 * 1024)}

QUEUES = ("first", "second")
STREAM = "stream"
BODY_BYTES = 16_384
# How far a publisher runs ahead of its confirms.
WINDOW = 64


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "disk"
    directory.mkdir()
    with mounted_tmpfs(directory, "size=48m"):
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


class Filler:
    """Publishes and waits for each confirm, on a thread of its own, until it is told to stop.

    A second connection that publishes is told when publishers are blocked: the first only listens for its confirm.
    """

    def __init__(self, broker: BrokerProcess, exchange: str, key: str) -> None:
        self.confirmed: list[int] = []
        self._where = exchange, key
        self._stop = threading.Event()
        parameters = pika.URLParameters(broker.url + "?heartbeat=0")
        self._connection = pika.BlockingConnection(parameters)
        self._told = pika.BlockingConnection(parameters)
        self._channel = self._told.channel()
        self._is_blocked = False
        self._told.add_on_connection_blocked_callback(lambda *_: self._block(True))
        self._told.add_on_connection_unblocked_callback(lambda *_: self._block(False))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        channel = self._connection.channel()
        channel.confirm_delivery()
        persistent = pika.BasicProperties(delivery_mode=2)
        # Until the broker is killed, where it is.
        with suppress(pika.exceptions.AMQPConnectionError):
            while not self._stop.is_set():
                number = len(self.confirmed)
                channel.basic_publish(*self._where, _body(number), persistent)
                self.confirmed.append(number)
            self._connection.close()

    def _block(self, is_blocked: bool) -> None:
        self._is_blocked = is_blocked

    def _wait_until_told(self, is_blocked: bool) -> None:
        deadline = time.monotonic() + 60
        while self._is_blocked != is_blocked:
            assert time.monotonic() < deadline, f"not told after {len(self.confirmed)}"
            if is_blocked:
                self._channel.basic_publish("", "nowhere", b"")
            self._told.process_data_events(0.2)

    def wait_until_blocked(self) -> int:
        """Returns how many were confirmed. The confirm of one more may be on its way, and of no others.

        Before the disk is full, what is about to be written may make it look so for a moment.
        """
        while True:
            self._wait_until_told(True)
            count = len(self.confirmed)
            time.sleep(0.5)
            self._told.process_data_events(0)
            if self._is_blocked and len(self.confirmed) <= count + 1:
                return count

    def wait_until_unblocked(self) -> None:
        self._wait_until_told(False)

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.confirmed) < count:
            assert time.monotonic() < deadline, f"{len(self.confirmed)} of {count} confirmed"
            time.sleep(0.05)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._told.close()


def test_a_full_disk(small_disk: Path) -> None:
    """Publishers are blocked and get no confirm, consumers go on; with room, confirms come and all goes on."""
    with BrokerProcess(small_disk / "data", wrapper=(), **UNALARMED) as broker:
        _declare(broker)
        filler = Filler(broker, "amq.fanout", "")
        blocked = filler.wait_until_blocked()
        assert blocked > 100
        line = broker.wait_for_log("publishers have to wait")
        # The alarm may look at the disk when all of what is left is about to be written, before a write fails.
        assert line.get("cause", "").startswith("disk full: cannot write ") or line["reason"] == "low on disk"
        assert len(_contents(broker, "first")) >= blocked
        time.sleep(0.5)
        assert len(filler.confirmed) <= blocked + 1
        enlarge(small_disk, "96m")
        filler.wait_until_unblocked()
        filler.wait_for(blocked + 100)
        filler.stop()
        assert broker.stop() == 0
        broker.start()
        _nothing_is_lost(broker, filler.confirmed)


def test_a_disk_that_we_filled_ourselves(small_disk: Path) -> None:
    """Consuming what fills the disk makes room, also while it is full: publishers go on with nobody's help."""
    with BrokerProcess(small_disk / "data", wrapper=(), **SMALL_SEGMENTS) as broker:
        _declare(broker)
        filler = Filler(broker, "", "first")
        blocked = filler.wait_until_blocked()
        with _open(broker) as client:
            client.call(1, BasicConsume(queue="first"), BasicConsumeOk)
            for number in range(blocked):
                tag = client.expect(BasicDeliver, 1).delivery_tag
                assert client.read_content()[1] == _body(number)
                client.send_method(1, BasicAck(delivery_tag=tag))
            filler.wait_for(blocked + 100)
        filler.stop()
        assert broker.stop() == 0
        broker.start()
        left = _contents(broker, "first")
        assert left == list(range(left[0], len(filler.confirmed)))
        assert left[0] <= len(filler.confirmed)


def test_a_disk_that_is_still_full_at_the_restart(small_disk: Path) -> None:
    """Killed on a full disk, the broker starts on it in the room it kept, has all, and waits for more room."""
    with BrokerProcess(small_disk / "data", wrapper=(), **UNALARMED) as broker:
        _declare(broker)
        filler = Filler(broker, "amq.fanout", "")
        filler.wait_until_blocked()
        broker.kill()
        broker.start()
        broker.wait_for_log("publishers have to wait", level="error")
        _nothing_is_lost(broker, filler.confirmed)
        enlarge(small_disk, "96m")
        broker.wait_for_log("publishers may go on")
        with _open(broker) as client:
            publisher = ConfirmedPublisher[int](client)
            publisher.publish(0, "", "first", b"again")
            while not publisher.confirmed:
                publisher.collect(30.0)


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


def test_damage_in_the_journal(tmp_path: Path) -> None:
    """A broken block costs its message; the log says where it is, and where its bytes are kept. The rest is there."""
    with BrokerProcess(tmp_path / "data") as broker:
        _declare(broker)
        with _open(broker) as client:
            publisher = ConfirmedPublisher[int](client)
            for number in range(5):
                publisher.publish(number, "amq.fanout", "", _body(number))
                while publisher.pending:
                    publisher.collect(30.0)
        assert broker.stop() == 0
        (file,) = (tmp_path / "data" / "journal").glob("*.journal")
        data = bytearray(file.read_bytes())
        data[data.index(_body(2)) + BODY_BYTES // 2] ^= 1
        file.write_bytes(data)
        broker.start()
        told = broker.wait_for_log("damaged record set aside", level="error")
        assert told["damage"].startswith(f"{file} at byte ")
        assert _body(2)[:100] in Path(told["kept_in"]).read_bytes()
        for queue in QUEUES:
            assert _contents(broker, queue) == [0, 1, 3, 4]


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
