"""What all AMQP 1.0 connections of a server share: what they are offered, and what their publishers said before."""

from dataclasses import dataclass
from typing import final

from flintmq.broker.access import Access
from flintmq.broker.permission import Rights
from flintmq.gateway.amqp10.publication import Publications
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
        self._publications: dict[Rights, Publications] = {}

    def publications(self, rights: Rights) -> Publications:
        """Those of a user in a virtual host, shared by all connections: what is allowed is remembered with them."""
        known = self._publications.get(rights)
        if known is None:
            known = Publications()
            self._publications[rights] = known
        return known

    def left(self, access: Access) -> None:
        """A connection ended; the user's last one in a virtual host takes along what was remembered."""
        if not any(other.rights is access.rights for other in access.user.connections):
            self._publications.pop(access.rights, None)
