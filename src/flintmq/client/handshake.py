"""The login of the AMQP 0-9-1 client."""

import platform
from typing import Final

from flintmq import __version__
from flintmq.base.limits import CHANNEL_MAX, FRAME_MAX_BYTES
from flintmq.client.session import Session
from flintmq.client.url import Target
from flintmq.protocol.amqp091.connection import Login, Tuning
from flintmq.protocol.sasl import oauthbearer, plain

# Larger than the largest message that a server can be configured to accept, with the headers of a stream chunk.
_CONTENT_MAX_BYTES: Final = 1024 * 1024 * 1024


def session(target: Target, name: str) -> Session:
    """Return a session whose first bytes are ready to be sent. The server's tools show `name`."""
    properties: dict[str, object] = {
        "product": "FlintMQ client",
        "version": __version__,
        "platform": f"Python {platform.python_version()}",
        "copyright": "The FlintMQ authors",
        "information": "Licensed under the Apache License 2.0",
        "capabilities": {
            "publisher_confirms": True,
            "basic.nack": True,
            "consumer_cancel_notify": True,
            "authentication_failure_close": True,
            "connection.blocked": True,
        },
    }
    if name:
        properties["connection_name"] = name
    if target.token is None:
        mechanism, response = plain.NAME, plain.response(target.user, target.password)
    else:
        mechanism, response = oauthbearer.NAME, oauthbearer.response(target.token)
    login = Login(mechanism, response, target.virtual_host, properties)
    return Session(login, Tuning(CHANNEL_MAX, FRAME_MAX_BYTES, target.heartbeat, _CONTENT_MAX_BYTES))
