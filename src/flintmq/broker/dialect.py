"""Which of two meanings a virtual host gives to AMQP where the specifications and RabbitMQ differ (docs/dialects.md).

`RABBITMQ` is what clients of today expect; `STRICT` is the specifications to the letter. What RabbitMQ merely leaves
out is no difference: both dialects do it.
"""

import re
from typing import Final, final

from flintmq.base.errors import ConfigurationError, PreconditionFailed, SyntaxFault
from flintmq.broker import bounds
from flintmq.broker.message import Table

# The specification's domains exchange-name and queue-name.
_NAME_MAX: Final = 127
_NAME: Final = re.compile(r"[a-zA-Z0-9\-_.:]*")
# amqp-0-9-1 §4.2.5.5. Its own x-match has a hyphen that this would not allow: names that start as that does may.
_FIELD_NAME_MAX: Final = 128
_FIELD_NAME: Final = re.compile(r"[a-zA-Z$#][a-zA-Z0-9$#_]*|x-[a-zA-Z0-9$#_\-]*")


@final
class Dialect:
    """A named answer to each difference; every attribute but the name is true where the specification wins.

    `missing_is_fault`: deleting an exchange or a queue, or unbinding what is not bound, is 404 when it is not there.
    `failed_unbind_ends_connection`: queue.unbind that fails closes the connection instead of the channel.
    `foreign_tag_is_fault`: cancelling a consumer tag that this channel never had is 530.
    `checks_names`: names of exchanges and queues are made of letters, digits, hyphen, underscore, period, colon;
    RabbitMQ takes any, and strips line ends where they are declared, bound or deleted.
    `checks_field_names`: names in arguments and headers are made of letters, digits, underscore, $ and #.
    `binds_default_exchange`: queues can be bound to the default exchange by further keys.
    `compares_what_is_specified`: redeclared exchanges have to agree in type, durability and all arguments and in
    nothing else, and redeclared queues in all but auto-delete.
    `unknown_type_ends_connection`: declaring an exchange of a type nobody knows is 503; RabbitMQ's is 406.
    `withholds_rejected`: what a channel gave back by a reject does not come to it again; RabbitMQ's may.
    `dead_letters_deleted`: the messages of a queue that is deleted go to its dead-letter exchange.
    `checks_frames`: what AMQP 1.0 forbids and RabbitMQ lets pass ends the connection, the session or the link: an error
    without a condition, a frame on a channel without a session, a detach for a handle without a link.
    `checks_annotations`: a message of AMQP 1.0 with an annotation that nobody here understands, under a key that does
    not begin with x-opt-, costs its sender the link; RabbitMQ passes it on, as is done here where it begins with x-.
    `refuses_what_it_loses`: a durable message of AMQP 1.0 is rejected where no queue that it goes to keeps messages
    over a restart; RabbitMQ accepts it.
    `ranks_all`: queues without x-max-priority tell priorities 0 to 9 apart; RabbitMQ's classic queues tell none, and
    its quorum queues 0 to 31.
    `frame_max_is_whole`: a frame has frame-max bytes, its head and end octet included; in RabbitMQ's its payload may.
    `opens_to_refuse`: a connection of AMQP 1.0 that may not enter the virtual host is opened, and closed with a reason;
    RabbitMQ hangs up, and its clients, which take what was opened for something to recover, rely on that.
    `holds_responses`: an answer of AMQP 1.0's /management waits until there is credit for it; in RabbitMQ, a request
    without credit for its answer ends the session.
    `bars_undeliverable`: a message that a receiver of AMQP 1.0 modifies with undeliverable-here is for other receivers;
    RabbitMQ's is dead-lettered.
    `passive_without_answer_is_void`: a passive declare with no-wait has no effect; RabbitMQ's can be 404.
    `unacknowledged_protect`: if-empty keeps a queue that has messages in clients' hands; RabbitMQ counts what is ready.
    `stops_publishers_by_flow`: a publisher that connection.blocked says nothing to is asked to stop by channel.flow;
    clients made for RabbitMQ do not expect that: theirs just wait.
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
        """Raises PreconditionFailed for a name that an exchange or a queue must not have."""
        bounds.check_name(f"{what} name", name)
        if self.checks_names and (len(name) > _NAME_MAX or not _NAME.fullmatch(name)):
            raise PreconditionFailed(
                f"{what} name '{name}' is not made of letters, digits, hyphen, underscore, period and colon, "
                f"{_NAME_MAX} at most"
            )

    def check_field_names(self, table: Table) -> None:
        """Raises SyntaxFault when a table, or one within it, has a field of a name that it must not have."""
        if not self.checks_field_names:
            return
        for name, value in table.items():
            if len(name) > _FIELD_NAME_MAX or not _FIELD_NAME.fullmatch(name):
                raise SyntaxFault(
                    f"field name '{name}' does not start with a letter, $ or #, and go on with these, digits and "
                    f"underscores, {_FIELD_NAME_MAX} at most"
                )
            if isinstance(value, dict):
                self.check_field_names(value)


RABBITMQ: Final = Dialect("rabbitmq", False)
STRICT: Final = Dialect("strict", True)
DIALECTS: Final = {dialect.name: dialect for dialect in (RABBITMQ, STRICT)}


def dialect_named(name: str) -> Dialect:
    """Raises ConfigurationError for a name that is none of a dialect."""
    found = DIALECTS.get(name)
    if found is None:
        raise ConfigurationError(f"dialect '{name}' is unknown: there are {' and '.join(sorted(DIALECTS))}")
    return found
