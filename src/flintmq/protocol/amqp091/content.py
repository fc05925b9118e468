"""Messages on their way to the peer: a content header, and body frames."""

from mypy_extensions import i64

from flintmq.base.limits import FRAME_OVERHEAD_BYTES
from flintmq.protocol.output import LARGE_BODY_BYTES, Output
from flintmq.wire.amqp091.frames import FRAME_END, write_body_frame_start, write_content_header


def fits_one_frame(output: Output, body_size: i64) -> bool:
    """Whether there is a body, and it is copied into the batch as one frame."""
    return 0 < body_size < LARGE_BODY_BYTES and body_size <= output.frame_max - FRAME_OVERHEAD_BYTES


def write_content(output: Output, channel: i64, properties: bytes, body: bytes) -> None:
    """A content header, and as many body frames as frame_max asks for (none for an empty body)."""
    w = output.writer
    size: i64 = len(body)
    output.charge(size)
    write_content_header(w, channel, properties, size)
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
