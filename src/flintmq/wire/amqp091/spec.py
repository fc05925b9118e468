"""The methods of AMQP 0-9-1 by number: class id << 16 | method id, the first four bytes of a method frame's payload.

The table has the specification's methods (amqp-0-9-1 §1.4 to §1.9), RabbitMQ's additions (exchange.bind, basic.nack,
confirm, connection.blocked, connection.update-secret and their answers), class 30 of earlier versions, and FlintMQ's
classes 240, "stream", 241, "lease", and 242, "stage".
"""

from typing import Final

# The class id in the content header of every message.
BASIC_CLASS: Final = 60

CONNECTION_START: Final = 0x000A_000A
CONNECTION_START_OK: Final = 0x000A_000B
CONNECTION_SECURE: Final = 0x000A_0014
CONNECTION_SECURE_OK: Final = 0x000A_0015
CONNECTION_TUNE: Final = 0x000A_001E
CONNECTION_TUNE_OK: Final = 0x000A_001F
CONNECTION_OPEN: Final = 0x000A_0028
CONNECTION_OPEN_OK: Final = 0x000A_0029
CONNECTION_CLOSE: Final = 0x000A_0032
CONNECTION_CLOSE_OK: Final = 0x000A_0033
CONNECTION_BLOCKED: Final = 0x000A_003C
CONNECTION_UNBLOCKED: Final = 0x000A_003D
CONNECTION_UPDATE_SECRET: Final = 0x000A_0046
CONNECTION_UPDATE_SECRET_OK: Final = 0x000A_0047

CHANNEL_OPEN: Final = 0x0014_000A
CHANNEL_OPEN_OK: Final = 0x0014_000B
CHANNEL_FLOW: Final = 0x0014_0014
CHANNEL_FLOW_OK: Final = 0x0014_0015
CHANNEL_CLOSE: Final = 0x0014_0028
CHANNEL_CLOSE_OK: Final = 0x0014_0029

ACCESS_REQUEST: Final = 0x001E_000A
ACCESS_REQUEST_OK: Final = 0x001E_000B

EXCHANGE_DECLARE: Final = 0x0028_000A
EXCHANGE_DECLARE_OK: Final = 0x0028_000B
EXCHANGE_DELETE: Final = 0x0028_0014
EXCHANGE_DELETE_OK: Final = 0x0028_0015
EXCHANGE_BIND: Final = 0x0028_001E
EXCHANGE_BIND_OK: Final = 0x0028_001F
EXCHANGE_UNBIND: Final = 0x0028_0028
EXCHANGE_UNBIND_OK: Final = 0x0028_0033

QUEUE_DECLARE: Final = 0x0032_000A
QUEUE_DECLARE_OK: Final = 0x0032_000B
QUEUE_BIND: Final = 0x0032_0014
QUEUE_BIND_OK: Final = 0x0032_0015
QUEUE_PURGE: Final = 0x0032_001E
QUEUE_PURGE_OK: Final = 0x0032_001F
QUEUE_DELETE: Final = 0x0032_0028
QUEUE_DELETE_OK: Final = 0x0032_0029
QUEUE_UNBIND: Final = 0x0032_0032
QUEUE_UNBIND_OK: Final = 0x0032_0033

BASIC_QOS: Final = 0x003C_000A
BASIC_QOS_OK: Final = 0x003C_000B
BASIC_CONSUME: Final = 0x003C_0014
BASIC_CONSUME_OK: Final = 0x003C_0015
BASIC_CANCEL: Final = 0x003C_001E
BASIC_CANCEL_OK: Final = 0x003C_001F
BASIC_PUBLISH: Final = 0x003C_0028
BASIC_RETURN: Final = 0x003C_0032
BASIC_DELIVER: Final = 0x003C_003C
BASIC_GET: Final = 0x003C_0046
BASIC_GET_OK: Final = 0x003C_0047
BASIC_GET_EMPTY: Final = 0x003C_0048
BASIC_ACK: Final = 0x003C_0050
BASIC_REJECT: Final = 0x003C_005A
BASIC_RECOVER_ASYNC: Final = 0x003C_0064
BASIC_RECOVER: Final = 0x003C_006E
BASIC_RECOVER_OK: Final = 0x003C_006F
BASIC_NACK: Final = 0x003C_0078

