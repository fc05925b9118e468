"""Part 1: values, as a server has to understand them."""

import math
from collections.abc import Mapping

from flintmq.wire.amqp10.performatives import Open
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
from tests.conformance.amqp10.links import Receiver
from tests.conformance.amqp10.long_encodings import (
    NULL,
    TRUE,
    described,
    list32,
    map32,
    string32,
    symbol32,
    uint32,
    ulong64,
)
from tests.conformance.amqp10.peer import Peer
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session
from tests.conformance.brokers import Broker

# Each encoding that part 1 §1.6 has, and its value; integers of Python's are longs.
_EVERY_ENCODING: dict[str, object] = {
    "40": None,
    "41": True,
    "42": False,
    "5600": False,
    "5601": True,
    "50ff": UByte(255),
    "60ffff": UShort(65_535),
    "70ffffffff": UInt(0xFFFF_FFFF),
    "52ff": UInt(255),
    "43": UInt(0),
    "80ffffffffffffffff": ULong(0xFFFF_FFFF_FFFF_FFFF),
    "53ff": ULong(255),
    "44": ULong(0),
    "5180": Byte(-128),
    "618000": Short(-32_768),
    "7180000000": Int(-(1 << 31)),
    "5480": Int(-128),
    "818000000000000000": -(1 << 63),
    "5580": -128,
    "7240490fdb": Float32(b"\x40\x49\x0f\xdb"),
    "82400921fb54442d18": math.pi,
    "7422500001": Decimal32(b"\x22\x50\x00\x01"),
    "842238000000000001": Decimal64(b"\x22\x38" + bytes(5) + b"\x01"),
    "9422080000000000000000000000000001": Decimal128(b"\x22\x08" + bytes(13) + b"\x01"),
    "730001f407": Char(0x1F407),
    "8300000000000003e8": TimestampMs(1000),
    "98000102030405060708090a0b0c0d0e0f": Uuid(bytes(range(16))),
    "a003000102": b"\x00\x01\x02",
    "b000000003000102": b"\x00\x01\x02",
    "a103e282ac": "\u20ac",
    "b100000003e282ac": "\u20ac",
    "a30161": Symbol("a"),
    "b30000000161": Symbol("a"),
    "45": [],
    "c00402550140": [1, None],
    "d00000000700000002550140": [1, None],
    "c10502a1016b41": {"k": True},
    "d10000000800000002a1016b41": {"k": True},
    "e00402500102": Array("ubyte", [UByte(1), UByte(2)]),
    "f000000007000000025401fe": Array("int", [Int(1), Int(-2)]),
    "e0020045": Array("list", []),
    "00a3016140": Described(Symbol("a"), None),
    "008000000000000000ff45": Described(ULong(255), []),
    "e00a0200a30178a101610162": Array("string", ["a", "b"], [Symbol("x")]),
}


@clause("1.6.every-type")
def test_1_6_every_type(session: Session, queues: Queues) -> None:
    """A message with each of them is accepted, and comes out as it went in.

    The broker looks into no such message. What it repeats of the properties of a link it has read.
    """
    address = queues.address()
    messages = [b"\x00\x53\x77" + bytes.fromhex(encoded) for encoded in _EVERY_ENCODING]
    session.sender(address).accepted(*messages)
    receiver = session.receiver(address, credit=len(messages))
    assert [each.message.bare for each in receiver.take(len(messages))] == messages
    told = _told_again(
        session, address, [part for each in _EVERY_ENCODING for part in (symbol32(each), bytes.fromhex(each))]
    )
    for encoded, value in _EVERY_ENCODING.items():
        assert (type(told[encoded]), told[encoded]) == (type(value), value), encoded


def _told_again(session: Session, address: str, pairs: list[bytes]) -> Mapping[str, object]:
    """The properties of a link as the server repeats them, which were given as these keys and values."""
    link = Receiver(session)
    link.name, link.handle = "told", 77
    session.links.append(link)
    source = described(ulong64(0x28), list32(string32(address)))
    fields = [string32("told"), uint32(77), TRUE, NULL, NULL, source, described(ulong64(0x29), list32())]
    attach = described(ulong64(0x12), list32(*fields, *[NULL] * 6, map32(*pairs)))
    session.peer.write(session.channel, None, attach)
    session.peer.wait(lambda: link.attached is not None, session.ill)
    return link.answer.properties


@clause("1.6.malformed")
def test_1_6_malformed(broker: Broker) -> None:
    """Cut short, of no code, a text that is no UTF-8, a count that the size cannot hold; and more than the value."""
    fields = [
        b"\xa1\x05abc",
        b"\xff",
        b"\x3f",
        b"\xa1\x02\xc3\x28",
        b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        b"\xc1\x02\x01\x40",
    ]
    behind = described(ulong64(0x10), list32(string32("c"))) + NULL
    for wrong in (*(described(ulong64(0x10), list32(field)) for field in fields), behind):
        with Peer(broker.connect()) as peer:
            peer.log_in()
            peer.write(0, None, wrong)
            peer.wait(lambda: peer.closed is not None)
            assert peer.closed is not None
            assert peer.closed.error is not None
            assert peer.closed.error.condition == "amqp:decode-error", wrong.hex()


@rule("1.4.multiple-mandatory")
def test_1_4_multiple_mandatory(broker: Broker) -> None:
    """The server's list of mechanisms has one at least, and is decoded whether it came as a symbol or an array."""
    with Peer(broker.connect()) as peer:
        assert len(peer.mechanisms()) >= 1
    # desired-capabilities, of which there may be several, as one symbol and as an array of two.
    for wish in (symbol32("wish"), b"\xf0\x00\x00\x00\x09\x00\x00\x00\x02\xa3\x01a\x01b"):
        with Peer(broker.connect()) as peer:
            peer.log_in()
            peer.write(0, None, described(ulong64(0x10), list32(string32("c"), *[NULL] * 7, wish)))
            peer.answer(Open)
            peer.session().sync()
