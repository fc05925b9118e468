"""Every integer that a client of AMQP 0-9-1 can send, at the edges of its type: none of them is a fault of ours.

Compiled, the broker counts in machine integers, which a number of the wire may not fit.
"""

import struct
from collections.abc import Iterator

import pytest

from flintmq.protocol.amqp091.connection import Tuning
from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import (
    METHODS,
    BasicConsume,
    BasicGet,
    BasicPublish,
    ChannelOpen,
    ExchangeDeclare,
    LeaseOpen,
    LeaseOpenOk,
    Method,
    QueueBind,
    QueueDeclare,
    StageOpen,
    StageOpenOk,
    StageSelect,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp091.spec import METHOD_TABLE, RESERVED, Argument, MethodRow
from flintmq.wire.amqp091.tables import Table
from tests.unit.broker.memory import got
from tests.unit.gateway.amqp091.pair import Client, Server

EDGES = {
    "octet": (0, 1, 0x7F, 0x80, 0xFF),
    "short": (0, 1, 0x7FFF, 0x8000, 0xFFFF),
    "long": (0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF),
    "longlong": (0, 1, 2, 0xFFFF_FFFF, (1 << 63) - 2, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
}
_CODES = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}
# What a table may hold: the tag and the struct of each integer type, and its edges.
_TAGGED = {
    b"b": (">b", (-0x80, 0x7F)),
    b"B": (">B", (0, 0xFF)),
    b"s": (">h", (-0x8000, 0x7FFF)),
    b"u": (">H", (0, 0xFFFF)),
    b"I": (">i", (-(1 << 31), -1, (1 << 31) - 1)),
    b"i": (">I", (0, (1 << 32) - 1)),
    b"l": (">q", (-(1 << 63), -1, (1 << 63) - 1)),
    b"T": (">Q", (0, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)),
}
_VALUES = [(tag, struct.pack(code, value)) for tag, (code, edges) in _TAGGED.items() for value in edges]
_TEXTS = {
    "queue": "q",
    "consumer": "c",
    "transactional_id": "tx",
    "owner": "o",
    "exchange": "amq.direct",
    "consumer_tag": "other",
    "type": "direct",
}
_STREAM_TEXTS = {**_TEXTS, "queue": "s"}


def _methods() -> list[tuple[str, str, int]]:
    """All that a client can send with an integer in it, each of these with its edges."""
    found: list[tuple[str, str, int]] = []
    for row in METHOD_TABLE:
        for argument in row.arguments:
            if argument.kind in EDGES and argument.name != RESERVED and not row.name.startswith("connection."):
                found += [(row.name, argument.name, value) for value in EDGES[argument.kind]]
    return found


def _named(name: str) -> MethodRow:
    return next(row for row in METHOD_TABLE if row.name == name)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server)


def _frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([FRAME_END])


def _hear(client: Client, *frames: bytes) -> None:
    """Let the server hear this, do what it does, and go on with its other clients."""
    server = client.server
    client.connection.engine.receive(b"".join(frames), 0.0)
    for _ in range(3):
        while server.gateway.end_tick():
            pass
        server.storage.sync()
        server.gateway.on_durable()
    assert server.host.errors == []
    other = Client(server)
    channel = other.channel()
    channel.call(QueueDeclare(queue="others", durable=True))
    channel.publish("m", "others")
    channel.call(BasicGet(queue="others", no_ack=True))
    assert channel.bodies == [b"m"]
    assert server.host.errors == []


def _method(method: Method) -> bytes:
    return _frame(FRAME_METHOD, encode_method(method))


