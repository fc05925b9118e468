"""How the broker reads into content that came by AMQP 0-9-1."""

from typing import Final, final

from flintmq.broker.message import ContentCodec, Table
from flintmq.wire.amqp091.properties import decode_properties, headers


@final
class Codec091(ContentCodec):
    format = 1

    def headers(self, properties: bytes) -> Table:
        return headers(properties)

    def property_text(self, properties: bytes, name: str) -> str:
        decoded = decode_properties(properties)
        if name == "timestamp":
            return "" if decoded.timestamp is None else str(decoded.timestamp)
        return (decoded.correlation_id if name == "correlation_id" else decoded.message_id) or ""


CODEC_091: Final = Codec091()
