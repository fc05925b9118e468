"""Every integer that a client of AMQP 1.0 can send, at the edges of its type: none of them is a fault of ours.

Compiled, the broker counts in machine integers, which a number of the wire may not fit.
"""

import itertools
from collections.abc import Iterator

import pytest
from librt.strings import BytesWriter

from flintmq.gateway.amqp10.connection import ServerConnection
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.composite import Composite
from flintmq.wire.amqp10.frames import write_sasl_frame
from flintmq.wire.amqp10.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    Flow,
    Open,
    Performative,
    SaslInit,
    Transfer,
)
from flintmq.wire.amqp10.sections import encode_amqp_value, encode_data, encode_message_annotations
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER
from flintmq.wire.amqp10.states import ACCEPTED, DeliveryState, Received
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import (
    Byte,
    Described,
    Int,
    Short,
    Symbol,
    TimestampMs,
    UByte,
    UInt,
    ULong,
    UShort,
)
from flintmq.wire.amqp10.writer import encode_value
from tests.amqp10_wire import write_frame
from tests.unit.broker.memory import got
from tests.unit.gateway.amqp10.pair import Client, Server

EDGES = {
    "ubyte": (0, 1, 0x7F, 0x80, 0xFF),
    "ushort": (0, 1, 0x7FFF, 0x8000, 0xFFFF),
    "uint": (0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFE, 0xFFFF_FFFF),
    "ulong": (0, 1, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
}
LONGS = (-(1 << 63), -(1 << 31), -1, 0, (1 << 31) - 1, 1 << 32, (1 << 63) - 1)
# As fields of maps, annotations and filters, where any type may come.
VALUES: list[object] = [
    *map(UByte, EDGES["ubyte"]),
    *map(UShort, EDGES["ushort"]),
    *map(UInt, EDGES["uint"]),
    *map(ULong, EDGES["ulong"]),
    *map(Byte, (-0x80, 0x7F)),
    *map(Short, (-0x8000, 0x7FFF)),
    *map(Int, (-(1 << 31), (1 << 31) - 1)),
    *LONGS,
    *map(TimestampMs, LONGS),
]


def _fields(name: str) -> list[tuple[str, int]]:
    """The integer fields of a composite type, with each of their edges."""
    found: list[tuple[str, int]] = []
    fields = next(fields for _, each, fields in spec.COMPOSITES if each == name)
    for field in fields.split():
        field_name, _, kind = field.rstrip("!").partition(":")
        found += [(field_name.replace("-", "_"), value) for value in EDGES.get(kind, ())]
    return found


def _frame(channel: int, body: Performative, payload: bytes = b"") -> bytes:
    w = BytesWriter()
    write_frame(w, channel, body, payload)
    return w.getvalue()


def _say(client: Client, *bodies: Performative, payload: bytes = b"") -> None:
    """Let the server hear this, do what it does, and go on with its other clients."""
    for body in bodies:
        client.connection.engine.receive(_frame(0, body, payload), 0.0)
    client.connection.engine.flush()
    gateway = client.server.gateway
    for _ in range(3):
        while gateway.end_tick():
            pass
        client.server.storage.sync()
        gateway.on_durable()
    assert client.server.host.errors == []
    other = Client(client.server, container="other")
    other.sender(attach=Attach(name="other")).publish("m")
    assert other.receiver(attach=Attach(name="others")).attached
    other.engine.close()
    other.tick()
    assert client.server.host.errors == []


def _set(body: Composite, field: str, value: int) -> Performative:
    setattr(body, field, value)
    assert isinstance(body, Performative)
    return body


@pytest.mark.parametrize(("field", "value"), _fields("open"))
def test_open(server: Server, field: str, value: int) -> None:
    """Answered, or refused."""
    connection = ServerConnection(server.service, Output(Outbox()), "test:2")
    w = BytesWriter()
    write_sasl_frame(w, SaslInit("PLAIN", plain.response("u", "secret")))
    opening = _frame(0, _set(Open(container_id="c"), field, value))
    begin = _frame(0, Begin(incoming_window=1, outgoing_window=1))
    for data in (spec.SASL_HEADER + w.getvalue(), spec.PROTOCOL_HEADER + opening + begin):
        connection.engine.receive(data, 0.0)
        server.gateway.end_tick()
    connection.engine.handle_timer(1e9)
    assert connection.engine.is_open or connection.closed is not None
    assert server.host.errors == []


@pytest.mark.parametrize(("field", "value"), _fields("begin"))
def test_begin(client: Client, field: str, value: int) -> None:
    """A session by these numbers, with a link on it and messages both ways."""
    begin = _set(Begin(incoming_window=100, outgoing_window=100), field, value)
    client.connection.engine.receive(_frame(1, begin), 0.0)
    attach = Attach("r", 0, True, source=Source(address="/queues/q"), target=Target())
    flow = Flow(next_incoming_id=0, incoming_window=10, outgoing_window=10, handle=0, link_credit=5)
    for body in (attach, flow):
        client.connection.engine.receive(_frame(1, body), 0.0)
    _say(client)


@pytest.mark.parametrize("role", [False, True])
@pytest.mark.parametrize(("field", "value"), _fields("attach"))
def test_attach(client: Client, field: str, value: int, role: bool) -> None:
    """A link by these numbers, in either direction, and a message on it."""
    attach = Attach("a", 0, role, source=Source(address="/queues/q"), target=Target(address="/queues/q"))
    attach.initial_delivery_count = None if role else 0
    client.sender(attach=Attach(name="publisher")).publish("m")
    _say(client, _set(attach, field, value), Flow(0, 10, 0, 10, attach.handle, 0, 5))
    if not role:
        _say(client, Transfer(attach.handle, 0, b"t", 0), payload=encode_data(b"m"))


@pytest.mark.parametrize("role", [False, True])
@pytest.mark.parametrize("which", ["source", "target"])
@pytest.mark.parametrize(("field", "value"), _fields("source"))
def test_termini(client: Client, field: str, value: int, which: str, role: bool) -> None:
    """How long, and how durably, a terminus is kept."""
    source, target = Source(address="/queues/q"), Target(address="/queues/q")
    setattr(source if which == "source" else target, field, value)
    attach = Attach("a", 0, role, source=source, target=target, initial_delivery_count=None if role else 0)
    _say(client, attach, Detach(0))
    client.server.broker.now_ms += 1 << 42
    _say(client)


COUNTS = EDGES["uint"]


@pytest.mark.parametrize(("count", "credit"), list(itertools.product([None, *COUNTS], COUNTS)))
@pytest.mark.parametrize("drain", [False, True])
def test_credit(client: Client, count: int | None, credit: int, drain: bool) -> None:
    """Of a link on which the broker sends, wherever the client says that it counts; and the answer to it."""
    client.sender(attach=Attach(name="publisher")).publish("one", "two")
    receiver = client.receiver(credit=0)
    flow = Flow(0, 100, 0, 100, receiver.link.handle, count, credit, drain=drain, echo=True)
    _say(client, flow)
    _say(client, Flow(0, 100, 0, 100, receiver.link.handle, count, 0xFFFF_FFFF, echo=True))


@pytest.mark.parametrize("of_link", ["none", "sender", "receiver"])
@pytest.mark.parametrize(("field", "value"), _fields("flow"))
def test_flow(client: Client, field: str, value: int, of_link: str) -> None:
    """About the session, and about links in either direction."""
    client.sender(attach=Attach(name="publisher")).publish("one", "two")
    sender, receiver = client.sender(), client.receiver(credit=1)
    flow = Flow(0, 100, 0, 100, echo=True)
    if of_link != "none":
        flow.handle = (sender if of_link == "sender" else receiver).link.handle
    _say(client, _set(flow, field, value))
    _say(client, Flow(0, 100, 0, 100, echo=True))


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(("field", "value"), _fields("transfer"))
def test_transfer(client: Client, field: str, value: int, settled: bool) -> None:
    """A message by these numbers, and another one behind it."""
    sender = client.sender()
    transfer = Transfer(sender.link.handle, 0, b"t", 0, settled)
    _say(client, _set(transfer, field, value), payload=encode_data(b"m"))
    _say(client, Transfer(sender.link.handle, 1, b"u", 0, settled), payload=encode_data(b"m"))


@pytest.mark.parametrize(("first", "last"), list(itertools.product(COUNTS, [None, *COUNTS])))
@pytest.mark.parametrize("role", [False, True])
def test_disposition(client: Client, first: int, last: int | None, role: bool) -> None:
    """Of deliveries that are there, and of others, in any order."""
    client.sender(attach=Attach(name="publisher")).publish("one", "two")
    client.receiver()
    _say(client, Disposition(role, first, last, True, ACCEPTED))


@pytest.mark.parametrize("value", COUNTS)
def test_detach(client: Client, value: int) -> None:
    """Of a link that is there, or not."""
    client.sender()
    _say(client, Detach(value))


PLACES = [Received(number, 0) for number in COUNTS] + [Received(0, offset) for offset in EDGES["ulong"]]
PLACES += [Received(2, offset) for offset in EDGES["ulong"]]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_places_of_what_the_broker_sent(client: Client, place: Received) -> None:
    """Said by a disposition, and by the map of a link that is resumed."""
    client.sender(attach=Attach(name="publisher")).publish("m")
    source = Source(address="/queues/q", expiry_policy=EXPIRE_NEVER)
    receiver = client.receiver(source=source, attach=Attach(name="r", snd_settle_mode=0))
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    _say(client, Disposition(True, delivery.id, None, False, place))
    unsettled: dict[bytes, DeliveryState | None] = {delivery.tag: place}
    handle = receiver.link.handle
    again = Attach("r", 7, True, source=source, target=Target(), unsettled=unsettled)
    _say(client, Detach(handle), again, Flow(0, 100, 0, 100, 7, 0, 5))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_places_of_what_the_broker_receives(client: Client, place: Received) -> None:
    """Said by the first transfer, of a delivery that is resumed or not."""
    target = Target(address="/queues/q", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    attach = Attach("s", 7, False, source=Source(), target=target, initial_delivery_count=0)
    payload = encode_data(b"m" * 50)
    _say(client, attach)
    _say(client, Transfer(7, 0, b"t", 0, False, True), payload=payload[:20])
    again = Attach("s", 7, False, source=Source(), target=target, initial_delivery_count=0, unsettled={b"t": place})
    _say(client, Detach(7), again)
    _say(client, Transfer(7, 1, b"t", state=place, resume=True), payload=payload)


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("field", ["rabbitmq:priority", "txn-id", "paired"])
def test_properties_of_links(client: Client, field: str, value: object) -> None:
    """In an attach and in a flow."""
    attach = Attach("r", 0, True, source=Source(address="/queues/q"), target=Target(), properties={field: value})
    _say(client, attach, Flow(0, 100, 0, 100, 0, 0, 5, properties={field: value}))


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("queue_type", ["classic", "stream"])
@pytest.mark.parametrize("name", ["rabbitmq:stream-offset-spec", "rabbitmq:stream-filter"])
def test_filters(client: Client, name: str, queue_type: str, value: object) -> None:
    """Where a reader of a stream begins, above all."""
    client.server.queue("s", queue_type=queue_type)
    client.sender("/queues/s", attach=Attach(name="publisher")).publish("m")
    source = Source(address="/queues/s", filter={"f": Described(Symbol(name), value)})
    _say(client, Attach("r", 0, True, source=source, target=Target()), Flow(0, 100, 0, 100, 0, 0, 5))


_ACTED_ON = ("x-opt-delivery-delay", "x-opt-delivery-time", "x-delay", "x-deliver-at", "x-producer-seq", "x-cc")


def _sections() -> Iterator[bytes]:
    """Messages with each integer of their sections at its edges."""
    body = encode_data(b"m")
    for value in EDGES["ubyte"]:
        yield encode_value(Described(ULong(spec.HEADER), [None, UByte(value)])) + body
    for value in EDGES["uint"]:
        yield encode_value(Described(ULong(spec.HEADER), [True, None, UInt(value)])) + body
        yield encode_value(Described(ULong(spec.HEADER), [True, None, None, None, UInt(value)])) + body
        yield encode_value(Described(ULong(spec.PROPERTIES), [None] * 11 + [UInt(value)])) + body
    for value in LONGS:
        for place in (8, 9):
            yield encode_value(Described(ULong(spec.PROPERTIES), [None] * place + [TimestampMs(value)])) + body
    for id in EDGES["ulong"]:
        yield encode_value(Described(ULong(spec.PROPERTIES), [ULong(id)])) + body
    for any_value in VALUES:
        yield encode_value(Described(ULong(spec.APPLICATION_PROPERTIES), {"n": any_value})) + body
        yield encode_amqp_value(any_value)
        for name in (
            "x-opt-delivery-delay",
            "x-opt-delivery-time",
            "x-delay",
            "x-deliver-at",
            "x-producer-seq",
            "x-cc",
        ):
            yield encode_message_annotations({name: any_value}) + body


@pytest.mark.parametrize("message", list(_sections()), ids=bytes.hex)
def test_messages(client: Client, message: bytes) -> None:
    """Published, delivered by both protocols, and delivered again later."""
    server = client.server
    server.queue("p", max_priority=10, dead_letter_exchange="", dead_letter_routing_key="q", dedup_window=1000)
    sender = client.sender("/queues/p")
    receiver = client.receiver("/queues/p", attach=Attach(name="p", snd_settle_mode=0))
    sender.send_encoded(message)
    client.durable()
    _say(client)
    server.broker.now_ms += 1 << 41
    client.durable()
    for delivery, _ in receiver.take():
        if delivery is not None:
            receiver.link.settle(delivery, None)
    client.durable()
    assert server.host.errors == []
    queue = server.vhost.queues["p"]
    entry = got(queue)
    if entry is not None:
        queue.reject(entry)
    client.durable()
    assert server.host.errors == []


def test_a_large_limit_of_messages_is_none(client: Client) -> None:
    """A receiver that takes any size gets a message."""
    client.sender(attach=Attach(name="publisher")).publish("m")
    receiver = client.receiver(attach=Attach(name="large", max_message_size=(1 << 64) - 1))
    assert receiver.bodies() == ["m"]


def test_all_credit_there_is(client: Client) -> None:
    """A count that is ahead of ours adds to the credit, which is no more than the wire can say."""
    client.sender(attach=Attach(name="publisher")).publish("m")
    receiver = client.receiver(credit=0)
    _say(client, Flow(0, 100, 0, 100, receiver.link.handle, 5, 0xFFFF_FFFF, echo=True))
    # The message that was there, and the one of another client behind it.
    assert client.server.vhost.queues["q"].unacked == 2
    assert client.connection.engine.is_open
