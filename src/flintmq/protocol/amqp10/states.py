"""The legal moves of AMQP 1.0 connections, sessions and links, as data.

An endpoint is where each side took it: two small states, ours and the peer's. What may be *received* follows from the
peer's; a missing entry is the protocol error. Before the endpoints come layers, which are steps of one walk each.
"""

from enum import Enum
from typing import Final

from flintmq.protocol.role import Role
from flintmq.wire.amqp10 import spec


class Endpoint(Enum):
    """How far one side has taken a connection (open, close), a session (begin, end) or a link (attach, detach)."""

    UNSENT = "not begun"
    ACTIVE = "active"
    CLOSED = "closed"


class Layer(Enum):
    """What a connection's bytes are at present (amqp-1.0 part 2 §2.2, part 5 §5.3)."""

    HEADER = "awaiting a protocol header"
    SASL = "authenticating"
    AMQP_HEADER = "awaiting the protocol header behind the security layer"
    FRAMES = "frames of AMQP"
    DONE = "over"


class Login(Enum):
    """Where the exchange of SASL frames is. In DECIDING the owner is thinking."""

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

# What a connection may receive, by how far the peer has taken it.
CONNECTION: Final[dict[Endpoint, frozenset[int]]] = {
    Endpoint.UNSENT: frozenset({spec.OPEN}),
    Endpoint.ACTIVE: _OF_SESSIONS | {spec.BEGIN, spec.CLOSE},
    Endpoint.CLOSED: _NOTHING,
}
# What a session may receive, by how far the peer has taken it.
SESSION: Final[dict[Endpoint, frozenset[int]]] = {
    Endpoint.UNSENT: frozenset({spec.BEGIN}),
    Endpoint.ACTIVE: _OF_SESSIONS,
    Endpoint.CLOSED: _NOTHING,
}
