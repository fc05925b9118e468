"""The methods of AMQP 0-9-1 as a table: what a method is called, who receives it, and its arguments.

The table has the specification's methods (amqp-0-9-1 §1.4 to §1.9), RabbitMQ's additions (exchange.bind, basic.nack,
confirm, connection.blocked, connection.update-secret and their answers), class 30 of earlier versions, and FlintMQ's
classes 240, "stream", 241, "lease", and 242, "stage".

A method is declared here and nowhere else. `make methods` generates its number and its class in methods.py from its
row; method_codec.py encodes and decodes it by its row, and the protocol engine knows from it who may receive it. Beyond
that, it needs a handler in gateway/amqp091 and a call in client/aio.py. The three methods of every message,
basic.publish, basic.deliver and basic.ack, have hand-written encoders and parsers, too.
"""

from dataclasses import dataclass
from typing import Final

# The class id in the content header of every message.
BASIC_CLASS: Final = 60

# The peers that may receive a method.
SERVER: Final = 1
CLIENT: Final = 2
BOTH: Final = SERVER | CLIENT

# The types of arguments (amqp-0-9-1 §4.2.5).
KINDS: Final = ("bit", "octet", "short", "long", "longlong", "shortstr", "longstr", "table")
# The name of arguments that are skipped when read, and written as zeros.
RESERVED: Final = "reserved"


@dataclass(frozen=True)
class Argument:
    """An argument of a method. `kind` is one of KINDS; `default` is empty for zero, false or nothing."""

    name: str
    kind: str
    default: str = ""


@dataclass(frozen=True)
class MethodRow:
    """A method. `number` is class id << 16 | method id, the first four bytes of a method frame's payload.

    `text` has the arguments in the order of encoding, as "name:kind" or "name:kind=default". With `has_content`, a
    content header and body frames follow (amqp-0-9-1 §4.2.6).
    """

    number: int
    name: str
    receivers: int
    text: str
    has_content: bool = False

    @property
    def arguments(self) -> list[Argument]:
        found: list[Argument] = []
        for each in self.text.split():
            name, _, rest = each.partition(":")
            kind, _, default = rest.partition("=")
            found.append(Argument(name, kind, default))
        return found


