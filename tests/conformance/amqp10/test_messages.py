"""Part 3 §3.2: what becomes of a message's sections on their way through a queue."""

from typing import Any

import pytest

from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp10.spec import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, Modified, Rejected
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    Short,
    Symbol,
    TimestampMs,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
)
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.encoding import (
    Message,
    annotations,
    application_properties,
    data_section,
    delivery_annotations,
    header,
    properties,
    section,
    text,
    value_section,
)
from tests.conformance.amqp10.long_encodings import (
    NULL,
    TRUE,
    binary32,
    described,
    list32,
    map32,
    string32,
    symbol32,
    ulong64,
)
from tests.conformance.amqp10.peer import Peer
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session
from tests.conformance.brokers import Broker
from tests.servers import BrokerProcess


def _through(session: Session, queues: Queues, message: bytes) -> Message:
    """A message as it comes out of a queue that it was sent to."""
    address = queues.address()
    session.sender(address).accepted(message)
    found = session.receiver(address, credit=1).get()
    session.dispose(found.id, state=ACCEPTED)
    return found.message


# -- §3.2 -------------------------------------------------------------------------------------------------------------


@rule("3.2.no-section-inserted")
def test_3_2_no_section_inserted(session: Session, queues: Queues) -> None:
    """A body alone comes out as a body alone: no properties of either kind, no footer."""
    message = _through(session, queues, data_section(b"alone"))
    assert message.bare == data_section(b"alone")
    assert not message.has(FOOTER)


@rule("3.2.encoding-kept")
def test_3_2_encoding_kept(session: Session, queues: Queues) -> None:
    """Encodings longer than they have to be, and descriptors by name, come out as they went in."""
    parts = [
        described(ulong64(PROPERTIES), list32(string32("id"), NULL, NULL, string32("subject"), NULL, NULL)),
        described(symbol32("amqp:application-properties:map"), map32(string32("key"), TRUE)),
        described(symbol32("amqp:data:binary"), binary32(b"odd")),
        described(ulong64(DATA), binary32(b"")),
    ]
    bare = b"".join(parts)
    assert _through(session, queues, bare).bare == bare


@clause("3.2.sections-in-order")
def test_3_2_sections_in_order(peer: Peer, queues: Queues) -> None:
    """Properties behind the body, two headers, a body of two kinds, no body: refused, and nothing is kept."""
    address = queues.address()
    wrong = [
        value_section("m") + properties(message_id="late"),
        header() + header() + value_section("m"),
        data_section(b"m") + value_section("m"),
        application_properties({"k": 1}) + properties(message_id="late") + value_section("m"),
        properties(message_id="no body"),
        b"no section",
    ]
    for message in wrong:
        session = peer.session()
        link = session.sender(address)
        link.send(message)
        assert link.expect_detach("amqp:decode-error")
    assert queues.count(address) == 0


# -- §3.2.1 header ----------------------------------------------------------------------------------------------------


@rule("3.2.1.defaults")
def test_3_2_1_defaults(session: Session, queues: Queues) -> None:
    """Received as such a message; among others it has the node's own default: as AMQP 0-9-1's that say nothing."""
    message = _through(session, queues, value_section("m"))
    assert (message.priority, message.durable, message.ttl, message.delivery_count) == (4, False, None, 0)
    address = queues.address(max_priority=9)
    queues.publish(address, b"older")
    session.sender(address).accepted(value_section("default"), text("high", priority=5), text("low", priority=3))
    found = [each.message for each in session.receiver(address, credit=4).take(4)]
    assert [each.value if each.has(AMQP_VALUE) else None for each in found] == ["high", "low", None, "default"]


@rule("3.2.1.durable-survives")
def test_3_2_1_durable_survives(mortal: BrokerProcess) -> None:
    """Accepted, then a kill: it is there, and says that it is durable."""
    with Queues(mortal.port) as queues, Peer(mortal.port) as peer:
        address = queues.address()
        peer.start().session().sender(address).accepted(text("kept", durable=True))
    mortal.kill()
    mortal.start()
    with Peer(mortal.port) as peer:
        found = peer.start().session().receiver(address, credit=1).get().message
    assert (found.value, found.durable) == ("kept", True)


