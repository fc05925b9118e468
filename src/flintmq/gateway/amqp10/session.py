"""A session as the server sees it: which kind of link an attach asks for."""

from typing import TYPE_CHECKING, final

from flintmq.base.errors import FlintError
from flintmq.broker.access import Access
from flintmq.gateway.amqp10.attaching import receive_from, send_to
from flintmq.gateway.amqp10.incoming import IncomingLink
from flintmq.gateway.amqp10.management_links import ManagementPairs, leads_there
from flintmq.gateway.amqp10.publication import Publication
from flintmq.gateway.amqp10.transactions import Transactions
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.wire.amqp10.performatives import Attach

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
        self._publications = connection.service.publications(access.rights)
        # Links by which messages come, for when there is an alarm.
        self.incoming: dict[IncomingLink, None] = {}
        self.transactions = Transactions(self)
        self.management = ManagementPairs(self)

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        if leads_there(attach.target):
            return self.management.requests(link, attach)
        return receive_from(self, link, attach)

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        if leads_there(attach.source):
            return self.management.responses(link, attach)
        return send_to(self, link, attach)

    def publication(self, exchange: str, routing_key: str) -> Publication:
        return self._publications.get(exchange, routing_key)

    def grant(self) -> None:
        """An alarm took credit from publishers, or they have it back."""
        for link in self.incoming:
            link.grant()

    def on_ended(self, error: FlintError | None) -> None:
        self.transactions.roll_back_of(None)
        self.connection.session_ended(self)
