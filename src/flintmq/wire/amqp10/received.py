"""The received state of a partial message (amqp-1.0 part 3 §3.4.1).

The state has the number of a section, from 0, and an offset from the first byte of the section's descriptor: the
encoded section is what is transferred.
"""

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from flintmq.base.errors import DecodeError, InvalidField
from flintmq.wire.amqp10.states import Received

_DESCRIBED: Final = 0x00
# Sizes by the upper half of a format code, from 0x4 on. Types with a length are computed.
_FIXED: Final = (0, 1, 2, 4, 8, 16)


def received_state(data: bytes) -> Received:
    """Return the state of a message of which `data` is the beginning. `data` may end anywhere.

    Raises DecodeError if `data` is not the beginning of a message.
    """
    end: i64 = len(data)
    number: i64 = 0
    start: i64 = 0
    while start < end:
        stop = _section_end(data, start, end)
        if stop < 0:
            break
        start = stop
        number += 1
    return Received(number, end - start)


def bytes_before(data: bytes, state: Received) -> i64:
    """Return the number of bytes before a received state. Raises InvalidField for one outside of the message."""
    end: i64 = len(data)
    start: i64 = 0
    for _ in range(state.section_number):
        start = _section_end(data, start, end) if start < end else -1
        if start < 0:
            raise InvalidField(f"received: the message has no section {state.section_number}")
    stop = _section_end(data, start, end) if start < end else start
    # Compared as Python integers: a ulong may exceed an i64.
    if state.section_offset > int((end if stop < 0 else stop) - start):
        raise InvalidField(
            f"received: section {state.section_number} of the message has no byte {state.section_offset}"
        )
    return start + state.section_offset


def _section_end(data: bytes, pos: i64, end: i64) -> i64:
    """Return the position behind the section at `pos`, or -1 if that is behind `end`."""
    if data[pos] != _DESCRIBED:
        raise DecodeError(f"message: no section at byte {pos}")
    # The value in amqp-value may itself be described.
    while pos < end and data[pos] == _DESCRIBED:
        pos = _plain_end(data, pos + 1, end)
        if pos < 0:
            return -1
    return _plain_end(data, pos, end)


def _plain_end(data: bytes, pos: i64, end: i64) -> i64:
    if pos >= end:
        return -1
    code: i64 = data[pos]
    pos += 1
    width = code >> 4
    size: i64
    if 0x4 <= width <= 0x9:
        size = _FIXED[width - 4]
    elif width == 0xA or width == 0xC or width == 0xE:
        if pos >= end:
            return -1
        size = i64(data[pos]) + 1
    elif width == 0xB or width == 0xD or width == 0xF:
        if pos + 4 > end:
            return -1
        size = (i64(read_i32_be(data, pos)) & 0xFFFF_FFFF) + 4
    else:
        raise DecodeError(f"message: the value at byte {pos - 1} has the unknown format code 0x{int(code):02x}")
    return pos + size if size <= end - pos else -1