@rule("3.2.1.durable-incapable")
def test_3_2_1_durable_incapable(strict: Session, strict_queues: Queues) -> None:
    """Rejected, or detached where the sender allows no such outcome or has settled; nothing is kept."""
    queue = strict_queues.transient()
    address = f"/queues/{queue}"
    outcome = strict.sender(address).outcome(text(durable=True))
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "amqp:precondition-failed"
    unable = strict.sender(address, source=Source(outcomes=["amqp:accepted:list", "amqp:released:list"]))
    unable.send(text(durable=True))
    unable.expect_detach("amqp:precondition-failed")
    settled = strict.sender(address)
    settled.send(text(durable=True), settled=True)
    settled.expect_detach("amqp:precondition-failed")
    assert strict_queues.count(queue) == 0
    both = strict_queues.exchange("fanout")
    strict_queues.bind(queue, both)
    strict_queues.bind(strict_queues.new(), both)
    strict.sender(f"/exchanges/{both}").accepted(text(durable=True))
    strict.sender(address).accepted(text())
    assert strict_queues.count(queue) == 2


@clause("3.2.1.durable-as-in-rabbitmq")
def test_3_2_1_durable_as_in_rabbitmq(session: Session, queues: Queues) -> None:
    """In the dialect rabbitmq a queue that keeps nothing over a restart accepts a durable message."""
    session.sender(f"/queues/{queues.transient()}").accepted(text(durable=True))
    nowhere = session.sender(f"/exchanges/{queues.exchange('fanout')}")
    assert nowhere.outcome(text(durable=True)) == RELEASED


def _order(session: Session, queues: Queues, levels: int, *priorities: int) -> list[object]:
    """Messages of these priorities sent in turn to a queue of so many levels; how they come out."""
    # A queue whose highest priority is n has n + 1 levels.
    address = queues.address(max_priority=levels - 1)
    session.sender(address).accepted(*(text(UByte(each), priority=each) for each in priorities))
    found = session.receiver(address, credit=len(priorities)).bodies(len(priorities))
    return [each.value for each in found if isinstance(each, UByte)]


@rule("3.2.1.priority-levels")
def test_3_2_1_priority_levels(session: Session, queues: Queues) -> None:
    """Two levels: 0 to 4 are one, 5 to 9 are the other; three: 0 to 3, 4, and 5 to 9."""
    assert _order(session, queues, 2, 0, 5, 4, 9, 3, 7) == [5, 9, 7, 0, 4, 3]
    assert _order(session, queues, 3, 3, 4, 0, 9, 5) == [9, 5, 4, 3, 0]


@rule("3.2.1.priority-lowest")
def test_3_2_1_priority_lowest(session: Session, queues: Queues) -> None:
    """Five levels: 0, 1 and 2 are the lowest, in the order in which they came."""
    assert _order(session, queues, 5, 2, 0, 1, 3) == [3, 2, 0, 1]


@rule("3.2.1.priority-highest")
def test_3_2_1_priority_highest(session: Session, queues: Queues) -> None:
    """Five levels: 6 and all above are the highest, in the order in which they came."""
    assert _order(session, queues, 5, 5, 6, 255, 9, 10) == [6, 255, 9, 10, 5]


@rule("3.2.1.priority-distinct")
def test_3_2_1_priority_distinct(session: Session, queues: Queues) -> None:
    """Five levels: 2, 3, 4, 5 and 6 are told apart."""
    assert _order(session, queues, 5, 2, 4, 6, 5, 3) == [6, 5, 4, 3, 2]


@rule("3.2.1.priority-ten-or-more")
def test_3_2_1_priority_ten_or_more(session: Session, queues: Queues) -> None:
    """Ten levels: 0 to 9 differ, what is above is as 9. Twelve: 10 is below 11, and 11 is as 200."""
    assert _order(session, queues, 10, 0, 3, 8, 9, 200, 10) == [9, 200, 10, 8, 3, 0]
    assert _order(session, queues, 12, 9, 10, 11, 200, 12) == [11, 200, 12, 10, 9]