@pytest.mark.parametrize(("name", "field", "value"), _methods())
def test_methods(server: Server, client: Client, name: str, field: str, value: int) -> None:
    """Answered, or refused: on a channel that has messages, a lease and a stage."""
    channel = client.channel()
    stream: Table = {"x-queue-type": "stream"}
    channel.call(QueueDeclare(queue="q", durable=True), QueueDeclare(queue="s", durable=True, arguments=stream))
    for key in ("q", "q", "s"):
        channel.publish("m", key)
    epochs: dict[str, int] = {}
    for answer in channel.call(StageOpen(transactional_id="tx", owner="o")):
        assert isinstance(answer, StageOpenOk)
        epochs["stage"] = answer.epoch
    if name.startswith("lease."):
        for answer in channel.call(LeaseOpen(queue="q", consumer="c", epoch=1, timeout=1000)):
            assert isinstance(answer, LeaseOpenOk)
            epochs["lease"] = answer.epoch
    elif name in ("stage.commit", "stage.abort"):
        channel.call(StageSelect(transactional_id="tx", epoch=epochs["stage"], batch=0, partition=0, attempt=0))
    elif not name.startswith("stage."):
        channel.call(BasicConsume(queue="q", consumer_tag="mine"))
    row = _named(name)
    texts = _STREAM_TEXTS if name.startswith("stream.") else _TEXTS
    method = METHODS[row.number]()
    for argument in row.arguments:
        other = argument.name
        if argument.kind == "shortstr" and other in texts:
            setattr(method, other, texts[other])
        elif other == "epoch":
            setattr(method, other, epochs.get(name.partition(".")[0], 1))
        elif other in ("max_messages", "max_bytes", "timeout", "end_offset"):
            setattr(method, other, 1000)
    encoded = _encoded(method, row.arguments, field, value)
    if value < 1 << 63:
        assert getattr(decode_method(encoded), field) == value
    _hear(client, _frame(FRAME_METHOD, encoded))
    _hear(client, _frame(FRAME_METHOD, encoded))


def _encoded(method: Method, arguments: list[Argument], field: str, value: int) -> bytes:
    """The method with one field set, which its class may have no room for."""
    setattr(method, field, 0)
    at = len(encode_method(method))
    index = next(place for place, each in enumerate(arguments) if each.name == field)
    kind = arguments[index].kind
    # What is behind it says where it is.
    behind = _size(method, arguments[index + 1 :])
    size = struct.calcsize(_CODES[kind])
    encoded = encode_method(method)
    return encoded[: at - behind - size] + struct.pack(_CODES[kind], value) + encoded[at - behind :]


def _size(method: Method, arguments: list[Argument]) -> int:
    size = 0
    bits = 0
    for argument in arguments:
        field, kind = argument.name, argument.kind
        if kind == "bit":
            bits += 1
            continue
        size += (bits + 7) // 8
        bits = 0
        if kind in _CODES:
            size += struct.calcsize(_CODES[kind])
        elif kind == "shortstr":
            size += 1 + len(str(getattr(method, field, "")))
        elif kind == "longstr":
            size += 4 + len(getattr(method, field, b""))
        else:
            assert kind == "table"
            size += 4
    return size + (bits + 7) // 8


@pytest.mark.parametrize("field", ["channel_max", "frame_max", "heartbeat"])
@pytest.mark.parametrize("value", EDGES["long"])
def test_tuning(server: Server, field: str, value: int) -> None:
    """What a client says of itself when it connects."""
    most = 0xFFFF if field != "frame_max" else 0xFFFF_FFFF
    chosen = {"channel_max": 10, "frame_max": 8192, "heartbeat": 10, field: min(value, most)}
    client = Client(server, tuning=Tuning(chosen["channel_max"], chosen["frame_max"], chosen["heartbeat"]))
    client.connection.engine.handle_timer(1e9)
    assert server.host.errors == []


def _table(name: str, tag: bytes, encoded: bytes) -> bytes:
    pairs = bytes([len(name)]) + name.encode() + tag + encoded
    return struct.pack(">I", len(pairs)) + pairs


_EMPTY_TABLE = bytes(4)
_OF_QUEUES = (
    "x-max-length",
    "x-max-length-bytes",
    "x-message-ttl",
    "x-expires",
    "x-max-priority",
    "x-delivery-limit",
    "x-consumer-timeout",
    "x-dedup-window",
    "x-dedup-size",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-delayed-retry-min",
)
_OF_CONSUMERS = ("x-priority", "x-stream-offset", "x-stream-filter")
_OF_MESSAGES = ("x-delay", "x-deliver-at", "x-producer-seq", "x-death", "CC", "n")


