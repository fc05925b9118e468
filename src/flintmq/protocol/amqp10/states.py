"""The legal moves of AMQP 1.0 connections, sessions and links, as data.

A connection begins with protocol headers and frames of SASL, in a fixed order of layers. Then there are endpoints: the
connection, its sessions, their links. An endpoint has two small states, ours and the peer's.

After *receiving* a performative, the state of the peer's side is `TABLE[state][performative]`. A performative without
an entry is a protocol error. Sending needs no table: the state of this side determines what it sends.
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


# The protocol header that a layer waits for, and the layer after it; by whether the connection begins with a login.
HEADERS: Final[dict[bool, dict[Layer, tuple[bytes, Layer]]]] = {
    False: {Layer.HEADER: (spec.PROTOCOL_HEADER, Layer.FRAMES)},
    True: {
        Layer.HEADER: (spec.SASL_HEADER, Layer.SASL),
        Layer.AMQP_HEADER: (spec.PROTOCOL_HEADER, Layer.FRAMES),
    },
}

# The state of the login after *receiving* a SASL frame.
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

Moves = dict[Endpoint, dict[int, Endpoint]]

# Performatives of sessions and links, which change no state of the endpoint that they pass.
_PASSED: Final = dict.fromkeys((spec.ATTACH, spec.FLOW, spec.TRANSFER, spec.DISPOSITION, spec.DETACH), Endpoint.ACTIVE)

CONNECTION: Final[Moves] = {
    Endpoint.UNSENT: {spec.OPEN: Endpoint.ACTIVE},
    Endpoint.ACTIVE: {
        spec.BEGIN: Endpoint.ACTIVE,
        **_PASSED,
        spec.END: Endpoint.ACTIVE,
        spec.CLOSE: Endpoint.CLOSED,
    },
    Endpoint.CLOSED: {},
}
SESSION: Final[Moves] = {
    Endpoint.UNSENT: {spec.BEGIN: Endpoint.ACTIVE},
    Endpoint.ACTIVE: {**_PASSED, spec.END: Endpoint.CLOSED},
    Endpoint.CLOSED: {},
}
# A handle of the peer without a link is UNSENT. A disposition is for deliveries of a session, whatever their links.
LINK: Final[Moves] = {
    Endpoint.UNSENT: {spec.ATTACH: Endpoint.ACTIVE},
    Endpoint.ACTIVE: {
        spec.FLOW: Endpoint.ACTIVE,
        spec.TRANSFER: Endpoint.ACTIVE,
        spec.DETACH: Endpoint.CLOSED,
    },
    Endpoint.CLOSED: {},
}