CONFIRM_SELECT: Final = 0x0055_000A
CONFIRM_SELECT_OK: Final = 0x0055_000B

TX_SELECT: Final = 0x005A_000A
TX_SELECT_OK: Final = 0x005A_000B
TX_COMMIT: Final = 0x005A_0014
TX_COMMIT_OK: Final = 0x005A_0015
TX_ROLLBACK: Final = 0x005A_001E
TX_ROLLBACK_OK: Final = 0x005A_001F

STREAM_QUERY: Final = 0x00F0_000A
STREAM_QUERY_OK: Final = 0x00F0_000B
STREAM_FETCH: Final = 0x00F0_0014
STREAM_FETCH_OK: Final = 0x00F0_0015
STREAM_SPAN: Final = 0x00F0_001E
STREAM_SPAN_OK: Final = 0x00F0_001F

LEASE_OPEN: Final = 0x00F1_000A
LEASE_OPEN_OK: Final = 0x00F1_000B
LEASE_EXTEND: Final = 0x00F1_0014
LEASE_EXTEND_OK: Final = 0x00F1_0015
LEASE_FETCH: Final = 0x00F1_001E
LEASE_FETCH_OK: Final = 0x00F1_001F
LEASE_SETTLE: Final = 0x00F1_0028
LEASE_SETTLE_OK: Final = 0x00F1_0029
LEASE_RELEASE: Final = 0x00F1_0032
LEASE_RELEASE_OK: Final = 0x00F1_0033
LEASE_QUERY: Final = 0x00F1_003C
LEASE_QUERY_OK: Final = 0x00F1_003D

STAGE_OPEN: Final = 0x00F2_000A
STAGE_OPEN_OK: Final = 0x00F2_000B
STAGE_SELECT: Final = 0x00F2_0014
STAGE_SELECT_OK: Final = 0x00F2_0015
STAGE_READY: Final = 0x00F2_001E
STAGE_READY_OK: Final = 0x00F2_001F
STAGE_COMMIT: Final = 0x00F2_0028
STAGE_COMMIT_OK: Final = 0x00F2_0029
STAGE_ABORT: Final = 0x00F2_0032
STAGE_ABORT_OK: Final = 0x00F2_0033
STAGE_FORGET: Final = 0x00F2_003C
STAGE_FORGET_OK: Final = 0x00F2_003D

# Methods that are followed by a content header and body frames (amqp-0-9-1 §4.2.6).
CONTENT_METHODS: Final = frozenset(
    {BASIC_PUBLISH, BASIC_RETURN, BASIC_DELIVER, BASIC_GET_OK, STREAM_FETCH_OK, LEASE_FETCH_OK}
)