@pytest.mark.parametrize(("tag", "encoded"), _VALUES, ids=repr)
@pytest.mark.parametrize("name", [*_OF_QUEUES, *_OF_CONSUMERS])
def test_arguments(client: Client, name: str, tag: bytes, encoded: bytes) -> None:
    """Of queues of each type and of consumers, whatever type of integer it is."""
    table = _table(name, tag, encoded)
    for channel, queue_type in enumerate(("classic", "quorum", "stream"), 1):
        arguments: Table = {"x-queue-type": queue_type}
        if name in _OF_QUEUES:
            declare = encode_method(QueueDeclare(queue=queue_type, durable=True, arguments=arguments))
            size = struct.unpack(">I", table[:4])[0]
            merged = declare.removesuffix(_arguments(arguments)) + _merged(arguments, table[4 : 4 + size])
        else:
            merged = encode_method(QueueDeclare(queue=queue_type, durable=True, arguments=arguments))
        consume = encode_method(BasicConsume(queue=queue_type)).removesuffix(_EMPTY_TABLE) + table
        frames = [
            _frame(FRAME_METHOD, encode_method(ChannelOpen()), channel),
            _frame(FRAME_METHOD, merged, channel),
            *(_frame(FRAME_METHOD, each, channel) for each in ([consume] if name in _OF_CONSUMERS else [])),
            *_published(channel, queue_type, encode_properties(Properties(delivery_mode=2))),
        ]
        _hear(client, *frames)


def _arguments(arguments: Table) -> bytes:
    encoded = encode_method(QueueDeclare(arguments=arguments))
    return encoded[len(encode_method(QueueDeclare())) - len(_EMPTY_TABLE) :]


def _merged(arguments: Table, pairs: bytes) -> bytes:
    table = _arguments(arguments)[4:] + pairs
    return struct.pack(">I", len(table)) + table


def _published(channel: int, key: str, properties: bytes, exchange: str = "") -> list[bytes]:
    publish = encode_method(BasicPublish(exchange=exchange, routing_key=key))
    return [
        _frame(FRAME_METHOD, publish, channel),
        _frame(FRAME_HEADER, struct.pack(">HHQ", 60, 0, 1) + properties, channel),
        _frame(FRAME_BODY, b"m", channel),
    ]


def _properties() -> Iterator[bytes]:
    """Of each message property that is an integer, and each integer in a header, its edges."""
    for flags, code, edges in ((1 << 12, ">B", EDGES["octet"]), (1 << 11, ">B", EDGES["octet"])):
        for value in edges:
            yield struct.pack(">H", flags) + struct.pack(code, value)
    for value in EDGES["longlong"]:
        yield struct.pack(">H", 1 << 6) + struct.pack(">Q", value)
    for expiration in (0, 1, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30):
        yield encode_properties(Properties(expiration=str(expiration), delivery_mode=2))
    for name in _OF_MESSAGES:
        for tag, encoded in _VALUES:
            yield struct.pack(">H", 1 << 13) + _table(name, tag, encoded)


@pytest.mark.parametrize("properties", list(_properties()), ids=bytes.hex)
def test_messages(client: Client, properties: bytes) -> None:
    """Published, delayed, delivered, expired and dead-lettered."""
    server = client.server
    letters: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-dedup-window": 1000}
    _hear(
        client,
        _method(ChannelOpen()),
        _method(QueueDeclare(queue="dead", durable=True, arguments={"x-max-priority": 10})),
        _method(QueueDeclare(queue="q", durable=True, arguments=letters)),
        _method(ExchangeDeclare(exchange="later", type="x-delayed-message", arguments={"x-delayed-type": "fanout"})),
        _method(QueueBind(queue="q", exchange="later")),
        *_published(1, "q", properties),
        *_published(1, "q", properties, "later"),
    )
    server.broker.now_ms += 1 << 41
    _hear(client)
    queue = server.vhost.queues.get("q")
    entry = None if queue is None else got(queue)
    if queue is not None and entry is not None:
        queue.reject(entry)
    _hear(client, _method(BasicConsume(queue="dead")))


@pytest.mark.parametrize("size", EDGES["longlong"])
def test_body_sizes(client: Client, size: int) -> None:
    """A content header may say any."""
    publish = encode_method(BasicPublish(routing_key="q"))
    header = struct.pack(">HHQ", 60, 0, size) + encode_properties(Properties())
    _hear(
        client,
        _method(ChannelOpen()),
        _frame(FRAME_METHOD, publish),
        _frame(FRAME_HEADER, header),
        _frame(FRAME_BODY, b"m"),
    )


@pytest.mark.parametrize("channel", EDGES["short"])
@pytest.mark.parametrize("kind", EDGES["octet"])
@pytest.mark.parametrize("size", EDGES["long"])
def test_frames(client: Client, kind: int, channel: int, size: int) -> None:
    """Of any type, on any channel, and of any size."""
    _hear(client, struct.pack(">BHI", kind, channel, size) + bytes(8))
