"""The properties of published messages, and what they ask of the broker, read once for equal properties."""

from typing import Final, final

from flintmq.base.errors import AccessRefused, PreconditionFailed
from flintmq.broker.access.permission import CONFIGURE
from flintmq.broker.access.user import User
from flintmq.broker.arguments import type_name
from flintmq.broker.message import TRANSIENT, MessageOptions, Table
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.codec import COMMAND_HEADER, options
from flintmq.gateway.amqp091.ports import ClientChannel
from flintmq.wire.amqp091.properties import Scan, decode_properties, encode_properties, headers, scan, short_at

# The queue that a client consumes from, and names in reply-to, to get replies directly on its channel (RabbitMQ).
REPLY_TO: Final = "amq.rabbitmq.reply-to"
# The prefix of generated reply addresses, which replace that name in the reply-to of requests.
REPLY_PREFIX: Final = f"{REPLY_TO}."


def is_reply_address(queue: str) -> bool:
    """Whether a name means a reply address: that of the own channel, or a generated one of any client."""
    return queue == REPLY_TO or queue.startswith(REPLY_PREFIX)


@final
class PublishProperties:
    """The properties of a message. `properties` are stored with it: those published, unless a feature changes them.

    `message_options` are for its queues. `more_keys` are routing keys in addition to that of the method; None: none.
    `need_rights`: the message needs permissions beyond those for the address. `lasts`: equal properties of the next
    message mean the same.
    """

    def __init__(
        self, properties: bytes, message_options: MessageOptions, more_keys: list[str] | None, lasts: bool = True
    ) -> None:
        self.properties = properties
        self.message_options = message_options
        self.more_keys = more_keys
        self.need_rights = more_keys is not None or message_options.command != ""
        self.lasts = lasts


NO_PROPERTIES: Final = PublishProperties(b"\x00\x00", TRANSIENT, None)


def read_publish_properties(vhost: VHost, user: User, properties: bytes, reply_queue: str = "") -> PublishProperties:
    """Read encoded properties of a message of this user. `reply_queue` is that of its channel; empty if it has none.

    Raises SyntaxFault if malformed, PreconditionFailed if invalid.
    """
    # All properties are checked, so that later readers, such as clients or stream filters, can decode them.
    found = scan(properties)
    lasts = True
    if found.user_id_at:
        user_id = short_at(properties, found.user_id_at)
        if user_id != user.name:
            if not user.may_impersonate:
                raise PreconditionFailed(
                    f"user_id property set to '{user_id}' but authenticated user was '{user.name}'"
                )
            lasts = False
    dialect = vhost.dialect
    if dialect.checks_field_names and found.headers_at:
        dialect.check_field_names(headers(properties))
    kept = properties
    if found.reply_to_at and short_at(properties, found.reply_to_at) == REPLY_TO:
        if reply_queue not in vhost.replies:
            raise PreconditionFailed("fast reply consumer does not exist")
        lasts = False
        decoded = decode_properties(properties)
        decoded.reply_to = reply_queue
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
            # Receivers must not see the routing keys in BCC.
            decoded = decode_properties(kept)
            decoded.headers = {name: value for name, value in table.items() if name != "BCC"}
            kept = encode_properties(decoded)
    return PublishProperties(kept, asked, more_keys, lasts)


def check_command(channel: ClientChannel, exchange: str, keys: list[str]) -> None:
    """Check that the user may send a command to the queues of these names.

    Raises PreconditionFailed for another exchange than the default one, AccessRefused without `configure` or for a
    reply address, ResourceLocked for an exclusive queue of another connection.
    """
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
    """Whether the headers may have CC or BCC. Searching the bytes is much cheaper than decoding the table."""
    return b"CC" in properties[found.headers_at : found.headers_end]


def _keys(table: Table, name: str) -> list[str]:
    if name not in table:
        return []
    listed = table[name]
    if not isinstance(listed, list):
        raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(listed)}}}')
    # Values that are not strings are ignored (RabbitMQ).
    return [key for key in listed if isinstance(key, str)]