@rule("3.2.1.ttl-reduced")
def test_3_2_1_ttl_reduced(broker: Broker, session: Session, queues: Queues) -> None:
    """A minute, less the time that it waited."""
    address = queues.address()
    began = broker.time()
    session.sender(address).accepted(text(ttl=60_000))
    accepted = broker.time()
    broker.pass_time(0.05)
    asked = broker.time()
    ttl = session.receiver(address, credit=1).get().message.ttl
    assert ttl is not None
    # A millisecond either way is the clocks'.
    assert 60_000 - (broker.time() - began) * 1000 - 2 <= ttl <= 60_000 - (asked - accepted) * 1000 + 2


@clause("3.2.1.ttl-expires")
def test_3_2_1_ttl_expires(broker: Broker, session: Session, queues: Queues) -> None:
    """A millisecond passes, and the message behind it is the first that comes."""
    address = queues.address()
    sender = session.sender(address)
    sender.accepted(text("short", ttl=1))
    broker.pass_time(0.02)
    sender.accepted(text("long", ttl=60_000))
    assert session.receiver(address, credit=2).bodies(1) == ["long"]


@clause("3.2.1.first-acquirer")
def test_3_2_1_first_acquirer(session: Session, queues: Queues) -> None:
    """True for the first link; after it was released, false, for the same link and for others."""
    address = queues.address()
    session.sender(address).accepted(text())
    receiver = session.receiver(address, credit=1)
    first = receiver.get()
    assert first.message.first_acquirer
    receiver.settle(first, RELEASED)
    other = session.receiver(address, credit=1)
    assert not other.get().message.first_acquirer


@clause("3.2.1.delivery-count-first")
def test_3_2_1_delivery_count_first(session: Session, queues: Queues) -> None:
    """Nothing said is 0; attempts that were made elsewhere are attempts, too."""
    for said, expected in ((None, 0), (0, 0), (7, 7)):
        message = header(delivery_count=said) + value_section("m")
        assert _through(session, queues, message).delivery_count == expected


# -- §3.2.2, §3.2.3, §3.2.10 annotations ------------------------------------------------------------------------------


@rule("3.2.2.by-capabilities")
def test_3_2_2_by_capabilities(session: Session, queues: Queues) -> None:
    """A link that names no capability gets no delivery annotations."""
    assert not _through(session, queues, text()).has(DELIVERY_ANNOTATIONS)


@rule("3.2.2.rejected-is-an-error")
def test_3_2_2_rejected_is_an_error(session: Session, queues: Queues) -> None:
    """An error is taken; a text instead detaches the link."""
    address = queues.address()
    error = Described(ULong(0x1D), [Symbol("amqp:internal-error"), None, None])
    session.sender(address).accepted(delivery_annotations({"rejected": error}) + text())
    link = session.sender(address)
    link.send(delivery_annotations({"rejected": "a text"}) + text())
    link.expect_detach("amqp:invalid-field")


@clause("3.2.2.not-forwarded")
def test_3_2_2_not_forwarded(session: Session, queues: Queues) -> None:
    """What a sender told the broker, the receiver does not hear."""
    message = _through(session, queues, delivery_annotations({"x-opt-hop": 1}) + text())
    assert not message.has(DELIVERY_ANNOTATIONS)


@rule("3.2.3.propagated")
def test_3_2_3_propagated(session: Session, queues: Queues) -> None:
    """Through an exchange and a queue, to the receiver."""
    message = _through(session, queues, annotations({"x-opt-trace": "t"}) + text())
    assert message.annotations["x-opt-trace"] == "t"


@rule("3.2.3.unaltered-unless-modified")
def test_3_2_3_unaltered_unless_modified(session: Session, queues: Queues) -> None:
    """Values of all kinds come out as they went in, whatever else the broker adds."""
    given: dict[str, object] = {
        "x-opt-int": Int(5),
        "x-opt-list": [1, "two", None],
        "x-opt-map": {Symbol("inner"): ULong(1)},
        "x-opt-array": Array("symbol", [Symbol("a"), Symbol("b")]),
    }
    assert _through(session, queues, annotations(given) + text()).own_annotations == given


