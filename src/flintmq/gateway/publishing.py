"""Publishing, for both protocols: targets with cached routes, permissions, taps, delivery to queues, and counters.

A protocol parses a message, finds its target, has the target permitted, and answers the outcome of `Publisher.deliver`.
"""

from collections.abc import Callable
from typing import final

from mypy_extensions import i64

from flintmq.base.limits import ADDRESS_WORK_UNITS, ROUTE_CACHE_ENTRIES
from flintmq.base.work import WORK
from flintmq.broker.access.permission import WRITE, Rights
from flintmq.broker.counters.traffic import Inflow
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Message
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.publish import put, put_at_once
from flintmq.broker.tap import Client
from flintmq.broker.tick import Tick
from flintmq.broker.vhost import VHost


@final
class PublishTarget:
    """An address that messages are published to, with its route; `mandatory` and `immediate` are flags of AMQP 0-9-1.

    The user may publish there as of the version `permitted`, which is the sum of the versions of the user's permissions
    and of the topology.
    """

    def __init__(self, address: Address, mandatory: bool = False, immediate: bool = False) -> None:
        self.address = address
        self.route = Route(address)
        self.mandatory = mandatory
        self.immediate = immediate
        self.permitted: i64 = -1


@final
class PublishTargets:
    """The cached targets of a user in a virtual host, at most ROUTE_CACHE_ENTRIES.

    A key is the payload of the method in AMQP 0-9-1, and the exchange and routing key in AMQP 1.0.
    """

    def __init__(self) -> None:
        self._known: dict[object, PublishTarget] = {}

    def find(self, key: object) -> PublishTarget | None:
        return self._known.get(key)

    def add(self, key: object, target: PublishTarget) -> None:
        if len(self._known) >= ROUTE_CACHE_ENTRIES:
            self._known.clear()
        self._known[key] = target


@final
class Publisher:
    """The publishing side of a channel or session. `client` returns its client; `inflow` are counters of its protocol.

    `published` counts its messages. Unrouted ones are counted as `returned` if the client was told, else as `dropped`.
    """

    def __init__(
        self,
        vhost: VHost,
        rights: Rights,
        tick: Tick,
        journal: Journal,
        client: Callable[[], Client],
        inflow: Inflow | None = None,
    ) -> None:
        self.published: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
        self._vhost = vhost
        self._rights = rights
        self._tick = tick
        self._journal = journal
        self._client = client
        self._inflow = inflow

    def permit(self, target: PublishTarget) -> None:
        """Check that the user may publish to a target, until permissions or the topology change.

        Raises AccessRefused.
        """
        WORK.spent += ADDRESS_WORK_UNITS
        address = target.address
        self._rights.check(WRITE, "exchange", address.exchange)
        self.permit_keys(target, [address.routing_key])
        target.permitted = self._rights.version + self._vhost.router.version

    def permit_keys(self, target: PublishTarget, keys: list[str]) -> None:
        """Check that the user may publish with these routing keys, if the exchange is a topic exchange.

        Raises AccessRefused.
        """
        name = target.address.exchange
        exchange = self._vhost.exchanges.by_name.get(name)
        if exchange is not None and exchange.type == "topic":
            for key in keys:
                self._rights.check_topic(WRITE, name, key)

    def tapped(self, message: Message, queues: list[Queue]) -> Message:
        """Show a message to the tap before its delivery. Returns the message to deliver instead."""
        tap = self._tick.tap
        return message if tap is None else tap.published(self._client(), message, queues)

    def deliver(self, target: PublishTarget, message: Message, queues: list[Queue]) -> int:
        """Put a message on its queues. Returns UNROUTED, ROUTED, STORED, TURNED_AWAY or UNDELIVERED."""
        if target.immediate:
            outcome = put_at_once(queues, message, self._journal)
        else:
            outcome = put(queues, message, self._journal)
        cost = target.route.cost
        if cost != 0:
            WORK.spent += cost
        return outcome

    def unrouted(self, is_returned: bool) -> None:
        """Count a message that no queue took; `is_returned`: its client is told."""
        traffic, inflow = self._vhost.traffic, self._inflow
        if is_returned:
            self.returned += 1
            traffic.returned += 1
            if inflow is not None:
                inflow.returned += 1
        else:
            self.dropped += 1
            traffic.dropped += 1
            if inflow is not None:
                inflow.dropped += 1
