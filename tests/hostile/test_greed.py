"""Clients that take without giving: they do not read, do not answer, or do not even speak. They harm nobody else."""

import threading
import time
from contextlib import suppress
from pathlib import Path

from flintmq.base.limits import OUTPUT_BACK_PRESSURE_BYTES
from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_HEARTBEAT
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from tests.hostile.conftest import Bystander
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, frame, header_frame, method_frame, publish_frames

MIB = 1024 * 1024


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:  # noqa: PTH123 - not a file
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


def test_returns_that_nobody_reads(broker: BrokerProcess, bystander: Bystander, attacker: AmqpSocket) -> None:
    """A publisher that does not read its returns is not read from until it does; then it gets all of them."""
    attacker.open().open_channel()
    body = bytes(100_000)
    message = (
        method_frame(1, BasicPublish(exchange="amq.direct", routing_key="nowhere", mandatory=True))
        + header_frame(1, len(body))
        + frame(FRAME_BODY, 1, body)
    )
    before = resident_bytes(broker.process.pid)
    sent = 0

    def send() -> None:
        nonlocal sent
        for _ in range(4_000):
            attacker.send(message)
            sent += 1

    sender = threading.Thread(target=send)
    sender.start()
    seen = -1
    while sent != seen:
        seen = sent
        bystander.is_served()
        time.sleep(1)
    assert sent < 4_000
    assert resident_bytes(broker.process.pid) - before < 2 * OUTPUT_BACK_PRESSURE_BYTES
    for _ in range(4_000):
        assert attacker.expect(BasicReturn, 1).reply_code == 312
        assert attacker.read_content()[1] == body
    sender.join()


def test_gets_that_nobody_reads(broker: BrokerProcess, bystander: Bystander, attacker: AmqpSocket) -> None:
    """A few bytes that ask for megabytes, again and again, are answered as fast as the answers are read, no faster."""
    attacker.open().open_channel()
    queue = attacker.call(1, QueueDeclare(exclusive=True), QueueDeclareOk).queue
    body = bytes(8 * MIB)
    attacker.send(publish_frames(1, "", queue, body))
    # It is there, and what it takes is not what is measured.
    assert attacker.call(1, QueueDeclare(queue=queue, passive=True), QueueDeclareOk).message_count == 1
    before = resident_bytes(broker.process.pid)
    # Taken and given back, a hundred times: 800 MiB to answer 9 KiB.
    give_back = BasicNack(delivery_tag=0, multiple=True, requeue=True)
    attacker.send_method(1, *[BasicGet(queue=queue), give_back] * 100)
    bystander.is_served()
    assert resident_bytes(broker.process.pid) - before < 3 * OUTPUT_BACK_PRESSURE_BYTES
    for number in range(100):
        assert attacker.expect(BasicGetOk, 1).redelivered == (number > 0)
        assert attacker.read_content()[1] == body
    attacker.call(1, QueueDelete(queue=queue), QueueDeleteOk)


def test_a_consumer_that_does_not_read(broker: BrokerProcess, bystander: Bystander, attacker: AmqpSocket) -> None:
    """Deliveries stop when its socket is full, the queue keeps the rest, and what was stopped goes on in order."""
    attacker.open().open_channel()
    with AmqpSocket(broker.port) as publisher:
        publisher.open().open_channel()
        queue = publisher.call(1, QueueDeclare(auto_delete=True), QueueDeclareOk).queue
        attacker.send_method(1, BasicConsume(queue=queue, no_ack=True))
        attacker.expect(BasicConsumeOk, 1)
        for number in range(1_000):
            publisher.send(publish_frames(1, "", queue, b"%d:" % number + bytes(100_000)))
        ready = publisher.call(1, QueueDeclare(queue=queue, passive=True), QueueDeclareOk).message_count
        # 100 MB were published; what fits the buffers of two sockets and of the broker is gone from the queue.
        assert ready > 500
        bystander.is_served()
        for number in range(1_000):
            attacker.expect(BasicDeliver, 1)
            assert attacker.read_content()[1].startswith(b"%d:" % number)


