"""The legal moves of AMQP 1.0 connections, sessions and links, as data.

An endpoint has two small states, ours and the peer's. The peer's state says what may be *received*; a performative
without an entry is a protocol error. The layers of a connection come before its endpoints, in a fixed order.
"""

from enum import Enum
from typing import Final

from flintmq.protocol.role import Role
from flintmq.wire.amqp10 import spec


class Endpoint(Enum):
    """The state of one side of a connection (open, close), a session (begin, end) or a link (attach, detach)."""

    UNSENT = "not begun"
    ACTIVE = "active"
    CLOSED = "closed"


class Layer(Enum):
    """The layer of a connection: how its bytes are read at present (amqp-1.0 part 2 §2.2, part 5 §5.3)."""

    HEADER = "awaiting a protocol header"
    SASL = "authenticating"
    AMQP_HEADER = "awaiting the protocol header behind the security layer"
    FRAMES = "frames of AMQP"
    DONE = "over"


class Login(Enum):
    """The state of the exchange of SASL frames. In DECIDING it waits for a decision of the owner."""

    MECHANISMS = "awaiting sasl-mechanisms"
    INIT = "awaiting sasl-init"
    DECIDING = "deciding a login"
    RESPONSE = "awaiting sasl-response"
    OUTCOME = "awaiting sasl-challenge or sasl-outcome"
    DONE = "authenticated"


# The state after *receiving* a SASL frame.
SASL: Final[dict[Role, dict[Login, dict[int, Login]]]] = {
    Role.SERVER: {
        Login.INIT: {spec.SASL_INIT: Login.DECIDING},
        Login.RESPONSE: {spec.SASL_RESPONSE: Login.DECIDING},
    },
    Role.CLIENT: {
        Login.MECHANISMS: {spec.SASL_MECHANISMS: Login.DECIDING},
        Login.OUTCOME: {spec.SASL_CHALLENGE: Login.DECIDING, spec.SASL_OUTCOME: Login.DONE},
    },
}

_OF_SESSIONS: Final = frozenset(
    {spec.ATTACH, spec.FLOW, spec.TRANSFER, spec.DISPOSITION, spec.DETACH, spec.END},
)
_NOTHING: Final[frozenset[int]] = frozenset()

# The performatives that a connection may receive, by the state of the peer's side.
CONNECTION: Final[dict[Endpoint, frozenset[int]]] = {
    Endpoint.UNSENT: frozenset({spec.OPEN}),
    Endpoint.ACTIVE: _OF_SESSIONS | {spec.BEGIN, spec.CLOSE},
    Endpoint.CLOSED: _NOTHING,
}
# The performatives that a session may receive, by the state of the peer's side.
SESSION: Final[dict[Endpoint, frozenset[int]]] = {
    Endpoint.UNSENT: frozenset({spec.BEGIN}),
    Endpoint.ACTIVE: _OF_SESSIONS,
    Endpoint.CLOSED: _NOTHING,
}
