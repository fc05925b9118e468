"""Part 1: values, as a server has to understand them."""

from flintmq.wire.amqp10.performatives import Open
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.long_encodings import NULL, described, list32, string32, symbol32, ulong64
from tests.conformance.amqp10.peer import Peer
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session
from tests.servers import BrokerProcess

# An amqp-value of each encoding that part 1 §1.6 has: what stands behind 00 53 77.
_EVERY_ENCODING = """
40 | 41 | 42 | 5600 | 5601 | 50ff | 60ffff | 70ffffffff | 52ff | 43 | 80ffffffffffffffff | 53ff | 44 | 5180 | 618000
7180000000 | 5480 | 818000000000000000 | 5580 | 7240490fdb | 82400921fb54442d18 | 7422500001 | 842238000000000001
9422080000000000000000000000000001 | 730001f407 | 8300000000000003e8 | 98000102030405060708090a0b0c0d0e0f
a003000102 | b000000003000102 | a103e282ac | b100000003e282ac | a30161 | b30000000161 | 45 | c0040255 01 40
d00000000700000002550140 | c10502a1016b41 | d10000000800000002 a1016b 41 | e0040250 0102 | f0000000070000000254 0102
e0020045 | 00a30161 40 | 0080 00000000000000ff 45 | e00a0200a3 0178 a1 0161 0162
"""


def _encodings() -> list[bytes]:
    words = _EVERY_ENCODING.replace("\n", "|").split("|")
    return [bytes.fromhex(word) for word in words if word.strip()]


@clause("1.6.every-type")
def test_1_6_every_type(session: Session, queues: Queues) -> None:
    """A message with each of them is accepted, and comes out as it went in."""
    address = queues.address()
    messages = [b"\x00\x53\x77" + encoded for encoded in _encodings()]
    session.sender(address).accepted(*messages)
    receiver = session.receiver(address, credit=len(messages))
    assert [each.message.bare for each in receiver.take(len(messages))] == messages


@clause("1.6.malformed")
def test_1_6_malformed(broker: BrokerProcess) -> None:
    """Cut short, of no code, longer than its list, a text that is no UTF-8, a count that the size cannot hold."""
    fields = [
        b"\xa1\x05abc",
        b"\xff",
        b"\x3f",
        b"\xa1\x02\xc3\x28",
        b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40",
        b"\xc1\x02\x01\x40",
    ]
    for wrong in fields:
        with Peer(broker.port) as peer:
            peer.log_in()
            peer.write(0, None, described(ulong64(0x10), list32(wrong)))
            peer.wait(lambda: peer.closed is not None)
            assert peer.closed is not None
            assert peer.closed.error is not None
            assert peer.closed.error.condition == "amqp:decode-error", wrong.hex()


@rule("1.4.multiple-mandatory")
def test_1_4_multiple_mandatory(broker: BrokerProcess) -> None:
    """The server's list of mechanisms has one at least, and is decoded whether it came as a symbol or an array."""
    with Peer(broker.port) as peer:
        assert len(peer.mechanisms()) >= 1
    # desired-capabilities, of which there may be several, as one symbol and as an array of two.
    for wish in (symbol32("wish"), b"\xf0\x00\x00\x00\x09\x00\x00\x00\x02\xa3\x01a\x01b"):
        with Peer(broker.port) as peer:
            peer.log_in()
            peer.write(0, None, described(ulong64(0x10), list32(string32("c"), *[NULL] * 7, wish)))
            peer.answer(Open)
