"""How the broker reads into content that came by AMQP 0-9-1."""

from typing import Final, final

from flintmq.broker.message import ContentCodec, Table
from flintmq.wire.amqp091.properties import headers


@final
class Codec091(ContentCodec):
    format = 1

    def headers(self, properties: bytes) -> Table:
        return headers(properties)


CODEC_091: Final = Codec091()
