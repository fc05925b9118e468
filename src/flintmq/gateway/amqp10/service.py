"""What all AMQP 1.0 connections of a server share: what they are offered, and what their publishers said before."""

from dataclasses import dataclass
from typing import final

from flintmq.gateway.amqp10.names import LinkNames
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.wire.amqp10.composite import Fields


@dataclass(frozen=True)
class Offer:
    """What the server says of itself in its open."""

    container_id: str
    properties: Fields
    tuning: Tuning
    # Where a hostname does not name a virtual host as "vhost:name".
    default_vhost: str = "/"


@final
class Service:
    def __init__(self, gateway: Gateway, offer: Offer) -> None:
        self.gateway = gateway
        self.offer = offer
        self.names = LinkNames()
