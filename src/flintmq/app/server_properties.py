"""The server properties and limits that clients of each protocol get when they connect."""

import platform
import socket
from typing import Final

from flintmq import __version__
from flintmq.gateway.amqp091.service import ServerProperties
from flintmq.gateway.amqp10 import service as amqp10
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.protocol.amqp10.connection import Tuning as Tuning10
from flintmq.server.config import Settings

# The RabbitMQ release whose AMQP 1.0 features the broker has at least, for clients that check the version.
COMPATIBLE_VERSION: Final = "4.3.0"


def server_properties_091(settings: Settings) -> ServerProperties:
    limits = settings.limits
    return ServerProperties(
        {
            "product": "FlintMQ",
            "version": __version__,
            "platform": f"Python {platform.python_version()}",
            "copyright": "The FlintMQ authors",
            "information": "Licensed under the Apache License 2.0",
            "host": socket.gethostname(),
            "capabilities": {
                "publisher_confirms": True,
                "exchange_exchange_bindings": True,
                "basic.nack": True,
                "consumer_cancel_notify": True,
                "connection.blocked": True,
                "consumer_priorities": True,
                "authentication_failure_close": True,
                "per_consumer_qos": True,
                "direct_reply_to": True,
                "flintmq.stream": True,
                "flintmq.lease": True,
                "flintmq.lease.query": True,
                "flintmq.stage": True,
            },
        },
        Tuning(limits.channel_max, limits.frame_max_bytes, limits.heartbeat_seconds, limits.message_max_bytes),
        limits.consumers_per_channel_max,
    )


def server_properties_10(settings: Settings) -> amqp10.ServerProperties:
    limits = settings.limits
    return amqp10.ServerProperties(
        f"flintmq@{socket.gethostname()}",
        {
            # Clients made for RabbitMQ 4 check for this name.
            "product": "RabbitMQ",
            "version": COMPATIBLE_VERSION,
            "server": "FlintMQ",
            "server-version": __version__,
            "platform": f"Python {platform.python_version()}",
        },
        Tuning10(
            frame_max=limits.frame_max_bytes,
            channel_max=limits.channel_max,
            idle_timeout_ms=limits.heartbeat_seconds * 1000,
            message_max=limits.message_max_bytes,
        ),
    )