def test_a_client_that_falls_silent(broker: BrokerProcess, bystander: Bystander, attacker: AmqpSocket) -> None:
    """The broker sends heartbeats; from whom none come for two intervals is dropped, with its exclusive queues."""
    attacker.open(heartbeat=4).open_channel()
    queue = attacker.call(1, QueueDeclare(exclusive=True), QueueDeclareOk).queue
    heartbeats = 0
    try:
        while attacker.read_frame().kind == FRAME_HEARTBEAT:
            heartbeats += 1
    except EOFError:
        pass
    assert heartbeats > 0
    line = broker.wait_for_log("connection ended", peer=attacker.name)
    assert line["reason"] == "missed heartbeats: nothing came in 8 s"
    with AmqpSocket(broker.port) as other:
        other.open().open_channel()
        other.call(1, QueueDeclare(queue=queue.replace("amq.gen-", "was-"), exclusive=True), QueueDeclareOk)
        other.send_method(1, QueueDeclare(queue=queue, passive=True))
        assert other.read_frame().method.name == "channel.close"


def test_a_client_that_never_agrees_to_a_close(broker: BrokerProcess, attacker: AmqpSocket) -> None:
    """Who does not answer connection.close is hung up on after a while, and not listened to meanwhile."""
    attacker.open().open_channel()
    attacker.send(frame(9, 1, b""))
    assert attacker.expect(ConnectionClose).reply_code == 501
    attacker.send_method(1, QueueDeclare(exclusive=True))
    attacker.expect_end()
    broker.wait_for_log("connection ended", peer=attacker.name)


def test_a_client_that_reads_nothing_is_cut_off_though_it_says_it_lives(tmp_path: Path) -> None:
    """Its heartbeats do not help: when the send timeout is over, what it was sent goes to who reads."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_LIMITS_SEND_TIMEOUT_SECONDS="2") as broker:
        with AmqpSocket(broker.port) as deaf, AmqpSocket(broker.port) as other:
            deaf.open(heartbeat=60).open_channel()
            other.open().open_channel()
            queue = other.call(1, QueueDeclare(), QueueDeclareOk).queue
            for _ in range(40):
                other.send(publish_frames(1, "", queue, bytes(MIB)))
            deaf.call(1, BasicConsume(queue=queue), BasicConsumeOk)
            stop = time.monotonic() + 120
            with suppress(OSError):
                while time.monotonic() < stop and all(line["event"] != "connection ended" for line in broker.log):
                    deaf.send(frame(FRAME_HEARTBEAT, 0, b""))
                    time.sleep(0.1)
            line = broker.wait_for_log("connection ended", peer=deaf.name)
            assert "send timeout: the client has read nothing for 2 s" in line["reason"]
            for _ in range(40):
                other.call(1, BasicGet(queue=queue, no_ack=True), BasicGetOk)
                assert len(other.read_content()[1]) == MIB
        assert broker.stop() == 0


def _interleaved(broker: BrokerProcess, sent: list[int], ended: threading.Event) -> None:
    """Four messages of 8 MiB on four channels, a frame of each in turn; all of them end when the event is set.

    `sent` gets the bytes of each turn.
    """
    with AmqpSocket(broker.port) as client:
        client.open()
        for channel in range(1, 5):
            client.open_channel(channel)
            client.call(channel, ConfirmSelect(), ConfirmSelectOk)
            client.send(method_frame(channel, BasicPublish(routing_key="nowhere")) + header_frame(channel, 8 * MIB))
        parts = [frame(FRAME_BODY, channel, bytes(MIB // 16)) for channel in range(1, 5)]
        for number in range(128):
            while number == 127 and not ended.wait(0.5):
                # Whoever sends nothing while others wait for its memory is given up.
                client.send(frame(FRAME_HEARTBEAT, 0, b""))
            client.send(*parts)
            sent.append(sum(map(len, parts)))
        for channel in range(1, 5):
            client.expect(BasicAck, channel)


def test_messages_begun_have_a_bound_for_all_of_the_node(tmp_path: Path) -> None:
    """Ten connections begin 320 MiB where there is room for 32: what is too much waits in their sockets, others go on,
    and every message gets in.
    """
    with BrokerProcess(tmp_path / "data", FLINTMQ_ALARMS_MEMORY_HIGH_WATERMARK="256000000") as broker:
        before = resident_bytes(broker.process.pid)
        sent: list[int] = []
        ended = threading.Event()
        clients = [threading.Thread(target=_interleaved, args=(broker, sent, ended)) for _ in range(10)]
        for client in clients:
            client.start()
        bystander = Bystander(broker)
        most = 0
        while any(client.is_alive() for client in clients):
            bystander.is_served()
            most = max(most, resident_bytes(broker.process.pid))
            # For this much there is room, so that it is taken; and no message has ended by then.
            if sum(sent) >= 32 * MIB:
                ended.set()
            time.sleep(0.1)
        bystander.close()
        assert most - before < 128 * MIB
        assert not [line for line in broker.log if "begun" in line.get("reason", "")]
        assert broker.stop() == 0
