"""Tables, sizes and names that are not what they claim: the right close, and no memory for what never came."""

import struct
from dataclasses import dataclass

import pytest

from flintmq.base.limits import MESSAGE_MAX_BYTES, TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX
from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_METHOD
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, frame, header_frame, method_frame

# queue.declare of "q" without flags, as far as its arguments; and the flag of a headers property.
DECLARE = encode_method(QueueDeclare(queue="q"))[:-4]
HEADERS = b"\x20\x00"


def _table(entries: bytes) -> bytes:
    return struct.pack(">I", len(entries)) + entries


def _nested_tables(depth: int) -> bytes:
    table = _table(b"")
    for _ in range(depth - 1):
        table = _table(b"\x01kF" + table)
    return table


def _nested_lists(depth: int) -> bytes:
    value = _table(b"")
    for _ in range(depth - 2):
        value = _table(b"A" + value)
    return _table(b"\x01kA" + value)


BAD_TABLES = {
    "tables nested too deep": (_nested_tables(TABLE_DEPTH_MAX + 1), "nested deeper than 64"),
    "tables nested as deep as a frame allows": (_nested_tables(16_000), "nested deeper than 64"),
    "lists nested too deep": (_nested_lists(TABLE_DEPTH_MAX + 1), "nested deeper than 64"),
    "table of four gigabytes": (b"\xff\xff\xff\xff", "claims 4294967295 bytes"),
    "table one byte too long": (b"\x00\x00\x00\x04\x01kV", "claims 4 bytes, 3 are left"),
    "table one byte too short": (b"\x00\x00\x00\x02\x01kV", "ends within an entry"),
    "list of four gigabytes": (_table(b"\x01kA\xff\xff\xff\xff"), "claims 4294967295 bytes"),
    "string of four gigabytes": (_table(b"\x01kS\xff\xff\xff\xff"), "needs 4294967295 bytes"),
    "key longer than its table": (_table(b"\xffkV"), "needs 255 bytes"),
    "type nobody knows": (_table(b"\x01k?"), "0x3f"),
    "list of empty values": (_table(b"\x01kA" + _table(b"V" * (TABLE_ENTRIES_MAX + 1))), "more than 4096"),
    "table of empty values": (_table(b"\x00V" * (TABLE_ENTRIES_MAX + 1)), "more than 4096 entries"),
}


