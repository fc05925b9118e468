"""What RabbitMQ's totals of the node are labelled by: the protocol that messages came or went by."""

from collections.abc import Mapping
from typing import Final

from flintmq.gateway.amqp10.promises import PROTOCOL

AMQP_091: Final = "amqp091"
AMQP_10: Final = PROTOCOL
PROTOCOLS: Final = (AMQP_091, AMQP_10)


def by_protocol(whole: int, by_10: int) -> list[tuple[Mapping[str, str], int]]:
    """Of so many, those that are not of AMQP 1.0 are of 0-9-1."""
    return [({"protocol": AMQP_091}, int(whole) - int(by_10)), ({"protocol": AMQP_10}, int(by_10))]
