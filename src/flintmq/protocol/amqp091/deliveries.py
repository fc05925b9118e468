"""Encodes deliveries; parts that equal those of the delivery before are encoded once."""

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from flintmq.protocol.amqp091.content import KEPT_BYTES_MAX, NOT_KEPT, fits_one_frame
from flintmq.protocol.output import Output
from flintmq.wire.amqp091.frames import (
    FRAME_END,
    FRAME_METHOD,
    write_body_frame_start,
    write_channel,
    write_content_header,
)

# Delivery tag and redelivered: what basic.deliver says beside its consumer, exchange and routing key.
DELIVERY_OVERHEAD_BYTES: Final = 9


@final
class LastDelivery:
    """The parts of a channel's last delivery; the next is the same when it has these very objects and this size.

    Composed when that is so for the first time: `before_tag` is all that stands before the delivery tag, `before_body`
    what is between the redelivered flag and the body.
    """

    def __init__(self) -> None:
        self.prefix: bytes = b""
        self.address: bytes = b""
        self.properties: bytes = b""
        self.size: i64 = NOT_KEPT
        self.before_tag: bytes = b""
        self.before_body: bytes = b""

    def remember(self, prefix: bytes, address: bytes, properties: bytes, size: i64) -> None:
        if self.before_tag:
            self.before_tag = b""
        self.prefix = prefix
        self.address = address
        if len(properties) <= KEPT_BYTES_MAX:
            self.properties = properties
            self.size = size
        else:
            self.size = NOT_KEPT

    def compose(self, channel: i64, output: Output) -> bool:
        """Encode the parts; False where the body does not go out in one frame together with them."""
        if not fits_one_frame(output, self.size):
            return False
        w = BytesWriter()
        w.append(FRAME_METHOD)
        write_channel(w, channel)
        write_i32_be(w, i32(len(self.prefix) + DELIVERY_OVERHEAD_BYTES + len(self.address)))
        w.write(self.prefix)
        self.before_tag = w.getvalue()
        w = BytesWriter()
        w.write(self.address)
        w.append(FRAME_END)
        write_content_header(w, channel, self.properties, self.size)
        write_body_frame_start(w, channel, self.size)
        self.before_body = w.getvalue()
        return True
