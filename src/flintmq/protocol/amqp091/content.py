"""Messages in frames: a content header, and body frames."""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.limits import FRAME_OVERHEAD_BYTES
from flintmq.protocol.output import LARGE_BODY_BYTES, Output
from flintmq.wire.amqp091.frames import FRAME_END, write_body_frame_start, write_content_header, write_method

# Smaller parts of a body are copied together as they come: each would cost more than its bytes.
_PART_BYTES: Final = 16 * 1024
# No body is so long.
NOT_KEPT: Final = -1
# A channel keeps no larger properties of what it sent last.
KEPT_BYTES_MAX: Final = 1024


@final
class Assembly:
    """A body of which some frames came."""

    def __init__(self) -> None:
        self.size: i64 = 0
        self._parts: list[bytes | memoryview] = []
        self._small = BytesWriter()

    def add(self, part: bytes) -> None:
        size: i64 = len(part)
        self.size += size
        if size < _PART_BYTES:
            self._small.write(part)
        else:
            self._gather()
            self._parts.append(part)

    def add_from(self, data: bytes, start: i64, stop: i64) -> None:
        """The same with a part of what was read, which is copied once, by `whole`, and kept until then."""
        if stop - start < _PART_BYTES:
            self.add(data[start:stop])
        else:
            self.size += stop - start
            self._gather()
            self._parts.append(memoryview(data)[start:stop])

    def whole(self) -> bytes:
        self._gather()
        return b"".join(self._parts)

    def _gather(self) -> None:
        if len(self._small) > 0:
            self._parts.append(self._small.getvalue())
            self._small.truncate(0)


def fits_one_frame(output: Output, body_size: i64) -> bool:
    """Whether there is a body, and it is copied into the batch as one frame."""
    return 0 < body_size < LARGE_BODY_BYTES and body_size <= output.frame_max - FRAME_OVERHEAD_BYTES


@final
class LastContent:
    """The parts of what a channel sent last; the next is the same when it has these very objects and this size.

    Composed when that is so for the first time: `before_body` is all that stands before the body.
    """

    def __init__(self) -> None:
        self.method = b""
        self.properties = b""
        self.size: i64 = NOT_KEPT
        self.before_body = b""

    def remember(self, method: bytes, properties: bytes, size: i64) -> None:
        if self.before_body:
            self.before_body = b""
        if len(properties) <= KEPT_BYTES_MAX:
            self.method = method
            self.properties = properties
            self.size = size
        else:
            self.size = NOT_KEPT

    def compose(self, channel: i64, output: Output) -> bool:
        """Encode the parts; False where the body does not go out in one frame together with them."""
        if not fits_one_frame(output, self.size):
            return False
        w = BytesWriter()
        write_method(w, channel, self.method)
        write_content_header(w, channel, self.properties, self.size)
        write_body_frame_start(w, channel, self.size)
        self.before_body = w.getvalue()
        return True


def write_content(output: Output, channel: i64, properties: bytes, body: bytes) -> None:
    """A content header, and as many body frames as frame_max asks for (none for an empty body)."""
    size: i64 = len(body)
    output.charge(size)
    write_content_header(output.writer, channel, properties, size)
    write_body(output, channel, body)


def write_pieces(output: Output, channel: i64, properties: bytes, pieces: list[bytes]) -> None:
    """The same for a body in pieces: small ones share a frame, as far as it holds them; large ones are not copied."""
    size: i64 = 0
    for piece in pieces:
        size += len(piece)
    output.charge(size)
    write_content_header(output.writer, channel, properties, size)
    room: i64 = output.frame_max - FRAME_OVERHEAD_BYTES
    gathered: list[bytes] = []
    held: i64 = 0
    for piece in pieces:
        length: i64 = len(piece)
        if held > 0 and held + length > room:
            write_body(output, channel, b"".join(gathered))
            gathered.clear()
            held = 0
        if length >= LARGE_BODY_BYTES:
            if held > 0:
                write_body(output, channel, b"".join(gathered))
                gathered.clear()
                held = 0
            write_body(output, channel, piece)
        else:
            gathered.append(piece)
            held += length
    if held > 0:
        write_body(output, channel, b"".join(gathered))


def write_body(output: Output, channel: i64, body: bytes) -> None:
    w = output.writer
    size: i64 = len(body)
    room: i64 = output.frame_max - FRAME_OVERHEAD_BYTES
    if size <= room and size < LARGE_BODY_BYTES:
        if size > 0:
            write_body_frame_start(w, channel, size)
            w.write(body)
            w.append(FRAME_END)
        return
    pos: i64 = 0
    while pos < size:
        step: i64 = size - pos
        if step > room:
            step = room
        write_body_frame_start(w, channel, step)
        output.lay_behind(body if step == size else body[pos : pos + step])
        w.append(FRAME_END)
        pos += step
