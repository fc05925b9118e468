"""A session of a client: it attaches links, and ends with its transactions and termini."""

from collections.abc import Callable
from typing import final

from flintmq.base.errors import FlintError
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp10.attach import receive_from, send_to
from flintmq.gateway.amqp10.management_links import ManagementPairs, is_management
from flintmq.gateway.amqp10.ports import ClientConnection, ClientSession
from flintmq.protocol.amqp10.receiver import ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session
from flintmq.wire.amqp10.performatives import Attach


@final
class ServerSession(ClientSession):
    """A session of a client. `ended` is called when it has ended."""

    def __init__(
        self, connection: ClientConnection, session: Session, access: Access, ended: Callable[["ServerSession"], None]
    ) -> None:
        super().__init__(connection, session, access)
        self._management = ManagementPairs(self)
        self._ended = ended

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        if is_management(attach.target):
            return self._management.requests(link, attach)
        return receive_from(self, link, attach)

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        if is_management(attach.source):
            return self._management.responses(link, attach)
        return send_to(self, link, attach)

    def grant(self) -> None:
        """Grant the links on which the client publishes their credit; while an alarm is on, take it back."""
        for link in self.incoming:
            link.grant()

    def on_ended(self, error: FlintError | None) -> None:
        self.transactions.roll_back_of(None)
        self.vhost.termini.session_ended(self)
        self._ended(self)
