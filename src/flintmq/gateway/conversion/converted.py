"""Messages as consumers of the other protocol get them, converted when the first of them does."""

from typing import Final, final

from flintmq.base.errors import AmqpError, DecodeError, LocalProtocolError
from flintmq.broker.message import Message
from flintmq.gateway.conversion import names
from flintmq.gateway.conversion.from_amqp10 import UNREADABLE, convert
from flintmq.gateway.conversion.lossless import to_091, to_10
from flintmq.gateway.conversion.parts import data_content, data_section, split

# In the type, or in the headers and annotations, of whatever is not converted by its properties alone.
_ENCODED: Final = names.ENCODED_TYPE.encode()


@final
class Converted:
    """Remembers the last message: one that goes to many is converted once.

    Also the properties (the sections before the body) that were converted last: publishers repeat them, and most bodies
    are only cut out of their section, or put into one.
    """

    def __init__(self) -> None:
        self._message: Message | None = None
        self._form = (b"", b"")
        self._said: bytes | None = None
        self._said_there = b""

    def in_091(self, message: Message) -> tuple[bytes, bytes]:
        """The properties and the body of a message that came by AMQP 1.0."""
        if message is self._message:
            return self._form
        said = message.properties
        content = data_content(message.body)
        if content is not None and said == self._said:
            self._form = (self._said_there, content)
        else:
            try:
                self._form = to_091(said, message.body)
            except (DecodeError, LocalProtocolError):
                # Nobody publishes such sections. What the disk has of a message is still delivered.
                self._form = (UNREADABLE, said + message.body)
                content = None
            self._remember(said, content is not None)
        self._message = message
        return self._form

    def _remember(self, said: bytes, is_plain: bool) -> None:
        if is_plain and _ENCODED not in said:
            self._said = said
            self._said_there = self._form[0]

    def in_091_alone(self, message: Message) -> tuple[bytes, bytes]:
        """The same without what would go along for the way back: shorter, where that is too long for somebody."""
        try:
            return convert(split(message.properties), message.body)
        except (DecodeError, LocalProtocolError):
            return self.in_091(message)

    def in_10(self, message: Message) -> tuple[bytes, bytes]:
        """The sections before the body, and the body with its footer, of a message that came by AMQP 0-9-1."""
        if message is self._message:
            return self._form
        said = message.properties
        if said == self._said:
            self._form = (self._said_there, data_section(message.body))
        else:
            try:
                self._form = to_10(said, message.body)
                self._remember(said, True)
            except (AmqpError, LocalProtocolError):
                self._form = (b"", data_section(message.body))
        self._message = message
        return self._form


# Towards each protocol.
TO_091: Final = Converted()
TO_10: Final = Converted()
