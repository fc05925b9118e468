"""The legal moves of an AMQP 0-9-1 connection and its channels, as data.

`CONNECTION[role][state][method]` is the state after *receiving* that method; a method without an entry is a protocol
error. Sending needs no table: the state of an engine determines what it sends.
"""

from enum import Enum
from typing import Final

from flintmq.protocol.role import Role
from flintmq.wire.amqp091 import spec


class State(Enum):
    """The state of a connection. In LOGIN and OPENING it waits for a decision of its owner."""

    HEADER = "awaiting the protocol header"
    START = "awaiting connection.start"
    START_OK = "awaiting connection.start-ok"
    LOGIN = "deciding a login"
    SECURE_OK = "awaiting connection.secure-ok"
    TUNE = "awaiting connection.tune"
    TUNE_OK = "awaiting connection.tune-ok"
    AWAIT_OPEN = "awaiting connection.open"
    OPENING = "deciding connection.open"
    OPEN_OK = "awaiting connection.open-ok"
    OPEN = "open"
    CLOSING = "awaiting connection.close-ok"
    CLOSED = "closed"


Moves = dict[State, dict[int, State]]

_SERVER: Final[Moves] = {
    State.START_OK: {spec.CONNECTION_START_OK: State.LOGIN, spec.CONNECTION_CLOSE: State.CLOSED},
    State.LOGIN: {spec.CONNECTION_CLOSE: State.CLOSED},
    State.SECURE_OK: {spec.CONNECTION_SECURE_OK: State.LOGIN, spec.CONNECTION_CLOSE: State.CLOSED},
    State.TUNE_OK: {spec.CONNECTION_TUNE_OK: State.AWAIT_OPEN, spec.CONNECTION_CLOSE: State.CLOSED},
    State.AWAIT_OPEN: {spec.CONNECTION_OPEN: State.OPENING, spec.CONNECTION_CLOSE: State.CLOSED},
    State.OPENING: {spec.CONNECTION_CLOSE: State.CLOSED},
    State.OPEN: {spec.CONNECTION_CLOSE: State.CLOSED, spec.CONNECTION_UPDATE_SECRET: State.OPEN},
    State.CLOSING: {spec.CONNECTION_CLOSE: State.CLOSED, spec.CONNECTION_CLOSE_OK: State.CLOSED},
}
_CLIENT: Final[Moves] = {
    State.START: {spec.CONNECTION_START: State.TUNE, spec.CONNECTION_CLOSE: State.CLOSED},
    State.TUNE: {
        spec.CONNECTION_SECURE: State.TUNE,
        spec.CONNECTION_TUNE: State.OPEN_OK,
        spec.CONNECTION_CLOSE: State.CLOSED,
    },
    State.OPEN_OK: {spec.CONNECTION_OPEN_OK: State.OPEN, spec.CONNECTION_CLOSE: State.CLOSED},
    State.OPEN: {
        spec.CONNECTION_CLOSE: State.CLOSED,
        spec.CONNECTION_BLOCKED: State.OPEN,
        spec.CONNECTION_UNBLOCKED: State.OPEN,
        spec.CONNECTION_UPDATE_SECRET_OK: State.OPEN,
    },
    State.CLOSING: {spec.CONNECTION_CLOSE: State.CLOSED, spec.CONNECTION_CLOSE_OK: State.CLOSED},
}
CONNECTION: Final[dict[Role, Moves]] = {Role.SERVER: _SERVER, Role.CLIENT: _CLIENT}

# The methods that each role may receive on an open channel. Any other known method is 503 command-invalid.
RECEIVED: Final[dict[Role, frozenset[int]]] = {
    Role.SERVER: frozenset(
        {
            spec.CHANNEL_FLOW,
            spec.CHANNEL_FLOW_OK,
            spec.ACCESS_REQUEST,
            spec.EXCHANGE_DECLARE,
            spec.EXCHANGE_DELETE,
            spec.EXCHANGE_BIND,
            spec.EXCHANGE_UNBIND,
            spec.QUEUE_DECLARE,
            spec.QUEUE_BIND,
            spec.QUEUE_UNBIND,
            spec.QUEUE_PURGE,
            spec.QUEUE_DELETE,
            spec.BASIC_QOS,
            spec.BASIC_CONSUME,
            spec.BASIC_CANCEL,
            spec.BASIC_CANCEL_OK,
            spec.BASIC_PUBLISH,
            spec.BASIC_GET,
            spec.BASIC_ACK,
            spec.BASIC_REJECT,
            spec.BASIC_NACK,
            spec.BASIC_RECOVER,
            spec.BASIC_RECOVER_ASYNC,
            spec.CONFIRM_SELECT,
            spec.TX_SELECT,
            spec.TX_COMMIT,
            spec.TX_ROLLBACK,
            spec.STREAM_QUERY,
            spec.STREAM_SPAN,
            spec.STREAM_FETCH,
            spec.LEASE_OPEN,
            spec.LEASE_EXTEND,
            spec.LEASE_FETCH,
            spec.LEASE_SETTLE,
            spec.LEASE_RELEASE,
            spec.LEASE_QUERY,
            spec.STAGE_OPEN,
            spec.STAGE_SELECT,
            spec.STAGE_READY,
            spec.STAGE_COMMIT,
            spec.STAGE_ABORT,
            spec.STAGE_FORGET,
        }
    ),
    Role.CLIENT: frozenset(
        {
            spec.CHANNEL_FLOW,
            spec.CHANNEL_FLOW_OK,
            spec.ACCESS_REQUEST_OK,
            spec.EXCHANGE_DECLARE_OK,
            spec.EXCHANGE_DELETE_OK,
            spec.EXCHANGE_BIND_OK,
            spec.EXCHANGE_UNBIND_OK,
            spec.QUEUE_DECLARE_OK,
            spec.QUEUE_BIND_OK,
            spec.QUEUE_UNBIND_OK,
            spec.QUEUE_PURGE_OK,
            spec.QUEUE_DELETE_OK,
            spec.BASIC_QOS_OK,
            spec.BASIC_CONSUME_OK,
            spec.BASIC_CANCEL,
            spec.BASIC_CANCEL_OK,
            spec.BASIC_RETURN,
            spec.BASIC_DELIVER,
            spec.BASIC_GET_OK,
            spec.BASIC_GET_EMPTY,
            spec.BASIC_ACK,
            spec.BASIC_NACK,
            spec.BASIC_RECOVER_OK,
            spec.CONFIRM_SELECT_OK,
            spec.TX_SELECT_OK,
            spec.TX_COMMIT_OK,
            spec.TX_ROLLBACK_OK,
            spec.STREAM_QUERY_OK,
            spec.STREAM_SPAN_OK,
            spec.STREAM_FETCH_OK,
            spec.LEASE_OPEN_OK,
            spec.LEASE_EXTEND_OK,
            spec.LEASE_FETCH_OK,
            spec.LEASE_SETTLE_OK,
            spec.LEASE_RELEASE_OK,
            spec.LEASE_QUERY_OK,
            spec.STAGE_OPEN_OK,
            spec.STAGE_SELECT_OK,
            spec.STAGE_READY_OK,
            spec.STAGE_COMMIT_OK,
            spec.STAGE_ABORT_OK,
            spec.STAGE_FORGET_OK,
        }
    ),
}
