"""Message contents in frames: a content header, followed by body frames."""

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.limits import FRAME_OVERHEAD_BYTES
from flintmq.protocol.output import LARGE_BODY_BYTES, Output
from flintmq.wire.amqp091.frames import FRAME_END, write_body_frame_start, write_content_header, write_method

# Parts of a body below this size are copied together: kept apart, each costs more than its bytes.
_PART_BYTES: Final = 16 * 1024
# A size that no body has: nothing is remembered.
NOT_KEPT: Final = -1
# A channel does not remember properties above this size of the content that it sent last.
KEPT_BYTES_MAX: Final = 1024


@final
class Assembly:
    """A body of which some frames have arrived."""

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
        """Add data[start:stop]. A large part is not copied before `whole`, and keeps all of `data` until then."""
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
    """Return whether the body is not empty, and goes out as one frame that is copied into the batch."""
    return 0 < body_size < LARGE_BODY_BYTES and body_size <= output.frame_max - FRAME_OVERHEAD_BYTES


@final
class LastContent:
    """The parts of the content that a channel sent last, to encode them only once for equal contents in a row.

    A content is equal if it has the identical method and properties objects, and a body of the same size. At the first
    equal one, `compose` encodes all bytes before the body into `before_body`.
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
        """Encode the parts. Returns False, with nothing done, if the body does not fit one frame."""
        if not fits_one_frame(output, self.size):
            return False
        w = BytesWriter()
        write_method(w, channel, self.method)
        write_content_header(w, channel, self.properties, self.size)
        write_body_frame_start(w, channel, self.size)
        self.before_body = w.getvalue()
        return True


def write_content(output: Output, channel: i64, properties: bytes, body: bytes) -> None:
    """Write a content header, and the body in as many frames as frame_max requires (none for an empty body)."""
    size: i64 = len(body)
    output.charge(size)
    write_content_header(output.writer, channel, properties, size)
    write_body(output, channel, body)


def write_pieces(output: Output, channel: i64, properties: bytes, pieces: list[bytes]) -> None:
    """Write a content header, and a body that is in pieces. Small pieces share frames; large pieces are not copied."""
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
    """Write a body in as many frames as frame_max requires (none for an empty body). Large frames are not copied."""
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
        if step < _PART_BYTES:
            w.write(body[pos : pos + step])
        else:
            output.lay_behind(body, pos, pos + step)
        w.append(FRAME_END)
        pos += step
