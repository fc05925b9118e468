"""Places within messages: where a half transferred delivery goes on."""

import pytest

from flintmq.base.errors import DecodeError, InvalidField
from flintmq.wire.amqp10.received import bytes_before, received_state
from flintmq.wire.amqp10.states import Received

# header (list0), properties with an id, two data sections: one short, one with a length of four bytes.
SECTIONS = [
    bytes.fromhex("005370 45"),
    bytes.fromhex("005373 c0040152 4300"),
    bytes.fromhex("005375 a003") + b"abc",
    b"\x00\x80" + (0x75).to_bytes(8, "big") + bytes.fromhex("b0 00000102") + bytes(258),
]
MESSAGE = b"".join(SECTIONS)


def test_every_byte_has_its_place() -> None:
    """Wherever a message was cut off, its place says how much of it there was."""
    starts = [sum(map(len, SECTIONS[:number])) for number in range(len(SECTIONS))]
    for size in range(len(MESSAGE)):
        number = max(index for index, start in enumerate(starts) if start <= size)
        assert received_state(MESSAGE[:size]) == Received(number, size - starts[number])
        assert bytes_before(MESSAGE, Received(number, size - starts[number])) == size
    assert received_state(MESSAGE) == Received(len(SECTIONS), 0)
    assert bytes_before(MESSAGE, Received(len(SECTIONS), 0)) == len(MESSAGE)


def test_the_end_of_a_section_is_the_beginning_of_the_next() -> None:
    """A receiver may name either."""
    for number, section in enumerate(SECTIONS):
        end = bytes_before(MESSAGE, Received(number, len(section)))
        assert end == bytes_before(MESSAGE, Received(number + 1, 0))


@pytest.mark.parametrize("place", [Received(4, 1), Received(5, 0), Received(0, 5), Received(2, 9)], ids=str)
def test_a_place_that_is_not_there(place: Received) -> None:
    """A place beyond its section or the message is refused."""
    with pytest.raises(InvalidField):
        bytes_before(MESSAGE, place)


@pytest.mark.parametrize("data", ["01", "0001", "00537510", "005377 00 10"], ids=str)
def test_what_is_no_message(data: str) -> None:
    """Bytes that no message begins with are refused."""
    with pytest.raises(DecodeError):
        received_state(bytes.fromhex(data))
