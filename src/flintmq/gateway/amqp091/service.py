"""The gateway of a node for AMQP 0-9-1, and what the server offers to clients."""

from dataclasses import dataclass
from typing import final

from flintmq.broker.message import Table
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.amqp091.connection import Tuning


@dataclass(frozen=True)
class Offer:
    """The properties and limits that the server sends in connection.start and connection.tune."""

    properties: Table
    tuning: Tuning
    # The maximum number of consumers per channel; 0: no limit.
    consumers_max: int = 0


@final
class Service:
    def __init__(self, gateway: Gateway, offer: Offer) -> None:
        self.gateway = gateway
        self.offer = offer
