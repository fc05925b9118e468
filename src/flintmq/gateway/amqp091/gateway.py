"""What all AMQP 0-9-1 connections of a server share: the broker, the tick, and who has to hear of the next sync."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from mypy_extensions import mypyc_attr

from flintmq.base.errors import AmqpError, StorageFenced
from flintmq.broker.access import Access
from flintmq.broker.broker import Broker
from flintmq.broker.message import Table
from flintmq.broker.permission import Rights
from flintmq.gateway.amqp091.publication import Publications
from flintmq.protocol.amqp091.connection import Tuning

if TYPE_CHECKING:
    from flintmq.gateway.amqp091.channel import ServerChannel
    from flintmq.gateway.amqp091.connection import ServerConnection


@mypyc_attr(allow_interpreted_subclasses=True)
class Host(ABC):
    """What a gateway needs and may not do itself."""

    @abstractmethod
    def authenticate(self, connection: "ServerConnection", user: str, password: str) -> None:
        """Check a password, in its own time, and call the connection's `login_accepted` or `login_refused`."""

    @abstractmethod
    def channel_failed(self, connection: "ServerConnection", channel: int, error: AmqpError) -> None:
        """A fault of the client cost it this channel, and the connection goes on: somebody may want to know."""


@dataclass(frozen=True)
class Offer:
    """What the server says of itself in connection.start and connection.tune."""

    properties: Table
    tuning: Tuning
    # How many consumers a channel may have; 0 for any number.
    consumers_max: int = 0


@final
class Gateway:
    """`random_bytes(n)` is the source of names the server makes up."""

    def __init__(self, broker: Broker, host: Host, offer: Offer, random_bytes: Callable[[int], bytes]) -> None:
        self.broker = broker
        self.agenda = broker.agenda
        self.host = host
        self.offer = offer
        self.random_bytes = random_bytes
        # Why publishers have to wait; empty while they need not.
        self.alarm = ""
        # Why the storage takes nothing any more; empty while it does.
        self.failure = ""
        self._connections = 0
        self._publications: dict[Rights, Publications] = {}
        # Channels that published, or changed definitions, in this tick.
        self._active: list[ServerChannel] = []
        # Channels that wait for a batch to become durable.
        self._waiting: dict[ServerChannel, None] = {}

    def next_number(self) -> int:
        """Connections are told apart by a number that is never used again."""
        self._connections += 1
        return self._connections

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

    def activate(self, channel: "ServerChannel") -> None:
        self._active.append(channel)

    def end_tick(self) -> bool:
        """Deliver, hand the tick's durable work to the storage, and confirm what needs no waiting.

        True when there is more to deliver: call again once the sockets had their turn.
        """
        more = self.broker.dispatch()
        storage = self.broker.storage
        try:
            batch = storage.commit()
        except StorageFenced:
            self._fail(storage.failure)
            return more
        if self._active:
            durable = storage.durable_batch
            active = self._active
            self._active = []
            for channel in active:
                if channel.end_tick(batch, durable):
                    self._waiting[channel] = None
        # A consumer whose consume-ok went out just now may have something to get.
        return more or self.broker.has_ready

    def on_durable(self) -> None:
        """The storage made progress, or failed: tell who waits for it. A tick has to follow."""
        storage = self.broker.storage
        if storage.failure:
            self._fail(storage.failure)
            return
        self.broker.on_durable()
        durable = storage.durable_batch
        for channel in list(self._waiting):
            if not channel.on_durable(durable):
                del self._waiting[channel]

    def _fail(self, reason: str) -> None:
        self.failure = reason
        concerned = {**self._waiting, **dict.fromkeys(self._active)}
        self._waiting = {}
        self._active = []
        for channel in concerned:
            channel.on_failure(reason)