@rule("3.2.10.x-opt-ignored")
def test_3_2_10_x_opt_ignored(session: Session, queues: Queues, strict: Session, strict_queues: Queues) -> None:
    """In both kinds of annotations and in a footer, a message is accepted with keys that nobody understands."""
    unknown = {"x-opt-nobody-knows": "this"}
    message = delivery_annotations(unknown) + annotations(unknown) + text()
    message += section(FOOTER, {Symbol("x-opt-nobody-knows"): "this"})
    for asked, made in ((session, queues), (strict, strict_queues)):
        asked.sender(made.address()).accepted(message)


# A key that is reserved, one that is a number, and one that nobody here understands.
_KEYS = {"reserved": Symbol("nobody-knows"), "a number": ULong(7), "x-": Symbol("x-nobody-knows")}
_MAPS = {"delivery": DELIVERY_ANNOTATIONS, "message": MESSAGE_ANNOTATIONS, "footer": FOOTER}


@pytest.mark.parametrize("key", _KEYS)
@pytest.mark.parametrize("kind", _MAPS)
@rule("3.2.10.not-understood")
def test_3_2_10_not_understood(strict: Session, strict_queues: Queues, kind: str, key: str) -> None:
    """Of either kind of annotations, and in a footer: the link is detached, and the message is not kept.

    Also where each message says its own address.
    """
    queue = strict_queues.new()
    unknown = section(_MAPS[kind], {_KEYS[key]: "this"})
    bare = properties(to=f"/queues/{queue}") + text()
    for target in (Target(f"/queues/{queue}"), Target()):
        link = strict.sender(target)
        link.send(bare + unknown if kind == "footer" else unknown + bare)
        link.expect_detach("amqp:not-implemented")
    assert strict_queues.count(queue) == 0


@pytest.mark.parametrize("settled", [False, True])
@clause("3.2.10.of-outcomes")
def test_3_2_10_of_outcomes(session: Session, queues: Queues, settled: bool) -> None:
    """A modified outcome with a reserved key detaches the link, and the message is there again without it."""
    address = queues.address()
    session.sender(address).accepted(text("m"))
    receiver = session.receiver(address, credit=1)
    receiver.settle(receiver.get(), Modified(message_annotations={"nobody-knows": "this"}), settled)
    receiver.expect_detach("amqp:not-implemented")
    again = session.receiver(address, credit=1).get()
    assert again.message.value == "m"
    assert "nobody-knows" not in again.message.annotations


@clause("3.2.10.as-in-rabbitmq")
def test_3_2_10_as_in_rabbitmq(session: Session, queues: Queues) -> None:
    """In the dialect rabbitmq, keys that begin with x- are passed on; reserved ones cost the link there, too."""
    unknown = {"x-nobody-knows": "this"}
    found = _through(session, queues, annotations(unknown) + text())
    assert found.annotations.items() >= unknown.items()
    link = session.sender(queues.address())
    link.send(annotations({"nobody-knows": "this"}) + text())
    link.expect_detach("amqp:not-implemented")


# -- §3.2.4 properties ------------------------------------------------------------------------------------------------

_ALL_PROPERTIES: dict[str, Any] = {
    "message_id": "id",
    "user_id": b"guest",
    "to": "/queues/somewhere",
    "subject": "subject",
    "reply_to": "/queues/answers",
    "correlation_id": ULong(7),
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "absolute_expiry_time": 4_102_444_800_000,
    "creation_time": 1_700_000_000_123,
    "group_id": "group",
    "group_sequence": 0xFFFF_FFFF,
    "reply_to_group_id": "other group",
}


@rule("3.2.4.properties-unaltered")
def test_3_2_4_properties_unaltered(session: Session, queues: Queues) -> None:
    """All thirteen, byte for byte."""
    bare = properties(**_ALL_PROPERTIES) + data_section(b"body")
    assert _through(session, queues, bare).bare == bare


