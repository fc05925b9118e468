import pytest

from flintmq.protocol.sniff import Protocol, sniff


@pytest.mark.parametrize(
    ("first", "spoken"),
    [
        (b"AMQP\x00\x00\x09\x01", Protocol.AMQP_091),
        (b"AMQP\x00\x01\x00\x00", Protocol.AMQP_10),
        (b"AMQP\x03\x01\x00\x00", Protocol.AMQP_10),
        (b"AMQP\x02\x01\x00\x00", Protocol.TLS_HEADER),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", Protocol.TLS),
        # Versions that are not spoken: the nearest that is below, or else the highest.
        (b"AMQP\x00\x00\x0a\x00", Protocol.AMQP_091),
        (b"AMQP\x00\x02\x00\x00", Protocol.AMQP_10),
        (b"AMQP\x00\x00\x01\x00", Protocol.AMQP_10),
        # AMQP 0-8 and 0-9, and whatever is none.
        (b"AMQP\x01\x01\x00\x09", Protocol.AMQP_091),
        (b"GET / HTTP/1.1\r\n", Protocol.AMQP_091),
        (b"AMQX", Protocol.AMQP_091),
        (b"\x16\x02", Protocol.AMQP_091),
    ],
)
def test_the_first_bytes_tell(first: bytes, spoken: Protocol) -> None:
    """Whole or byte by byte, a protocol is known by the bytes that no other begins with."""
    assert sniff(first) is spoken
    told = [sniff(first[:size]) for size in range(1, len(first) + 1)]
    while told and told[0] is None:
        told.pop(0)
    assert set(told) == {spoken}


def test_nothing_tells_nothing() -> None:
    """As long as nothing came, it may be anything."""
    assert sniff(b"") is None
