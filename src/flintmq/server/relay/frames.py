"""Frames of a link, which carries the bytes of many sockets over one stream.

A frame has 8 bytes of head, in network byte order, and a payload: the kind (8 bits), the length of the payload (24
bits), the channel (32 bits). A channel is one socket of a client. The end that accepted the socket numbers it and opens
it. Channel 0 is the link itself.

A link does not know where its other end is: the frames say nothing of processes, and everything of the socket that the
other end needs to know.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i32, i64, mypyc_attr

from flintmq.base.errors import FlintError

# A socket was accepted. The payload is JSON: `listener` is the name of the one that did, `peer` and `local` are its
# addresses. Its client may send LINK_FIRST_BYTES before any CREDIT.
OPEN: Final = 1
# The client speaks TLS. The payload is JSON: its certificate, as `getpeercert` returns it, or null.
SECURED: Final = 2
# What the client has sent, or what is sent to it.
DATA: Final = 3
# The receiver of DATA has handled this many bytes (32 bits), and takes as many more. On channel 0, the receiver of OPEN
# has handled so many of them.
CREDIT: Final = 4
# Nothing more is sent to the client: its socket is shut for writing after everything before.
END: Final = 5
# The socket is closed after everything before is sent. OVER answers.
CLOSE: Final = 6
# The socket is closed, or has to be at once. The payload is the reason as text, or empty. No frame follows.
OVER: Final = 7
# What the client sent violates TLS, as the payload says. It has been told so, and nothing more comes from it.
REFUSED: Final = 8
# On channel 0: JSON for the program at the other end.
NOTE: Final = 9
# The other end is to answer a fetch of its client. The payload is how many bytes of DATA the answer counts as (64
# bits), and what it is to answer. Only an end that has noted that it can is asked.
FETCH: Final = 10
# The fetch is answered. The payload: the offset behind the last message, and the number of messages; 0 if there is no
# answer (64 bits each).
FETCHED: Final = 11

HEAD_BYTES: Final = 8
# The length of a payload has 24 bits.
DATA_MAX_BYTES: Final = (1 << 24) - 1
# Notes may be as long: one has the certificates of the broker, PEM_MAX_BYTES as base 64. The largest of the others is
# the certificate of a client, of which OpenSSL accepts 100 KB, as JSON.
PAYLOAD_MAX_BYTES: Final = 1024 * 1024
CHANNEL_MAX: Final = (1 << 31) - 1

_LENGTH: Final = 0xFF_FFFF


class LinkViolation(FlintError):
    """The other end of a link has sent something that is no frame."""


def write_frame(w: BytesWriter, kind: i64, channel: i64, payload: bytes) -> None:
    write_head(w, kind, channel, len(payload))
    w.write(payload)


def write_head(w: BytesWriter, kind: i64, channel: i64, size: i64) -> None:
    """Append the head of a frame. `size` bytes of payload have to follow."""
    write_i32_be(w, i32(kind << 24 | size))
    write_i32_be(w, i32(channel))


def write_credit(w: BytesWriter, channel: i64, size: i64) -> None:
    write_i32_be(w, i32(CREDIT << 24 | 4))
    write_i32_be(w, i32(channel))
    write_i32_be(w, i32(size))


@mypyc_attr(allow_interpreted_subclasses=True)
class FrameSink:
    """Takes what a FrameReader has read. `channel` is not checked: it may be over already."""

    def on_data(self, channel: i64, data: bytes) -> None:
        """Take bytes of a channel: a whole DATA frame or a part of one."""
        raise NotImplementedError

    def on_credit(self, channel: i64, size: i64) -> None:
        """Take a CREDIT frame."""
        raise NotImplementedError

    def on_frame(self, kind: i64, channel: i64, payload: bytes) -> None:
        """Take any other frame."""
        raise NotImplementedError


@final
class FrameReader:
    """Reads frames from pieces of a stream, however it is split, and gives them to `sink`.

    The sink may call `hold` while it takes a frame. The reader then keeps everything behind until `go_on`.
    """

    def __init__(self, sink: FrameSink) -> None:
        self._is_held = False
        self._sink = sink
        # The beginning of a frame that is not complete, or everything behind a held frame.
        self._rest = b""
        # The channel of the DATA frame that is being read, and how many of its bytes have not arrived. They are given
        # to the sink as they arrive, so that they are not copied a second time.
        self._channel: i64 = 0
        self._missing: i64 = 0

    def hold(self) -> None:
        """Keep everything behind the frame that is being given to the sink."""
        self._is_held = True

    def is_held(self) -> bool:
        return self._is_held

    def receive(self, data: bytes) -> None:
        """Read a piece of the stream. Raises LinkViolation if it is no frame."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if self.is_held():
            self._rest = data
            return
        sink = self._sink
        at: i64 = 0
        size: i64 = len(data)
        while at < size:
            if self._missing > 0:
                end: i64 = min(at + self._missing, size)
                self._missing -= end - at
                sink.on_data(self._channel, data if at == 0 and end == size else data[at:end])
                at = end
            elif size - at < HEAD_BYTES:
                break
            else:
                word: i64 = i64(read_i32_be(data, at))
                kind: i64 = word >> 24
                length: i64 = word & _LENGTH
                channel: i64 = i64(read_i32_be(data, at + 4))
                start: i64 = at + HEAD_BYTES
                if kind == DATA:
                    self._channel = channel
                    self._missing = length
                    at = start
                    continue
                limit: i64 = DATA_MAX_BYTES if kind == NOTE else PAYLOAD_MAX_BYTES
                wanted: i64 = 4 if kind == CREDIT else 16 if kind == FETCHED else length
                if kind < OPEN or kind > FETCHED or length > limit or length != wanted:
                    raise LinkViolation(f"link: kind {kind} with {length} bytes is no frame")
                if size - start < length:
                    break
                at = start + length
                if kind == CREDIT:
                    sink.on_credit(channel, i64(read_i32_be(data, start)))
                else:
                    sink.on_frame(kind, channel, data[start:at])
            if self.is_held():
                break
        if at < size:
            self._rest = data[at:]

    def go_on(self) -> None:
        """Read what was kept, and everything that comes, again. Raises LinkViolation."""
        self._is_held = False
        if self._rest:
            rest = self._rest
            self._rest = b""
            self.receive(rest)
