"""Encoding of deliveries. Parts that are equal to those of the previous delivery are encoded only once."""

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

# The size of the delivery tag and the redelivered flag in basic.deliver.
DELIVERY_OVERHEAD_BYTES: Final = 9


@final
class LastDelivery:
    """The parts of a channel's last delivery, to encode them only once for equal deliveries in a row.

    A delivery is equal if it has the identical prefix, address and properties objects, and a body of the same size. At
    the first equal one, `compose` encodes all bytes before the delivery tag into `before_tag`, and those between the
    redelivered flag and the body into `before_body`.
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
        """Encode the parts. Returns False, with nothing done, if the body does not fit one frame."""
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
