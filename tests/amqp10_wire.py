"""Whole frames and whole values of AMQP 1.0, which tests write and read at once."""

from librt.strings import BytesWriter

from flintmq.base.errors import DecodeError
from flintmq.wire.amqp10.frames import begin_frame, end_frame, write_body
from flintmq.wire.amqp10.performatives import Performative
from flintmq.wire.amqp10.reader import Reader


def write_frame(w: BytesWriter, channel: int, body: Performative, payload: bytes = b"") -> None:
    start = begin_frame(w, channel)
    write_body(w, body)
    w.write(payload)
    end_frame(w, start)


def decode_value(data: bytes) -> object:
    """The value of which `data` has all bytes. Raises DecodeError."""
    reader = Reader(data, 0, len(data))
    value = reader.value()
    if reader.pos != len(data):
        raise DecodeError(f"{len(data) - reader.pos} bytes follow the value")
    return value
