"""Converts messages for consumers of the other protocol, when the first such consumer gets one."""

from typing import Final, final

from flintmq.base.errors import AmqpError, DecodeError, LocalProtocolError
from flintmq.broker.message import Message
from flintmq.gateway.conversion import names
from flintmq.gateway.conversion.from_amqp10 import UNREADABLE, convert
from flintmq.gateway.conversion.lossless import to_091, to_10
from flintmq.gateway.conversion.parts import data_content, data_section, split

# A text in the properties of every message whose conversion depends on its body, too.
_ENCODED: Final = names.ENCODED_TYPE.encode()


@final
class Converted:
    """Converts messages, and caches the last one, because one message may go to many consumers.

    The last converted properties (or sections before the body) are cached as well, because publishers repeat them. The
    body of most messages is only cut out of its section, or put into one.
    """

    def __init__(self) -> None:
        self._message: Message | None = None
        self._form = (b"", b"")
        self._said: bytes | None = None
        self._said_there = b""

    def in_091(self, message: Message) -> tuple[bytes, bytes]:
        """Convert a message of AMQP 1.0 to the properties and the body of AMQP 0-9-1."""
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
                # Only damaged data on the disk has such sections. The message is still delivered.
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
        """Convert a message of AMQP 1.0 without the headers that restore it: for clients whose frames are too small."""
        try:
            return convert(split(message.properties), message.body)
        except (DecodeError, LocalProtocolError):
            return self.in_091(message)

    def in_10(self, message: Message) -> tuple[bytes, bytes]:
        """Convert a message of AMQP 0-9-1 to AMQP 1.0: the sections before the body, and the body with its footer."""
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


# The converters to each protocol.
TO_091: Final = Converted()
TO_10: Final = Converted()
