"""The legal moves of an AMQP 0-9-1 connection and its channels, as data.

`CONNECTION[role][state][method]` and `CHANNEL[role][state][method]` are the states after *receiving* that method. A
method without an entry is a protocol error, except on a channel that is being closed. Sending needs no table: the state
of an engine determines what it sends.
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
CONNECTION: Final[dict[Role, Moves]] = {Role.SERVER: _SERVER, Role.CLIENT: _CLIENT}

# The states of a channel number. They are integers, because each frame compares them. CLOSING: this side has sent
# channel.close.
UNUSED: Final = 0
OPENING: Final = 1
OPEN: Final = 2
CLOSING: Final = 3

ChannelMoves = dict[int, dict[int, int]]


def _while_open(receiver: int) -> dict[int, int]:
    """The moves of an open channel: channel.close ends it, and any other method of the peer leaves it open."""
    moves = {
        row.number: OPEN for row in METHOD_TABLE if row.receivers & receiver and not row.name.startswith("connection.")
    }
    for method in (methods.CHANNEL_OPEN, methods.CHANNEL_OPEN_OK, methods.CHANNEL_CLOSE_OK):
        moves.pop(method, None)
    return {**moves, methods.CHANNEL_CLOSE: UNUSED}


# In CLOSING, a method without an entry is no error: the peer sent it before it saw channel.close, and it is dropped.
_WHILE_CLOSING: Final = {methods.CHANNEL_CLOSE: CLOSING, methods.CHANNEL_CLOSE_OK: UNUSED}
CHANNEL: Final[dict[Role, ChannelMoves]] = {
    Role.SERVER: {
        UNUSED: {methods.CHANNEL_OPEN: OPEN},
        OPEN: _while_open(SERVER),
        CLOSING: _WHILE_CLOSING,
    },
    Role.CLIENT: {
        UNUSED: {},
        OPENING: {methods.CHANNEL_OPEN_OK: OPEN},
        OPEN: _while_open(CLIENT),
        CLOSING: _WHILE_CLOSING,
    },
}
# Methods that are followed by a content header and body frames (amqp-0-9-1 §4.2.6).
CONTENT_METHODS: Final = frozenset(row.number for row in METHOD_TABLE if row.has_content)
