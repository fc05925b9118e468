"""Frames of AMQP 0-9-1: type, channel, size, payload, end octet (amqp-0-9-1 §2.3.5, §4.2.3).

This file writes frames; reading them is the loop in `protocol.amqp091.connection`, which must not make an object per
frame.
"""

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE

# amqp-0-9-1 §4.2.2: "AMQP", then protocol id 0 and version 0-9-1.
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

# Class basic and weight 0, with which every content header begins.
_BASIC_HEADER: Final = 60 << 16
# The bytes of a content header before its property flags: class, weight, body size.
CONTENT_HEADER_BYTES: Final = 12


def write_channel(w: BytesWriter, channel: i64) -> None:
    """Append a channel number. It is unsigned, so that an i16 holds the upper half as negative numbers."""
    write_i16_be(w, i16(channel if channel < 0x8000 else channel - 0x1_0000))


def write_method(w: BytesWriter, channel: i64, payload: bytes) -> None:
    w.append(FRAME_METHOD)
    write_channel(w, channel)
    write_i32_be(w, i32(len(payload)))
    w.write(payload)
    w.append(FRAME_END)


def write_content_header(w: BytesWriter, channel: i64, properties: bytes, body_size: i64) -> None:
    w.append(FRAME_HEADER)
    write_channel(w, channel)
    write_i32_be(w, i32(CONTENT_HEADER_BYTES + len(properties)))
    write_i32_be(w, _BASIC_HEADER)
    write_i64_be(w, body_size)
    w.write(properties)
    w.append(FRAME_END)


def write_body_frame_start(w: BytesWriter, channel: i64, size: i64) -> None:
    """Append the head of a body frame. `size` bytes of body and FRAME_END have to follow."""
    w.append(FRAME_BODY)
    write_channel(w, channel)
    write_i32_be(w, i32(size))