@clause("3.2.11.message-ids")
def test_3_2_11_message_ids(session: Session, queues: Queues) -> None:
    """As message-id and as correlation-id."""
    for id in (ULong(1 << 63), Uuid(bytes(range(16))), b"\x00binary", "string"):
        message = _through(session, queues, properties(message_id=id, correlation_id=id) + text())
        assert message.properties == {"message_id": id, "correlation_id": id}


@rule("3.2.4.content-type-unknown")
def test_3_2_4_content_type_unknown(session: Session, queues: Queues) -> None:
    """From AMQP 0-9-1 without one, and from 1.0 without one."""
    address = queues.address()
    queues.publish(address, b"older")
    receiver = session.receiver(address, credit=1)
    assert "content_type" not in receiver.get().message.properties
    assert "content_type" not in _through(session, queues, data_section(b"m")).properties


@rule("3.2.4.content-type-opaque")
def test_3_2_4_content_type_opaque(session: Session, queues: Queues) -> None:
    """From AMQP 0-9-1, and from 1.0."""
    address = queues.address()
    queues.publish(address, b"\x00", encode_properties(Properties(content_type="application/octet-stream")))
    opaque = Symbol("application/octet-stream")
    assert session.receiver(address, credit=1).get().message.properties["content_type"] == opaque
    bare = properties(content_type="application/octet-stream") + data_section(b"\x00")
    assert _through(session, queues, bare).properties["content_type"] == opaque


@rule("3.2.4.content-type-data-only")
def test_3_2_4_content_type_data_only(session: Session, queues: Queues) -> None:
    """Values and sequences without a content-type stay so."""
    for body in (value_section("m"), section(AMQP_SEQUENCE, [1, 2])):
        assert "content_type" not in _through(session, queues, body).properties


def _answer(session: Session, queues: Queues) -> Message:
    """A message that the broker itself has written: the answer of its management node, a value."""
    receiver = session.receiver("/management", credit=1, name="pair", properties={"paired": True})
    sender = session.sender("/management", name="pair", properties={"paired": True})
    queue = queues.new()
    request = properties(message_id="1", to=f"/queues/{queue}", subject="GET", reply_to="$me")
    sender.accepted(request + value_section(None))
    message = receiver.get().message
    assert message.has(AMQP_VALUE)
    return message


@rule("3.2.4.content-encoding-data-only")
def test_3_2_4_content_encoding_data_only(session: Session, queues: Queues) -> None:
    """Neither an answer of the management node, which is a value, nor one that came encoded by AMQP 0-9-1."""
    address = queues.address()
    encoded = Properties(type="amqp-1.0", content_encoding="gzip")
    queues.publish(address, value_section("m"), encode_properties(encoded))
    older = session.receiver(address, credit=1).get().message
    assert older.has(AMQP_VALUE)
    for message in (older, _answer(session, queues)):
        assert "content_encoding" not in message.properties


@rule("3.2.4.no-identity-encoding")
def test_3_2_4_no_identity_encoding(session: Session, queues: Queues) -> None:
    """Neither for an answer of the broker's own nor for a message of AMQP 0-9-1, although that names it."""
    address = queues.address()
    queues.publish(address, b"older", encode_properties(Properties(content_encoding="identity")))
    older = session.receiver(address, credit=1).get().message
    for message in (older, _answer(session, queues)):
        assert "content_encoding" not in message.properties


@rule("3.2.4.content-encoding-unset")
def test_3_2_4_content_encoding_unset(session: Session, queues: Queues) -> None:
    """A message without one keeps having none, whichever protocol it came by."""
    address = queues.address()
    queues.publish(address, b"older", encode_properties(Properties(content_type="text/plain")))
    assert "content_encoding" not in session.receiver(address, credit=1).get().message.properties
    assert "content_encoding" not in _through(session, queues, data_section(b"m")).properties