# Number, name, arguments as "name:kind ..." in the order of encoding. RabbitMQ uses the reserved bits of
# exchange.declare as auto-delete and internal.
METHOD_TABLE: Final[tuple[tuple[int, str, str], ...]] = (
    (
        CONNECTION_START,
        "connection.start",
        "version_major:octet version_minor:octet server_properties:table mechanisms:longstr locales:longstr",
    ),
    (
        CONNECTION_START_OK,
        "connection.start-ok",
        "client_properties:table mechanism:shortstr response:longstr locale:shortstr",
    ),
    (CONNECTION_SECURE, "connection.secure", "challenge:longstr"),
    (CONNECTION_SECURE_OK, "connection.secure-ok", "response:longstr"),
    (CONNECTION_TUNE, "connection.tune", "channel_max:short frame_max:long heartbeat:short"),
    (CONNECTION_TUNE_OK, "connection.tune-ok", "channel_max:short frame_max:long heartbeat:short"),
    (CONNECTION_OPEN, "connection.open", "virtual_host:shortstr reserved:shortstr reserved:bit"),
    (CONNECTION_OPEN_OK, "connection.open-ok", "reserved:shortstr"),
    (CONNECTION_CLOSE, "connection.close", "reply_code:short reply_text:shortstr class_id:short method_id:short"),
    (CONNECTION_CLOSE_OK, "connection.close-ok", ""),
    (CONNECTION_BLOCKED, "connection.blocked", "reason:shortstr"),
    (CONNECTION_UNBLOCKED, "connection.unblocked", ""),
    (CONNECTION_UPDATE_SECRET, "connection.update-secret", "new_secret:longstr reason:shortstr"),
    (CONNECTION_UPDATE_SECRET_OK, "connection.update-secret-ok", ""),
    (CHANNEL_OPEN, "channel.open", "reserved:shortstr"),
    (CHANNEL_OPEN_OK, "channel.open-ok", "reserved:longstr"),
    (CHANNEL_FLOW, "channel.flow", "active:bit"),
    (CHANNEL_FLOW_OK, "channel.flow-ok", "active:bit"),
    (CHANNEL_CLOSE, "channel.close", "reply_code:short reply_text:shortstr class_id:short method_id:short"),
    (CHANNEL_CLOSE_OK, "channel.close-ok", ""),
    # amqp-0-9 §2: removed since, and still requested by old clients.
    (
        ACCESS_REQUEST,
        "access.request",
        "realm:shortstr exclusive:bit passive:bit active:bit write:bit read:bit",
    ),
    (ACCESS_REQUEST_OK, "access.request-ok", "ticket:short"),
    (
        EXCHANGE_DECLARE,
        "exchange.declare",
        (
            "reserved:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit "
            "no_wait:bit arguments:table"
        ),
    ),
    (EXCHANGE_DECLARE_OK, "exchange.declare-ok", ""),
    (EXCHANGE_DELETE, "exchange.delete", "reserved:short exchange:shortstr if_unused:bit no_wait:bit"),
    (EXCHANGE_DELETE_OK, "exchange.delete-ok", ""),
    (
        EXCHANGE_BIND,
        "exchange.bind",
        "reserved:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table",
    ),
    (EXCHANGE_BIND_OK, "exchange.bind-ok", ""),
    (
        EXCHANGE_UNBIND,
        "exchange.unbind",
        "reserved:short destination:shortstr source:shortstr routing_key:shortstr no_wait:bit arguments:table",
    ),
    (EXCHANGE_UNBIND_OK, "exchange.unbind-ok", ""),
    (
        QUEUE_DECLARE,
        "queue.declare",
        (
            "reserved:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit no_wait:bit "
            "arguments:table"
        ),
    ),
    (QUEUE_DECLARE_OK, "queue.declare-ok", "queue:shortstr message_count:long consumer_count:long"),
    (
        QUEUE_BIND,
        "queue.bind",
        "reserved:short queue:shortstr exchange:shortstr routing_key:shortstr no_wait:bit arguments:table",
    ),
    (QUEUE_BIND_OK, "queue.bind-ok", ""),
    (QUEUE_PURGE, "queue.purge", "reserved:short queue:shortstr no_wait:bit"),
    (QUEUE_PURGE_OK, "queue.purge-ok", "message_count:long"),
    (QUEUE_DELETE, "queue.delete", "reserved:short queue:shortstr if_unused:bit if_empty:bit no_wait:bit"),
    (QUEUE_DELETE_OK, "queue.delete-ok", "message_count:long"),
    (
        QUEUE_UNBIND,
        "queue.unbind",
        "reserved:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table",
    ),
    (QUEUE_UNBIND_OK, "queue.unbind-ok", ""),
    (BASIC_QOS, "basic.qos", "prefetch_size:long prefetch_count:short global_:bit"),
    (BASIC_QOS_OK, "basic.qos-ok", ""),
    (
        BASIC_CONSUME,
        "basic.consume",
        (
            "reserved:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit no_wait:bit "
            "arguments:table"
        ),
    ),
    (BASIC_CONSUME_OK, "basic.consume-ok", "consumer_tag:shortstr"),
    (BASIC_CANCEL, "basic.cancel", "consumer_tag:shortstr no_wait:bit"),
    (BASIC_CANCEL_OK, "basic.cancel-ok", "consumer_tag:shortstr"),
    (
        BASIC_PUBLISH,
        "basic.publish",
        "reserved:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit",
    ),
    (BASIC_RETURN, "basic.return", "reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr"),
    (
        BASIC_DELIVER,
        "basic.deliver",
        "consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr",
    ),
    (BASIC_GET, "basic.get", "reserved:short queue:shortstr no_ack:bit"),
    (
        BASIC_GET_OK,
        "basic.get-ok",
        "delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long",
    ),
    (BASIC_GET_EMPTY, "basic.get-empty", "reserved:shortstr"),
    (BASIC_ACK, "basic.ack", "delivery_tag:longlong multiple:bit"),
    (BASIC_REJECT, "basic.reject", "delivery_tag:longlong requeue:bit"),
    (BASIC_RECOVER_ASYNC, "basic.recover-async", "requeue:bit"),
    (BASIC_RECOVER, "basic.recover", "requeue:bit"),
    (BASIC_RECOVER_OK, "basic.recover-ok", ""),
    (BASIC_NACK, "basic.nack", "delivery_tag:longlong multiple:bit requeue:bit"),
    (CONFIRM_SELECT, "confirm.select", "no_wait:bit"),
    (CONFIRM_SELECT_OK, "confirm.select-ok", ""),
    (TX_SELECT, "tx.select", ""),
    (TX_SELECT_OK, "tx.select-ok", ""),
    (TX_COMMIT, "tx.commit", ""),
    (TX_COMMIT_OK, "tx.commit-ok", ""),
    (TX_ROLLBACK, "tx.rollback", ""),
    (TX_ROLLBACK_OK, "tx.rollback-ok", ""),
    (STREAM_QUERY, "stream.query", "queue:shortstr timestamp:longlong"),
    (
        STREAM_QUERY_OK,
        "stream.query-ok",
        "first_offset:longlong next_offset:longlong offset_at:longlong stream:longlong",
    ),
    (STREAM_FETCH, "stream.fetch", "queue:shortstr offset:longlong end_offset:longlong max_bytes:long"),
    (STREAM_FETCH_OK, "stream.fetch-ok", "first_offset:longlong next_offset:longlong record_count:long"),
    (STREAM_SPAN, "stream.span", "queue:shortstr offset:longlong end_offset:longlong max_bytes:longlong"),
    (STREAM_SPAN_OK, "stream.span-ok", "end_offset:longlong"),
    (LEASE_OPEN, "lease.open", "queue:shortstr consumer:shortstr epoch:longlong timeout:longlong"),
    (LEASE_OPEN_OK, "lease.open-ok", "epoch:longlong first:longlong next:longlong"),
    (
        LEASE_EXTEND,
        "lease.extend",
        "queue:shortstr consumer:shortstr epoch:longlong max_messages:longlong max_bytes:longlong",
    ),
    (LEASE_EXTEND_OK, "lease.extend-ok", "first:longlong next:longlong ready:longlong size:longlong"),
    (LEASE_FETCH, "lease.fetch", "queue:shortstr consumer:shortstr offset:longlong end_offset:longlong max_bytes:long"),
    (LEASE_FETCH_OK, "lease.fetch-ok", "first_offset:longlong next_offset:longlong record_count:long"),
    (LEASE_SETTLE, "lease.settle", "queue:shortstr consumer:shortstr epoch:longlong up_to:longlong"),
    (LEASE_SETTLE_OK, "lease.settle-ok", ""),
    (LEASE_RELEASE, "lease.release", "queue:shortstr consumer:shortstr epoch:longlong"),
    (LEASE_RELEASE_OK, "lease.release-ok", "message_count:longlong"),
    (LEASE_QUERY, "lease.query", "queue:shortstr consumer:shortstr"),
    (LEASE_QUERY_OK, "lease.query-ok", "epoch:longlong first:longlong next:longlong ready:longlong fetched:longlong"),
    (STAGE_OPEN, "stage.open", "transactional_id:shortstr owner:shortstr"),
    (STAGE_OPEN_OK, "stage.open-ok", "epoch:longlong next_batch:longlong"),
    (
        STAGE_SELECT,
        "stage.select",
        "transactional_id:shortstr epoch:longlong batch:longlong partition:longlong attempt:longlong",
    ),
    (STAGE_SELECT_OK, "stage.select-ok", "already:bit"),
    (STAGE_READY, "stage.ready", ""),
    (STAGE_READY_OK, "stage.ready-ok", "message_count:longlong"),
    (STAGE_COMMIT, "stage.commit", "transactional_id:shortstr epoch:longlong batch:longlong attempts:longstr more:bit"),
    (STAGE_COMMIT_OK, "stage.commit-ok", "message_count:longlong already:bit"),
    (STAGE_ABORT, "stage.abort", "transactional_id:shortstr epoch:longlong batch:longlong"),
    (STAGE_ABORT_OK, "stage.abort-ok", ""),
    (STAGE_FORGET, "stage.forget", "transactional_id:shortstr"),
    (STAGE_FORGET_OK, "stage.forget-ok", ""),
)