METHOD_TABLE: Final[tuple[MethodRow, ...]] = (
    MethodRow(
        0x000A_000A,
        "connection.start",
        CLIENT,
        ("version_major:octet version_minor:octet=9 server_properties:table mechanisms:longstr locales:longstr=en_US"),
    ),
    MethodRow(
        0x000A_000B,
        "connection.start-ok",
        SERVER,
        "client_properties:table mechanism:shortstr=PLAIN response:longstr locale:shortstr=en_US",
    ),
    MethodRow(0x000A_0014, "connection.secure", CLIENT, "challenge:longstr"),
    MethodRow(0x000A_0015, "connection.secure-ok", SERVER, "response:longstr"),
    MethodRow(0x000A_001E, "connection.tune", CLIENT, "channel_max:short frame_max:long heartbeat:short"),
    MethodRow(0x000A_001F, "connection.tune-ok", SERVER, "channel_max:short frame_max:long heartbeat:short"),
    MethodRow(0x000A_0028, "connection.open", SERVER, "virtual_host:shortstr=/ reserved:shortstr reserved:bit"),
    MethodRow(0x000A_0029, "connection.open-ok", CLIENT, "reserved:shortstr"),
    MethodRow(
        0x000A_0032, "connection.close", BOTH, "reply_code:short reply_text:shortstr class_id:short method_id:short"
    ),
    MethodRow(0x000A_0033, "connection.close-ok", BOTH, ""),
    MethodRow(0x000A_003C, "connection.blocked", CLIENT, "reason:shortstr"),
    MethodRow(0x000A_003D, "connection.unblocked", CLIENT, ""),
    MethodRow(0x000A_0046, "connection.update-secret", SERVER, "new_secret:longstr reason:shortstr"),
    MethodRow(0x000A_0047, "connection.update-secret-ok", CLIENT, ""),
    MethodRow(0x0014_000A, "channel.open", SERVER, "reserved:shortstr"),
    MethodRow(0x0014_000B, "channel.open-ok", CLIENT, "reserved:longstr"),
    MethodRow(0x0014_0014, "channel.flow", BOTH, "active:bit"),
    MethodRow(0x0014_0015, "channel.flow-ok", BOTH, "active:bit"),
    MethodRow(
        0x0014_0028, "channel.close", BOTH, "reply_code:short reply_text:shortstr class_id:short method_id:short"
    ),
    MethodRow(0x0014_0029, "channel.close-ok", BOTH, ""),
    # amqp-0-9 §2: removed since, and still requested by old clients.
    MethodRow(
        0x001E_000A,
        "access.request",
        SERVER,
        "realm:shortstr=/data exclusive:bit passive:bit=1 active:bit=1 write:bit=1 read:bit=1",
    ),
    MethodRow(0x001E_000B, "access.request-ok", CLIENT, "ticket:short=1"),
    # RabbitMQ uses the reserved bits of exchange.declare as auto-delete and internal.
    MethodRow(
        0x0028_000A,
        "exchange.declare",
        SERVER,
        (
            "reserved:short exchange:shortstr type:shortstr=direct passive:bit durable:bit auto_delete:bit "
            "internal:bit no_wait:bit arguments:table"
        ),
    ),
    MethodRow(0x0028_000B, "exchange.declare-ok", CLIENT, ""),
    MethodRow(0x0028_0014, "exchange.delete", SERVER, "reserved:short exchange:shortstr if_unused:bit no_wait:bit"),
    MethodRow(0x0028_0015, "exchange.delete-ok", CLIENT, ""),
    MethodRow(
        0x0028_001E,
        "exchange.bind",
        SERVER,
        "reserved:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table",
    ),
    MethodRow(0x0028_001F, "exchange.bind-ok", CLIENT, ""),
    MethodRow(
        0x0028_0028,
        "exchange.unbind",
        SERVER,
        "reserved:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table",
    ),
    MethodRow(0x0028_0033, "exchange.unbind-ok", CLIENT, ""),
    MethodRow(
        0x0032_000A,
        "queue.declare",
        SERVER,
        (
            "reserved:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit no_wait:bit "
            "arguments:table"
        ),
    ),
    MethodRow(0x0032_000B, "queue.declare-ok", CLIENT, "queue:shortstr message_count:long consumer_count:long"),
    MethodRow(
        0x0032_0014,
        "queue.bind",
        SERVER,
        "reserved:short queue:shortstr exchange:shortstr routing_key:shortstr no_wait:bit arguments:table",
    ),
    MethodRow(0x0032_0015, "queue.bind-ok", CLIENT, ""),
    MethodRow(0x0032_001E, "queue.purge", SERVER, "reserved:short queue:shortstr no_wait:bit"),
    MethodRow(0x0032_001F, "queue.purge-ok", CLIENT, "message_count:long"),
    MethodRow(
        0x0032_0028, "queue.delete", SERVER, "reserved:short queue:shortstr if_unused:bit if_empty:bit no_wait:bit"
    ),
    MethodRow(0x0032_0029, "queue.delete-ok", CLIENT, "message_count:long"),
    MethodRow(
        0x0032_0032,
        "queue.unbind",
        SERVER,
        "reserved:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table",
    ),
    MethodRow(0x0032_0033, "queue.unbind-ok", CLIENT, ""),
    MethodRow(0x003C_000A, "basic.qos", SERVER, "prefetch_size:long prefetch_count:short global_:bit"),
    MethodRow(0x003C_000B, "basic.qos-ok", CLIENT, ""),
    MethodRow(
        0x003C_0014,
        "basic.consume",
        SERVER,
        (
            "reserved:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit no_wait:bit "
            "arguments:table"
        ),
    ),
    MethodRow(0x003C_0015, "basic.consume-ok", CLIENT, "consumer_tag:shortstr"),
    MethodRow(0x003C_001E, "basic.cancel", BOTH, "consumer_tag:shortstr no_wait:bit"),
    MethodRow(0x003C_001F, "basic.cancel-ok", BOTH, "consumer_tag:shortstr"),
    MethodRow(
        0x003C_0028,
        "basic.publish",
        SERVER,
        "reserved:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit",
        has_content=True,
    ),
    MethodRow(
        0x003C_0032,
        "basic.return",
        CLIENT,
        "reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr",
        has_content=True,
    ),
    MethodRow(
        0x003C_003C,
        "basic.deliver",
        CLIENT,
        "consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr",
        has_content=True,
    ),
    MethodRow(0x003C_0046, "basic.get", SERVER, "reserved:short queue:shortstr no_ack:bit"),
    MethodRow(
        0x003C_0047,
        "basic.get-ok",
        CLIENT,
        "delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long",
        has_content=True,
    ),
    MethodRow(0x003C_0048, "basic.get-empty", CLIENT, "reserved:shortstr"),
    MethodRow(0x003C_0050, "basic.ack", BOTH, "delivery_tag:longlong multiple:bit"),
    MethodRow(0x003C_005A, "basic.reject", SERVER, "delivery_tag:longlong requeue:bit=1"),
    MethodRow(0x003C_0064, "basic.recover-async", SERVER, "requeue:bit"),
    MethodRow(0x003C_006E, "basic.recover", SERVER, "requeue:bit"),
    MethodRow(0x003C_006F, "basic.recover-ok", CLIENT, ""),
    MethodRow(0x003C_0078, "basic.nack", BOTH, "delivery_tag:longlong multiple:bit requeue:bit=1"),
    MethodRow(0x0055_000A, "confirm.select", SERVER, "no_wait:bit"),
    MethodRow(0x0055_000B, "confirm.select-ok", CLIENT, ""),
    MethodRow(0x005A_000A, "tx.select", SERVER, ""),
    MethodRow(0x005A_000B, "tx.select-ok", CLIENT, ""),
    MethodRow(0x005A_0014, "tx.commit", SERVER, ""),
    MethodRow(0x005A_0015, "tx.commit-ok", CLIENT, ""),
    MethodRow(0x005A_001E, "tx.rollback", SERVER, ""),
    MethodRow(0x005A_001F, "tx.rollback-ok", CLIENT, ""),
    MethodRow(0x00F0_000A, "stream.query", SERVER, "queue:shortstr timestamp:longlong"),
    MethodRow(
        0x00F0_000B,
        "stream.query-ok",
        CLIENT,
        "first_offset:longlong next_offset:longlong offset_at:longlong stream:longlong",
    ),
    MethodRow(0x00F0_0014, "stream.fetch", SERVER, "queue:shortstr offset:longlong end_offset:longlong max_bytes:long"),
    MethodRow(
        0x00F0_0015,
        "stream.fetch-ok",
        CLIENT,
        "first_offset:longlong next_offset:longlong record_count:long",
        has_content=True,
    ),
    MethodRow(
        0x00F0_001E, "stream.span", SERVER, "queue:shortstr offset:longlong end_offset:longlong max_bytes:longlong"
    ),
    MethodRow(0x00F0_001F, "stream.span-ok", CLIENT, "end_offset:longlong"),
    MethodRow(0x00F1_000A, "lease.open", SERVER, "queue:shortstr consumer:shortstr epoch:longlong timeout:longlong"),
    MethodRow(0x00F1_000B, "lease.open-ok", CLIENT, "epoch:longlong first:longlong next:longlong"),
    MethodRow(
        0x00F1_0014,
        "lease.extend",
        SERVER,
        "queue:shortstr consumer:shortstr epoch:longlong max_messages:longlong max_bytes:longlong",
    ),
    # `size` is the number of body bytes of the messages that this call leased.
    MethodRow(0x00F1_0015, "lease.extend-ok", CLIENT, "first:longlong next:longlong ready:longlong size:longlong"),
    MethodRow(
        0x00F1_001E,
        "lease.fetch",
        SERVER,
        "queue:shortstr consumer:shortstr offset:longlong end_offset:longlong max_bytes:long",
    ),
    MethodRow(
        0x00F1_001F,
        "lease.fetch-ok",
        CLIENT,
        "first_offset:longlong next_offset:longlong record_count:long",
        has_content=True,
    ),
    MethodRow(0x00F1_0028, "lease.settle", SERVER, "queue:shortstr consumer:shortstr epoch:longlong up_to:longlong"),
    MethodRow(0x00F1_0029, "lease.settle-ok", CLIENT, ""),
    MethodRow(0x00F1_0032, "lease.release", SERVER, "queue:shortstr consumer:shortstr epoch:longlong"),
    MethodRow(0x00F1_0033, "lease.release-ok", CLIENT, "message_count:longlong"),
    MethodRow(0x00F1_003C, "lease.query", SERVER, "queue:shortstr consumer:shortstr"),
    # `fetched` is the position behind the highest one that was fetched.
    MethodRow(
        0x00F1_003D,
        "lease.query-ok",
        CLIENT,
        "epoch:longlong first:longlong next:longlong ready:longlong fetched:longlong",
    ),
    MethodRow(0x00F2_000A, "stage.open", SERVER, "transactional_id:shortstr owner:shortstr"),
    MethodRow(0x00F2_000B, "stage.open-ok", CLIENT, "epoch:longlong next_batch:longlong"),
    MethodRow(
        0x00F2_0014,
        "stage.select",
        SERVER,
        "transactional_id:shortstr epoch:longlong batch:longlong partition:longlong attempt:longlong",
    ),
    MethodRow(0x00F2_0015, "stage.select-ok", CLIENT, "already:bit"),
    MethodRow(0x00F2_001E, "stage.ready", SERVER, ""),
    MethodRow(0x00F2_001F, "stage.ready-ok", CLIENT, "message_count:longlong"),
    # With `more`, further methods with attempts follow, and nothing is committed yet (see committed_attempts.py).
    MethodRow(
        0x00F2_0028,
        "stage.commit",
        SERVER,
        "transactional_id:shortstr epoch:longlong batch:longlong attempts:longstr more:bit",
    ),
    MethodRow(0x00F2_0029, "stage.commit-ok", CLIENT, "message_count:longlong already:bit"),
    MethodRow(0x00F2_0032, "stage.abort", SERVER, "transactional_id:shortstr epoch:longlong batch:longlong"),
    MethodRow(0x00F2_0033, "stage.abort-ok", CLIENT, ""),
    MethodRow(0x00F2_003C, "stage.forget", SERVER, "transactional_id:shortstr"),
    MethodRow(0x00F2_003D, "stage.forget-ok", CLIENT, ""),
)
