"""State that all AMQP 1.0 connections of a server share: the server's open, and the names of attached links."""

from dataclasses import dataclass
from typing import final

from flintmq.gateway.amqp10.names import LinkNames
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.wire.amqp10.composite import Fields


@dataclass(frozen=True)
class ServerProperties:
    """The fields of the server's open, and the settings of its connections."""

    container_id: str
    table: Fields
    tuning: Tuning
    # The virtual host of clients whose hostname is not "vhost:NAME".
    default_vhost: str = "/"


@final
class Service:
    def __init__(self, gateway: Gateway, properties: ServerProperties) -> None:
        self.gateway = gateway
        self.properties = properties
        self.names = LinkNames()
