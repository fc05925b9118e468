"""What the properties of a published message ask of the broker, decoded once for equal properties."""

from typing import Final, final

from flintmq.base.errors import AccessRefused, PreconditionFailed
from flintmq.broker.access.permission import CONFIGURE
from flintmq.broker.arguments import type_name
from flintmq.broker.message import TRANSIENT, MessageOptions, Table
from flintmq.gateway.amqp091.codec import COMMAND_HEADER, options
from flintmq.gateway.amqp091.ports import ClientChannel
from flintmq.wire.amqp091.properties import Scan, decode_properties, encode_properties, headers, scan, short_at

# The queue a client consumes from, and names in reply-to, for answers straight to its channel (RabbitMQ).
REPLY_TO: Final = "amq.rabbitmq.reply-to"
# The prefix of reply addresses that requests carry instead of it.
REPLY_PREFIX: Final = f"{REPLY_TO}."


def is_reply_address(queue: str) -> bool:
    """Whether it is the name of no queue but of a place for answers: a channel's own, or somebody's by its address."""
    return queue == REPLY_TO or queue.startswith(REPLY_PREFIX)


@final
class PublishOptions:
    """`properties` are what is kept: the publisher's bytes, but where a feature changes them.

    `more_keys` are routing keys beside the method's, None where there are none. `need_rights` beyond those of any
    message to the address. Some do not `last`: the same properties may say something else with the next message.
    """

    def __init__(
        self, properties: bytes, message_options: MessageOptions, more_keys: list[str] | None, lasts: bool = True
    ) -> None:
        self.properties = properties
        self.message_options = message_options
        self.more_keys = more_keys
        self.need_rights = more_keys is not None or message_options.command != ""
        self.lasts = lasts


NO_OPTIONS: Final = PublishOptions(b"\x00\x00", TRANSIENT, None)


def read_publish_options(channel: ClientChannel, properties: bytes) -> PublishOptions:
    """Raises SyntaxFault for malformed properties, PreconditionFailed for ones that ask for what cannot be."""
    # Whoever reads this message later, be it a client or a stream's reader, must be able to: all of it is looked at.
    found = scan(properties)
    lasts = True
    if found.user_id_at:
        user_id = short_at(properties, found.user_id_at)
        if user_id != channel.user.name:
            if not channel.user.may_impersonate:
                raise PreconditionFailed(
                    f"user_id property set to '{user_id}' but authenticated user was '{channel.user.name}'"
                )
            lasts = False
    dialect = channel.vhost.dialect
    if dialect.checks_field_names and found.headers_at:
        dialect.check_field_names(headers(properties))
    kept = properties
    if found.reply_to_at and short_at(properties, found.reply_to_at) == REPLY_TO:
        if channel.reply_queue not in channel.vhost.replies:
            raise PreconditionFailed("fast reply consumer does not exist")
        lasts = False
        decoded = decode_properties(properties)
        decoded.reply_to = channel.reply_queue
        kept = encode_properties(decoded)
    more_keys: list[str] | None = None
    asked = options(properties, found)
    if found.headers_at and _speaks_of_copies(properties, found):
        table = headers(properties)
        hidden = _keys(table, "BCC")
        more_keys = [*_keys(table, "CC"), *hidden] or None
        if hidden:
            asked.hidden_keys = hidden
        if "BCC" in table:
            # Nobody who gets the message is to see who else does.
            decoded = decode_properties(kept)
            decoded.headers = {name: value for name, value in table.items() if name != "BCC"}
            kept = encode_properties(decoded)
    return PublishOptions(kept, asked, more_keys, lasts)


def check_command(channel: ClientChannel, exchange: str, keys: list[str]) -> None:
    """Raises unless the user may tell the queues of these names what to do, and says so to the default exchange."""
    if exchange != "":
        raise PreconditionFailed(
            f"header '{COMMAND_HEADER}' is for the default exchange, where the routing key names the queue"
        )
    for key in keys:
        if key in channel.vhost.replies:
            raise AccessRefused(f"'{key}' is an address for answers: only its consumer says what becomes of them")
        channel.rights.check(CONFIGURE, "queue", key)
        queue = channel.vhost.queues.get(key)
        if queue is not None:
            queue.check_access(channel.connection)


def _speaks_of_copies(properties: bytes, found: Scan) -> bool:
    """A search that finds nothing is cheaper by far than decoding a table."""
    return b"CC" in properties[found.headers_at : found.headers_end]


def _keys(table: Table, name: str) -> list[str]:
    if name not in table:
        return []
    listed = table[name]
    if not isinstance(listed, list):
        raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(listed)}}}')
    # Values that are no strings are ignored, and are no fault (RabbitMQ).
    return [key for key in listed if isinstance(key, str)]