def _keeps_encoding(session: Session, queues: Queues, encoding: str) -> None:
    address = queues.address()
    queues.publish(address, b"older", encode_properties(Properties(content_encoding=encoding)))
    expected = Symbol(encoding)
    assert session.receiver(address, credit=1).get().message.properties["content_encoding"] == expected
    bare = properties(content_encoding=encoding) + data_section(b"m")
    assert _through(session, queues, bare).bare == bare
    queues.publish(address, b"plain")
    assert "content_encoding" not in session.receiver(address, credit=2).get().message.properties


@rule("3.2.4.no-compress-encoding")
def test_3_2_4_no_compress_encoding(session: Session, queues: Queues) -> None:
    """What a sender said is passed on; what it did not say is not put in."""
    _keeps_encoding(session, queues, "compress")
    assert "content_encoding" not in _through(session, queues, data_section(bytes(100_000))).properties


@rule("3.2.4.no-several-encodings")
def test_3_2_4_no_several_encodings(session: Session, queues: Queues) -> None:
    """What a sender said is passed on, and never added to."""
    _keeps_encoding(session, queues, "gzip,deflate")
    _keeps_encoding(session, queues, "gzip")


# -- §3.2.5 to §3.2.9 -------------------------------------------------------------------------------------------------

_SIMPLE: list[object] = [
    None,
    True,
    False,
    UByte(255),
    UShort(65_535),
    UInt(0xFFFF_FFFF),
    ULong(0xFFFF_FFFF_FFFF_FFFF),
    Byte(-128),
    Short(-32_768),
    Int(-(1 << 31)),
    -(1 << 63),
    Float32(b"\x7f\xa0\x00\x01"),
    1.5,
    Decimal32(b"\x22\x50\x00\x01"),
    Decimal64(bytes(range(8))),
    Decimal128(bytes(range(16))),
    Char(0x1F407),
    TimestampMs(-1),
    Uuid(bytes(range(16))),
    b"\x00\xff",
    "text \u20ac",
    Symbol("symbol"),
]


@clause("3.2.5.application-properties")
def test_3_2_5_application_properties(session: Session, queues: Queues) -> None:
    """In their order, and byte for byte."""
    pairs = {f"key {number}": value for number, value in enumerate(_SIMPLE)}
    bare = application_properties(pairs) + value_section("m")
    message = _through(session, queues, bare)
    assert message.bare == bare
    assert list(message.application_properties.items()) == list(pairs.items())


@clause("3.2.6.data-sections")
def test_3_2_6_data_sections(session: Session, queues: Queues) -> None:
    """Three, the second of which is empty."""
    message = _through(session, queues, data_section(b"one") + data_section(b"") + data_section(b"three"))
    assert message.all(DATA) == [b"one", b"", b"three"]


@clause("3.2.7.sequence-sections")
def test_3_2_7_sequence_sections(session: Session, queues: Queues) -> None:
    """Two, and an empty one."""
    message = _through(session, queues, b"".join(section(AMQP_SEQUENCE, each) for each in ([1, "2"], [], [None])))
    assert message.all(AMQP_SEQUENCE) == [[1, "2"], [], [None]]


@clause("3.2.8.value-types")
def test_3_2_8_value_types(session: Session, queues: Queues) -> None:
    """Simple values, lists, maps, arrays of simple and of described values, and described values."""
    values: list[object] = [
        *_SIMPLE,
        [],
        [1, [2, [3]]],
        {"k": {Symbol("k"): ULong(1)}, 2: "two"},
        Array("uint", [UInt(1), UInt(2)]),
        Array("string", ["a"], [Symbol("made:up")]),
        Described(Symbol("made:up"), Described(ULong(1), [None])),
    ]
    address = queues.address()
    session.sender(address).accepted(*map(value_section, values))
    assert session.receiver(address, credit=len(values)).bodies(len(values)) == values


@clause("3.2.9.footer")
def test_3_2_9_footer(session: Session, queues: Queues) -> None:
    """Behind the body, with the annotations that it came with."""
    footer = section(FOOTER, {Symbol("x-opt-hash"): b"\x01\x02"})
    message = _through(session, queues, text() + footer)
    assert message.sections[-1] == (FOOTER, footer)
