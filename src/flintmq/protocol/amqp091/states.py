"""The legal moves of an AMQP 0-9-1 connection and its channels, as data.

`CONNECTION[role][state][method]` is the state after *receiving* that method; a method without an entry is a protocol
error. Sending needs no table: the state of an engine determines what it sends.
"""

from enum import Enum
from typing import Final

from flintmq.protocol.role import Role
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.spec import CLIENT, METHOD_TABLE, SERVER


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
    State.START_OK: {methods.CONNECTION_START_OK: State.LOGIN, methods.CONNECTION_CLOSE: State.CLOSED},
    State.LOGIN: {methods.CONNECTION_CLOSE: State.CLOSED},
    State.SECURE_OK: {methods.CONNECTION_SECURE_OK: State.LOGIN, methods.CONNECTION_CLOSE: State.CLOSED},
    State.TUNE_OK: {methods.CONNECTION_TUNE_OK: State.AWAIT_OPEN, methods.CONNECTION_CLOSE: State.CLOSED},
    State.AWAIT_OPEN: {methods.CONNECTION_OPEN: State.OPENING, methods.CONNECTION_CLOSE: State.CLOSED},
    State.OPENING: {methods.CONNECTION_CLOSE: State.CLOSED},
    State.OPEN: {methods.CONNECTION_CLOSE: State.CLOSED, methods.CONNECTION_UPDATE_SECRET: State.OPEN},
    State.CLOSING: {methods.CONNECTION_CLOSE: State.CLOSED, methods.CONNECTION_CLOSE_OK: State.CLOSED},
}
_CLIENT: Final[Moves] = {
    State.START: {methods.CONNECTION_START: State.TUNE, methods.CONNECTION_CLOSE: State.CLOSED},
    State.TUNE: {
        methods.CONNECTION_SECURE: State.TUNE,
        methods.CONNECTION_TUNE: State.OPEN_OK,
        methods.CONNECTION_CLOSE: State.CLOSED,
    },
    State.OPEN_OK: {methods.CONNECTION_OPEN_OK: State.OPEN, methods.CONNECTION_CLOSE: State.CLOSED},
    State.OPEN: {
        methods.CONNECTION_CLOSE: State.CLOSED,
        methods.CONNECTION_BLOCKED: State.OPEN,
        methods.CONNECTION_UNBLOCKED: State.OPEN,
        methods.CONNECTION_UPDATE_SECRET_OK: State.OPEN,
    },
    State.CLOSING: {methods.CONNECTION_CLOSE: State.CLOSED, methods.CONNECTION_CLOSE_OK: State.CLOSED},
}
_CHANNEL_LIFE: Final = (
    methods.CHANNEL_OPEN,
    methods.CHANNEL_OPEN_OK,
    methods.CHANNEL_CLOSE,
    methods.CHANNEL_CLOSE_OK,
)
CONNECTION: Final[dict[Role, Moves]] = {Role.SERVER: _SERVER, Role.CLIENT: _CLIENT}

# The methods that each role may receive on an open channel. Any other known method is 503 command-invalid.
RECEIVED: Final[dict[Role, frozenset[int]]] = {
    role: frozenset(
        row.number
        for row in METHOD_TABLE
        if row.receivers & receiver and not row.name.startswith("connection.") and row.number not in _CHANNEL_LIFE
    )
    for role, receiver in ((Role.SERVER, SERVER), (Role.CLIENT, CLIENT))
}
# Methods that are followed by a content header and body frames (amqp-0-9-1 §4.2.6).
CONTENT_METHODS: Final = frozenset(row.number for row in METHOD_TABLE if row.has_content)
