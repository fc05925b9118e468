"""The connection and the session of a client, as links, termini and transactions use them."""

from abc import abstractmethod

from mypy_extensions import i64

from flintmq.base.errors import SCOPE_LINK, AmqpError, InvalidField
from flintmq.base.limits import SHORTSTR_MAX_BYTES
from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.message import Address
from flintmq.broker.tap import Client
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp10.confirms import PROTOCOL, Confirms
from flintmq.gateway.amqp10.names import Key
from flintmq.gateway.amqp10.service import Service
from flintmq.gateway.amqp10.transactions import SourceLink, Transactions
from flintmq.gateway.publishing import Publisher, PublishTarget
from flintmq.protocol.amqp10.connection import Connection, ConnectionOwner
from flintmq.protocol.amqp10.receiver import ReceiverOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner


class ClientConnection(ConnectionOwner):
    """The connection of a client. `peer` names the other side in logs and errors."""

    # The protocol engine.
    engine: Connection
    # The replies and outcomes that wait for the storage.
    confirms: Confirms

    def __init__(self, service: Service, peer: str) -> None:
        self.service = service
        self.gateway = service.gateway
        self.peer = peer
        # A number that is unique for the life of the node.
        self.number: i64 = service.gateway.next_number()
        self.user = ""
        self.container = ""
        # Links on which the client receives, by name.
        self.senders: dict[str, SourceLink] = {}
        # Links with `drain` set: the peer is told when there are no more messages for it.
        self._draining: dict[SourceLink, None] = {}

    def touch(self) -> None:
        """Have output flushed when the tick ends."""
        self.confirms.touch()

    def drain(self, link: SourceLink) -> None:
        """Have the link's drain answered at the end of a tick, once all messages that are available were sent."""
        self._draining[link] = None
        self.confirms.touch()

    def hold(self) -> None:
        """Stop reading publishes: more came after credit was withdrawn than can have been under way."""
        self.engine.holds_publishes = True

    @abstractmethod
    def renew(self, token: bytes) -> None:
        """Check a newer token of the client, which is answered at once. A wrong one closes the connection."""

    @abstractmethod
    def fail(self, error: AmqpError) -> None:
        """Close the connection with `error`, for a reason that the client did not cause."""


class TargetLink(ReceiverOwner):
    """A link on which the client publishes."""

    @abstractmethod
    def grant(self) -> None:
        """Grant the client its credit; none while an alarm is on."""


class ClientSession(SessionOwner):
    """A session of a client. `connection` is also the owner of exclusive queues; `engine` is the protocol engine."""

    def __init__(self, connection: ClientConnection, session: Session, access: Access) -> None:
        self.connection = connection
        self.engine = session
        self.access = access
        self.vhost = access.vhost
        self.rights = access.rights
        self.gateway = connection.gateway
        self.names = connection.service.names
        self._targets = connection.gateway.targets.of(access.rights)
        # Links on which the client publishes: alarms take their credit back.
        self.incoming: dict[TargetLink, None] = {}
        self.transactions = Transactions(connection.gateway, access.vhost)
        # The counters of this protocol in the virtual host.
        self.inflow = access.vhost.traffic.inflow_of(PROTOCOL)
        self.publisher = Publisher(
            access.vhost,
            access.rights,
            connection.gateway.tick,
            connection.gateway.broker.storage.journal,
            self.client,
            self.inflow,
        )
        self.outflow = Outflow()

    def client(self) -> Client:
        """Describe the client for taps."""
        connection = self.connection
        return Client(connection.peer, self.engine.number, connection.user, self.vhost.name)

    def key(self, name: str) -> tuple[str, str, str]:
        """The key of a kept terminus. It holds the user, because a client may choose any container-id."""
        return self.access.user.owner, self.connection.container, name

    def name_key(self, name: str, is_receiver: bool) -> Key:
        """The key of an attached link among the names in use; `is_receiver`: the broker receives on the link."""
        return self.vhost.name, *self.key(name), is_receiver

    def publish_target(self, exchange: str, routing_key: str) -> PublishTarget:
        """The cached publish target of an exchange and routing key.

        Raises InvalidField for more than 255 bytes in either: AMQP 0-9-1 and the journal have no room for longer names.
        """
        key = (exchange, routing_key)
        known = self._targets.find(key)
        if known is None:
            for what, name in (("exchange name", exchange), ("routing key", routing_key)):
                if len(name.encode()) > SHORTSTR_MAX_BYTES:
                    raise InvalidField(f"a {what} has {SHORTSTR_MAX_BYTES} bytes at most", SCOPE_LINK)
            known = PublishTarget(Address(exchange, routing_key))
            self._targets.add(key, known)
        return known