@pytest.mark.parametrize(("table", "text"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_a_bad_table_of_arguments_is_502(broker: BrokerProcess, attacker: AmqpSocket, table: bytes, text: str) -> None:
    """Arguments that lie about their lengths, or nest or repeat without end, are a syntax error."""
    attacker.open().open_channel()
    attacker.send(frame(FRAME_METHOD, 1, DECLARE + table))
    close = attacker.expect_close(502)
    assert close.reply_text.startswith("SYNTAX_ERROR - queue.declare: ")
    assert text in close.reply_text
    assert text in broker.wait_for_log("connection ended", peer=attacker.name)["reason"]


@pytest.mark.parametrize("table", [table for table, _ in BAD_TABLES.values()], ids=BAD_TABLES.keys())
def test_bad_client_properties_are_502(broker: BrokerProcess, attacker: AmqpSocket, table: bytes) -> None:
    """The same tables are refused before the login, where they could come from anybody."""
    start_ok = bytes.fromhex("000a000b") + table + b"\x05PLAIN" + b"\0\0\0\x0c\0guest\0guest" + b"\x05en_US"
    attacker.begin()
    attacker.send(frame(FRAME_METHOD, 0, start_ok))
    if len(start_ok) > 8_000:
        attacker.expect_close(501)
        text = "a frame may have"
    else:
        attacker.expect_close(502)
        text = "connection.start-ok: "
    assert text in broker.wait_for_log("connection ended", peer=attacker.name)["reason"]


@pytest.mark.parametrize(("table", "text"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_bad_headers_reach_no_consumer(attacker: AmqpSocket, table: bytes, text: str) -> None:
    """A message whose headers cannot be read is refused where headers are routed by: it is nobody's to deliver."""
    attacker.open().open_channel()
    queue = attacker.call(1, QueueDeclare(exclusive=True), QueueDeclareOk).queue
    attacker.call(1, QueueBind(queue=queue, exchange="amq.headers"), QueueBindOk)
    attacker.send_method(1, BasicPublish(exchange="amq.headers"))
    attacker.send(header_frame(1, 0, HEADERS + table))
    assert text in attacker.expect_close(502).reply_text


@pytest.mark.parametrize(
    "properties", [b"", b"\x00", b"\x20\x00", b"\x80\x00\x05abc", b"\x00\x02", b"\x10\x00\x02\x02"]
)
def test_properties_that_do_not_add_up(attacker: AmqpSocket, properties: bytes) -> None:
    """Properties that are cut short, unknown or followed by more cost their sender the connection, not its readers."""
    attacker.open().open_channel()
    queue = attacker.call(1, QueueDeclare(exclusive=True), QueueDeclareOk).queue
    attacker.send_method(1, BasicPublish(routing_key=queue))
    attacker.send(header_frame(1, 0, properties))
    close = attacker.expect_close(501 if len(properties) < 2 else 502)
    assert close.reply_text


def test_memory_is_not_taken_on_trust(broker: BrokerProcess, attacker: AmqpSocket) -> None:
    """Sixteen announced bodies of the largest size cost next to nothing while nothing of them comes."""
    attacker.open()
    before = _resident_kib(broker.process.pid)
    for channel in range(1, 17):
        attacker.open_channel(channel)
        attacker.send_method(channel, BasicPublish(routing_key="nowhere"))
        attacker.send(header_frame(channel, MESSAGE_MAX_BYTES), frame(FRAME_BODY, channel, b"x"))
    attacker.open_channel(17)
    assert _resident_kib(broker.process.pid) - before < 16 * 1024


def _resident_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:  # noqa: PTH123 - not a file
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


@dataclass(frozen=True)
class Refusal:
    """What is sent on channel 1, and what the broker closes that channel with."""

    sent: bytes
    code: int
    text: str


def _call(method: Method) -> bytes:
    return method_frame(1, method)


REFUSALS = {
    "publish to a missing exchange": Refusal(
        _call(BasicPublish(exchange="missing")) + header_frame(1, 0),
        404,
        "NOT_FOUND - no exchange 'missing' in vhost '/'",
    ),
    "publish to a missing exchange, with a body": Refusal(
        _call(BasicPublish(exchange="missing")) + header_frame(1, 2) + frame(FRAME_BODY, 1, b"hi"),
        404,
        "NOT_FOUND - no exchange 'missing' in vhost '/'",
    ),
    "get from a missing queue": Refusal(
        _call(BasicGet(queue="missing")), 404, "NOT_FOUND - no queue 'missing' in vhost '/'"
    ),
    "consume from a missing queue": Refusal(
        _call(BasicConsume(queue="missing")), 404, "no queue 'missing' in vhost '/'"
    ),
    "no queue declared yet": Refusal(_call(BasicGet()), 404, "NOT_FOUND - no previously declared queue"),
    "bind to a missing exchange": Refusal(
        _call(QueueDeclare(exclusive=True)) + _call(QueueBind(exchange="missing")),
        404,
        "no exchange 'missing' in vhost '/'",
    ),
    "bind to the default exchange": Refusal(
        _call(QueueDeclare(exclusive=True)) + _call(QueueBind(routing_key="k")),
        403,
        "not permitted on the default exchange",
    ),
    "reserved queue name": Refusal(_call(QueueDeclare(queue="amq.mine")), 403, "reserved prefix 'amq.*'"),
    "reserved exchange name": Refusal(_call(ExchangeDeclare(exchange="amq.mine")), 403, "reserved prefix 'amq.*'"),
    "tag never delivered": Refusal(
        _call(BasicAck(delivery_tag=99)), 406, "PRECONDITION_FAILED - unknown delivery tag 99"
    ),
    "largest tag there is": Refusal(_call(BasicAck(delivery_tag=2**64 - 1)), 406, "unknown delivery tag"),
    "body above the limit": Refusal(
        _call(BasicPublish()) + header_frame(1, MESSAGE_MAX_BYTES + 1),
        406,
        f"message size {MESSAGE_MAX_BYTES + 1} is larger than configured max size {MESSAGE_MAX_BYTES}",
    ),
    "body of 2^64 - 1 bytes": Refusal(
        _call(BasicPublish()) + header_frame(1, 2**64 - 1),
        406,
        f"message size {2**64 - 1} is larger than configured max size {MESSAGE_MAX_BYTES}",
    ),
    "queue type nobody knows": Refusal(
        _call(QueueDeclare(queue="q", arguments={"x-queue-type": "heap"})), 406, "unsupported queue type 'heap'"
    ),
    "other kind of the same exchange": Refusal(
        _call(ExchangeDeclare(exchange="amq.direct", type="fanout", durable=True)), 406, "inequivalent arg 'type'"
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_closes_the_channel_alone(broker: BrokerProcess, attacker: AmqpSocket, refusal: Refusal) -> None:
    """What cannot be done closes its channel with code and reason; the connection and its other channels go on."""
    attacker.open()
    attacker.open_channel(1)
    attacker.open_channel(2)
    attacker.send(refusal.sent)
    answer = attacker.read_frame()
    while answer.channel == 1 and not isinstance(answer.method, ChannelClose):
        answer = attacker.read_frame()
    close = answer.method
    assert isinstance(close, ChannelClose)
    assert close.reply_code == refusal.code
    assert refusal.text in close.reply_text
    line = broker.wait_for_log("channel closed", peer=attacker.name)
    assert (line["channel"], line["user"]) == (1, "guest")
    assert refusal.text in line["reason"]
    # Whatever else is sent there before close-ok is dropped, and the number can be used again behind it.
    attacker.send_method(1, BasicQos(prefetch_count=1), ChannelCloseOk())
    attacker.open_channel(1)
    attacker.call(2, QueueDeclare(exclusive=True), QueueDeclareOk)


def test_a_name_that_is_code_stays_a_name(broker: BrokerProcess, attacker: AmqpSocket) -> None:
    """Control characters in a name neither break a log line nor reach a terminal as they are."""
    attacker.open().open_channel()
    attacker.send_method(1, BasicGet(queue="\x1b[2Jx\n2026 [error] all is lost"))
    assert attacker.expect(ChannelClose, 1).reply_code == 404
    line = broker.wait_for_log("channel closed", peer=attacker.name)
    assert "\n" not in line["reason"]
    assert "\x1b" not in line["reason"]


def test_hanging_up_within_a_message(broker: BrokerProcess, attacker: AmqpSocket) -> None:
    """Half a message is no message: a publisher that dies in the middle of one leaves nothing on the queue."""
    with AmqpSocket(broker.port) as reader:
        reader.open().open_channel()
        queue = reader.call(1, QueueDeclare(), QueueDeclareOk).queue
        attacker.open().open_channel()
        attacker.send_method(1, BasicPublish(routing_key=queue))
        attacker.send(header_frame(1, 10), frame(FRAME_BODY, 1, b"half"))
        attacker.close()
        broker.wait_for_log("connection ended", peer=attacker.name)
        again = reader.call(1, QueueDeclare(queue=queue, passive=True), QueueDeclareOk)
        assert again.message_count == 0
