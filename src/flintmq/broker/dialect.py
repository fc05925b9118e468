"""The two dialects of AMQP, for each point in which the specifications and RabbitMQ differ (docs/dialects.md).

`RABBITMQ` is what clients expect today; `STRICT` follows the specifications to the letter. Parts of the specification
that RabbitMQ lacks are no difference: both dialects have them.
"""

import re
from typing import Final, final

from flintmq.base.errors import ConfigurationError, PreconditionFailed, SyntaxFault
from flintmq.broker import bounds
from flintmq.broker.message import Table

# The specification's domains exchange-name and queue-name limit names to this.
_NAME_MAX: Final = 127
_NAME: Final = re.compile(r"[a-zA-Z0-9\-_.:]*")
# amqp-0-9-1 §4.2.5.5. The specification's own x-match has a hyphen, which this rule forbids: names that begin like it
# are allowed.
_FIELD_NAME_MAX: Final = 128
_FIELD_NAME: Final = re.compile(r"[a-zA-Z$#][a-zA-Z0-9$#_]*|x-[a-zA-Z0-9$#_\-]*")


@final
class Dialect:
    """A dialect. Each attribute but the name is True if the dialect follows the specification in that point.

    `missing_is_fault`: deleting a missing exchange or queue, or removing a missing binding, is 404.
    `failed_unbind_ends_connection`: a failed queue.unbind closes the connection instead of the channel.
    `foreign_tag_is_fault`: cancelling a consumer tag that this channel never had is 530.
    `checks_names`: names of exchanges and queues consist of letters, digits, hyphen, underscore, period, colon;
    RabbitMQ accepts any, and strips line ends when they are declared, bound or deleted.
    `checks_field_names`: names in arguments and headers consist of letters, digits, underscore, $ and #.
    `binds_default_exchange`: queues can be bound to the default exchange by further keys.
    `compares_what_is_specified`: redeclared exchanges have to agree in type, durability and all arguments and in
    nothing else, and redeclared queues in all but auto-delete.
    `unknown_type_ends_connection`: declaring an exchange of an unknown type is 503; in RabbitMQ it is 406.
    `withholds_rejected`: a message that a channel requeued by a reject does not return to it; in RabbitMQ it may.
    `dead_letters_deleted`: the messages of a deleted queue go to its dead letter exchange.
    `checks_frames`: frames that AMQP 1.0 forbids and RabbitMQ accepts end the connection, the session or the link: an
    error without a condition, a frame on a channel without a session, a detach for a handle without a link.
    `checks_annotations`: a message of AMQP 1.0 with an unknown annotation whose key does not begin with x-opt- ends its
    sender's link; RabbitMQ passes on every annotation whose key begins with x-.
    `refuses_what_it_loses`: a durable message of AMQP 1.0 is rejected if none of its queues keeps messages over a
    restart; RabbitMQ accepts it.
    `ranks_all`: queues without x-max-priority distinguish the priorities 0 to 9; RabbitMQ's classic queues distinguish
    none, and its quorum queues 0 to 31.
    `frame_max_is_whole`: frame-max limits the whole frame with head and end octet; in RabbitMQ it limits the payload.
    `opens_to_refuse`: a connection of AMQP 1.0 that may not enter the virtual host is opened, and closed with a reason;
    RabbitMQ disconnects, and its clients rely on that: they try to recover connections that were opened.
    `holds_responses`: a response of AMQP 1.0's /management waits for credit; in RabbitMQ, a request without credit for
    its response ends the session.
    `bars_undeliverable`: a message that a receiver of AMQP 1.0 modifies with undeliverable-here goes to other
    receivers; RabbitMQ dead-letters it.
    `passive_without_answer_is_void`: a passive declare with no-wait has no effect; in RabbitMQ it can be 404.
    `unacknowledged_protect`: unacknowledged messages keep a queue from being deleted with if-empty; RabbitMQ only
    counts ready messages.
    `stops_publishers_by_flow`: a publisher that does not understand connection.blocked is stopped by channel.flow;
    clients made for RabbitMQ do not expect that, and simply wait.
    `prefetch_spans_channel`: basic.qos limits a channel, and with `global` the connection; RabbitMQ's limits each
    consumer, and with `global` the channel.
    """

    def __init__(self, name: str, specified: bool) -> None:
        self.name = name
        self.missing_is_fault = specified
        self.failed_unbind_ends_connection = specified
        self.foreign_tag_is_fault = specified
        self.checks_names = specified
        self.checks_field_names = specified
        self.binds_default_exchange = specified
        self.compares_what_is_specified = specified
        self.unknown_type_ends_connection = specified
        self.withholds_rejected = specified
        self.dead_letters_deleted = specified
        self.ranks_all = specified
        self.frame_max_is_whole = specified
        self.passive_without_answer_is_void = specified
        self.unacknowledged_protect = specified
        self.stops_publishers_by_flow = specified
        self.prefetch_spans_channel = specified
        self.checks_frames = specified
        self.checks_annotations = specified
        self.refuses_what_it_loses = specified
        self.bars_undeliverable = specified
        self.opens_to_refuse = specified
        self.holds_responses = specified

    def check_name(self, what: str, name: str) -> None:
        """Raises PreconditionFailed if an exchange or queue must not have this name."""
        bounds.check_name(f"{what} name", name)
        if self.checks_names and (len(name) > _NAME_MAX or not _NAME.fullmatch(name)):
            raise PreconditionFailed(
                f"{what} name '{name}' must consist of at most {_NAME_MAX} letters, digits, hyphens, underscores, "
                "periods and colons"
            )

    def check_field_names(self, table: Table) -> None:
        """Raises SyntaxFault if a table, or one nested in it, has a forbidden field name."""
        if not self.checks_field_names:
            return
        for name, value in table.items():
            if len(name) > _FIELD_NAME_MAX or not _FIELD_NAME.fullmatch(name):
                raise SyntaxFault(
                    f"field name '{name}' must be a letter, $ or #, followed by letters, digits, $, # and "
                    f"underscores, at most {_FIELD_NAME_MAX} characters"
                )
            if isinstance(value, dict):
                self.check_field_names(value)


RABBITMQ: Final = Dialect("rabbitmq", False)
STRICT: Final = Dialect("strict", True)
DIALECTS: Final = {dialect.name: dialect for dialect in (RABBITMQ, STRICT)}


def dialect_named(name: str) -> Dialect:
    """Return the dialect of this name. Raises ConfigurationError if there is none."""
    found = DIALECTS.get(name)
    if found is None:
        raise ConfigurationError(f"dialect '{name}' is unknown; known dialects: {', '.join(sorted(DIALECTS))}")
    return found
