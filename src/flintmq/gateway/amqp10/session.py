"""A session of a client: its links, their termini, its transactions and its management links."""

from typing import TYPE_CHECKING, final

from flintmq.base.errors import SCOPE_LINK, FlintError, InvalidField
from flintmq.base.limits import SHORTSTR_MAX_BYTES
from flintmq.broker.counters.traffic import Outflow
from flintmq.broker.message import Address
from flintmq.broker.tap import Client
from flintmq.broker.terminus.terminus import SourceTerminus, TargetTerminus
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp10.attaching import receive_from, send_to
from flintmq.gateway.amqp10.confirms import PROTOCOL
from flintmq.gateway.amqp10.incoming import IncomingLink
from flintmq.gateway.amqp10.link_terminus import known_source, known_target, source_terminus, target_terminus
from flintmq.gateway.amqp10.management_links import ManagementPairs, leads_there
from flintmq.gateway.amqp10.names import Key
from flintmq.gateway.amqp10.outgoing import OutgoingLink
from flintmq.gateway.amqp10.transactions import Transactions
from flintmq.gateway.publishing import Publisher, PublishTarget
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.termini import Source, Target

if TYPE_CHECKING:
    from flintmq.gateway.amqp10.connection import ServerConnection


@final
class ServerSession(SessionOwner):
    def __init__(self, connection: "ServerConnection", session: Session, access: Access) -> None:
        self.connection = connection
        self.engine = session
        self.access = access
        self.vhost = access.vhost
        self.rights = access.rights
        self.gateway = connection.gateway
        self.names = connection.service.names
        self._targets = connection.gateway.targets.of(access.rights)
        # Links on which the client publishes: alarms take their credit back.
        self.incoming: dict[IncomingLink, None] = {}
        self.transactions = Transactions(self)
        self.management = ManagementPairs(self)
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

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        if leads_there(attach.target):
            return self.management.requests(link, attach)
        return receive_from(self, link, attach)

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        if leads_there(attach.source):
            return self.management.responses(link, attach)
        return send_to(self, link, attach)

    # -- links that give way, or wait to be resumed ---------------------------------------------------------------

    def key(self, name: str) -> tuple[str, str, str]:
        """The key of a kept terminus. It holds the user, because a client may choose any container-id."""
        return self.access.user.owner, self.connection.container, name

    def name_key(self, name: str, is_receiver: bool) -> Key:
        """The key of an attached link among the names in use; `is_receiver`: the broker receives on the link."""
        return self.vhost.name, *self.key(name), is_receiver

    def source_of(self, name: str) -> Source | None:
        """The source by this name as it was attached last. A link that uses it stays attached."""
        found = self.vhost.termini.sources.get(self.key(name))
        if found is not None:
            return known_source(found)
        user = self.names.find(self.name_key(name, False))
        return user.source if isinstance(user, OutgoingLink) else None

    def target_of(self, name: str) -> Target | None:
        """The target by this name as it was attached last. A link that uses it stays attached."""
        found = self.vhost.termini.targets.get(self.key(name))
        if found is not None:
            return known_target(found)
        user = self.names.find(self.name_key(name, True))
        return user.target if isinstance(user, IncomingLink) else None

    def free_sender(self, name: str) -> SourceTerminus | None:
        """The source terminus of this name, if kept. A link that uses it is detached (part 2 §2.6.1).

        Call it only after all permission checks, because it ends the earlier link.
        """
        self.names.free(self.name_key(name, False))
        return self.vhost.termini.sources.get(self.key(name))

    def free_receiver(self, name: str) -> TargetTerminus | None:
        """The target terminus of this name, if kept. A link that uses it is detached."""
        self.names.free(self.name_key(name, True))
        return self.vhost.termini.targets.get(self.key(name))

    def use_source(self, link: OutgoingLink, found: SourceTerminus | None) -> None:
        """Give a link its terminus: `found`, or a new one. Raises ResourceError if too many are kept."""
        terminus = source_terminus(self, link.link.name, link.source, found)
        terminus.seen = link.consumer.seen
        terminus.attach(link, self, self.connection)
        link.terminus = terminus

    def use_target(self, link: IncomingLink, found: TargetTerminus | None) -> None:
        terminus = target_terminus(self, link.link.name, link.target, found)
        terminus.attach(link, self, self.connection)
        link.terminus = terminus

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

    def grant(self) -> None:
        """Grant the links on which the client publishes their credit; while an alarm is on, take it back."""
        for link in self.incoming:
            link.grant()

    def on_ended(self, error: FlintError | None) -> None:
        self.transactions.roll_back_of(None)
        self.vhost.termini.session_ended(self)
        self.connection.session_ended(self)
