"""Frames of AMQP 1.0: size, data offset, type, channel, extended header, body (amqp-1.0 part 2 §2.3).

Reading takes steps: `frame_size` when four bytes have arrived, the others when the frame is complete. A frame is
written between `begin_frame` and `end_frame`.
"""

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be
from mypy_extensions import i64, u8

from flintmq.base.errors import DecodeError, FramingError
from flintmq.wire.amqp10 import spec, types
from flintmq.wire.amqp10.composite import LAYOUTS, Composite
from flintmq.wire.amqp10.composite_reader import read_described, read_descriptor
from flintmq.wire.amqp10.performatives import (
    Disposition,
    Flow,
    Performative,
    SaslPerformative,
    Transfer,
)
from flintmq.wire.amqp10.reader import Reader
from flintmq.wire.amqp10.transfers import (
    read_disposition,
    read_flow,
    read_transfer,
    write_disposition,
    write_flow,
    write_transfer,
)
from flintmq.wire.amqp10.writer import write_composite

FRAME_AMQP: Final = 0
FRAME_SASL: Final = 1
# The fixed head of a frame. Its data offset counts in units of four bytes, and is 2 without an extended header.
FRAME_HEAD_BYTES: Final = 8
# A frame without a body, which keeps a connection alive (part 2 §2.4.5).
EMPTY_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"


def frame_size(data: bytes, pos: i64) -> i64:
    """Return the size in bytes of the frame at `pos`, its head included. Its first four bytes must be there."""
    size = i64(read_i32_be(data, pos)) & 0xFFFF_FFFF
    if size < FRAME_HEAD_BYTES:
        raise FramingError(f"a frame of {size} bytes: its head alone has {FRAME_HEAD_BYTES}")
    return size


def frame_body(data: bytes, pos: i64, size: i64, kind: i64) -> i64:
    """Return the start of the body of the frame at `pos`, which must be complete and of this kind."""
    offset = i64(data[pos + 4]) << 2
    if offset < FRAME_HEAD_BYTES or offset > size:
        raise FramingError(f"the body of a frame of {size} bytes cannot begin at byte {offset}")
    if data[pos + 5] != kind:
        raise FramingError(f"a frame of type {data[pos + 5]}, expected type {kind}")
    return pos + offset


def frame_channel(data: bytes, pos: i64) -> i64:
    return i64(read_i16_be(data, pos + 6)) & 0xFFFF


def decode_body(data: bytes, pos: i64, end: i64, is_lenient: bool = False) -> tuple[Performative, i64]:
    """Return the performative of a frame whose body is from `pos` to `end`, and the start of the payload.

    Only a transfer has a payload. See Reader for `is_lenient`. Raises DecodeError, and FramingError for a body that no
    AMQP frame may have.
    """
    reader = Reader(data, pos, end, is_lenient)
    code = _body_descriptor(reader)
    if code == spec.TRANSFER:
        try:
            return read_transfer(reader), reader.pos
        except DecodeError as fault:
            raise DecodeError(f"transfer: {fault.text}") from None
    body = _read_body(reader, code)
    if not isinstance(body, Performative):
        raise FramingError(f"an AMQP frame cannot carry {body.type_name}")
    _require_end(reader, body)
    return body, end


def decode_sasl_body(data: bytes, pos: i64, end: i64) -> SaslPerformative:
    """Return the performative of a frame of the security layer. Raises DecodeError and FramingError."""
    reader = Reader(data, pos, end)
    body = _read_body(reader, _body_descriptor(reader))
    if not isinstance(body, SaslPerformative):
        raise FramingError(f"a SASL frame cannot carry {body.type_name}")
    _require_end(reader, body)
    return body


def _body_descriptor(reader: Reader) -> i64:
    code = reader.code()
    if code != types.DESCRIBED:
        raise DecodeError(f"the body of a frame begins with the format code 0x{int(code):02x}, not with a description")
    return read_descriptor(reader)


def _read_body(reader: Reader, code: i64) -> Composite:
    if code == spec.DISPOSITION:
        try:
            return read_disposition(reader)
        except DecodeError as fault:
            raise DecodeError(f"disposition: {fault.text}") from None
    if code == spec.FLOW:
        try:
            return read_flow(reader)
        except DecodeError as fault:
            raise DecodeError(f"flow: {fault.text}") from None
    layout = LAYOUTS.get(code)
    if layout is None:
        raise DecodeError("the body of a frame has the descriptor of no performative")
    return read_described(reader, layout, 1)


def _require_end(reader: Reader, body: Composite) -> None:
    if reader.pos != reader.end:
        raise DecodeError(f"{reader.end - reader.pos} bytes follow the {body.type_name} in its frame")


def begin_frame(w: BytesWriter, channel: i64, kind: i64 = FRAME_AMQP) -> i64:
    """Append the head of a frame. Returns its position, with which `end_frame` fills in the size."""
    start = i64(len(w))
    w.append(0)
    w.append(0)
    w.append(0)
    w.append(0)
    w.append(2)
    w.append(kind)
    w.append(channel >> 8)
    w.append(channel & 0xFF)
    return start


def end_frame(w: BytesWriter, start: i64) -> None:
    size = i64(len(w)) - start
    w[start] = u8(size >> 24 & 0xFF)
    w[start + 1] = u8(size >> 16 & 0xFF)
    w[start + 2] = u8(size >> 8 & 0xFF)
    w[start + 3] = u8(size & 0xFF)


def write_body(w: BytesWriter, body: Composite) -> None:
    """Append a performative without a frame."""
    if isinstance(body, Transfer):
        write_transfer(w, body)
    elif isinstance(body, Disposition):
        write_disposition(w, body)
    elif isinstance(body, Flow):
        write_flow(w, body)
    else:
        write_composite(w, body)


def write_sasl_frame(w: BytesWriter, body: SaslPerformative) -> None:
    start = begin_frame(w, 0, FRAME_SASL)
    write_composite(w, body)
    end_frame(w, start)
