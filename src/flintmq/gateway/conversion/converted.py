"""Messages as consumers of the other protocol get them, converted when the first of them does."""

from typing import Final, final

from flintmq.base.errors import AmqpError, DecodeError, LocalProtocolError
from flintmq.broker.message import Message
from flintmq.gateway.conversion.from_amqp10 import UNREADABLE, convert
from flintmq.gateway.conversion.lossless import to_091, to_10
from flintmq.gateway.conversion.parts import data_section, split


@final
class Converted:
    """Remembers the last message: one that goes to many is converted once."""

    def __init__(self) -> None:
        self._message: Message | None = None
        self._form = (b"", b"")

    def in_091(self, message: Message) -> tuple[bytes, bytes]:
        """The properties and the body of a message that came by AMQP 1.0."""
        if message is not self._message:
            try:
                self._form = to_091(message.properties, message.body)
            except (DecodeError, LocalProtocolError):
                # Nobody publishes such sections. What the disk has of a message is still delivered.
                self._form = (UNREADABLE, message.properties + message.body)
            self._message = message
        return self._form

    def in_091_alone(self, message: Message) -> tuple[bytes, bytes]:
        """The same without what would go along for the way back: shorter, where that is too long for somebody."""
        try:
            return convert(split(message.properties), message.body)
        except (DecodeError, LocalProtocolError):
            return self.in_091(message)

    def in_10(self, message: Message) -> tuple[bytes, bytes]:
        """The sections before the body, and the body with its footer, of a message that came by AMQP 0-9-1."""
        if message is not self._message:
            try:
                self._form = to_10(message.properties, message.body)
            except (AmqpError, LocalProtocolError):
                self._form = (b"", data_section(message.body))
            self._message = message
        return self._form


# Towards each protocol.
TO_091: Final = Converted()
TO_10: Final = Converted()
