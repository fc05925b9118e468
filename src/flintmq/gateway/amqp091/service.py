"""The gateway of a node for AMQP 0-9-1, and the properties that the server sends to its clients."""

from dataclasses import dataclass
from typing import final

from flintmq.broker.message import Table
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.amqp091.connection import Tuning


@dataclass(frozen=True)
class ServerProperties:
    """The properties and limits that the server sends in connection.start and connection.tune."""

    table: Table
    tuning: Tuning
    # The maximum number of consumers per channel; 0: no limit.
    consumers_max: int = 0


@final
class Service:
    def __init__(self, gateway: Gateway, properties: ServerProperties) -> None:
        self.gateway = gateway
        self.properties = properties
