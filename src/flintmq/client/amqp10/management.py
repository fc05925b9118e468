"""Requests of a client to the server's node /management: one link sends requests, and another one of the same name
receives the responses (OASIS link pairing 1.0, as in RabbitMQ).
"""

from typing import Final

from flintmq.base.errors import LocalProtocolError
from flintmq.client.amqp10.message import Message
from flintmq.client.amqp10.receiver import ClientReceiver, Delivery
from flintmq.client.amqp10.sender import ClientSender
from flintmq.client.errors import TimedOut
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.spec import RCV_FIRST, SND_SETTLED
from flintmq.wire.amqp10.termini import Source, Target

_ADDRESS: Final = "/management"
_PAIRED: Final[Fields] = {"paired": True}
_DONE: Final = "204"


def pair(name: str) -> tuple[ClientSender, ClientReceiver]:
    """Return the links for requests and for responses."""
    source, target = Source(address=_ADDRESS), Target(address=_ADDRESS)
    return (
        ClientSender(name, source, target, SND_SETTLED, RCV_FIRST, _PAIRED),
        ClientReceiver(name, source, target, (SND_SETTLED, RCV_FIRST), 1, _PAIRED),
    )


def new_token(token: str) -> Message:
    """Return the request that renews the connection's token."""
    return Message(token.encode(), Properties(message_id="1", to="/auth/tokens", subject="PUT", reply_to="$me"))


def check_done(response: Delivery | None, seconds: float) -> None:
    """Check a response. Raises TimedOut if there is none, and LocalProtocolError if the server refused the request."""
    if response is None:
        raise TimedOut(f"the server has not answered a request to {_ADDRESS} within {seconds:g} s")
    message = response.message
    if message.properties.subject != _DONE:
        raise LocalProtocolError(f"the server answered {message.properties.subject}: {message.body}")
