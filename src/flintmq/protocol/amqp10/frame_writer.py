"""The outgoing frames of a connection."""

from typing import final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from flintmq.base.errors import SCOPE_SESSION, FrameSizeTooSmall
from flintmq.protocol.output import Output
from flintmq.wire.amqp10.frames import FRAME_AMQP, FRAME_HEAD_BYTES, begin_frame, end_frame, write_body
from flintmq.wire.amqp10.performatives import Performative
from flintmq.wire.amqp10.spec import MIN_MAX_FRAME_SIZE


@final
class FrameWriter:
    """Writes frames into the output of a connection."""

    def __init__(self, output: Output) -> None:
        self.output = output
        # The largest frame that the peer takes, in bytes; until its open, the minimum (amqp-1.0 part 2 §2.4.1).
        self.frame_max: i64 = MIN_MAX_FRAME_SIZE

    def send(self, channel: i64, performative: Performative) -> None:
        """Send a performative. Raises FrameSizeTooSmall, with nothing written, if it is too large for the peer."""
        w = self.output.writer
        start = begin_frame(w, channel)
        write_body(w, performative)
        size = i64(len(w)) - start
        if size > self.frame_max:
            w.truncate(start)
            raise FrameSizeTooSmall(
                f"{performative.type_name} needs {size} bytes, the peer takes {self.frame_max}", SCOPE_SESSION
            )
        end_frame(w, start)
        self.output.touch()

    def begin(self, channel: i64, performative: bytes, payload_size: i64) -> None:
        """Write a frame up to its payload, `payload_size` bytes, which the caller writes next."""
        w = self.output.writer
        write_i32_be(w, i32(FRAME_HEAD_BYTES + len(performative) + payload_size))
        w.append(2)
        w.append(FRAME_AMQP)
        w.append(channel >> 8)
        w.append(channel & 0xFF)
        w.write(performative)

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are: a protocol header, or a whole frame."""
        self.output.writer.write(data)
        self.output.touch()


def encode(performative: Performative) -> bytes:
    """Return the encoded performative, without the head of a frame."""
    w = BytesWriter()
    write_body(w, performative)
    return w.getvalue()
