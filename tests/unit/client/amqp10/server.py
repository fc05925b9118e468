"""A server for the client's core, without a socket: the engine in the other role, and links that the test handles."""

from flintmq.base.errors import Amqp10Error, AmqpError, FlintError
from flintmq.client.amqp10 import terms
from flintmq.client.amqp10.connection import ClientConnection
from flintmq.client.amqp10.receiver import ClientReceiver
from flintmq.client.amqp10.sender import ClientSender
from flintmq.client.url import Target as Address
from flintmq.protocol.amqp10.connection import Connection, ConnectionOwner, Tuning
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.wire.amqp10.performatives import Attach, Begin, Open
from flintmq.wire.amqp10.states import DeliveryState
from flintmq.wire.amqp10.termini import Coordinator, Source, Target

FRAME_MAX = 4096


class Incoming(ReceiverOwner):
    """What the client sends: the test reads it, and answers by the link."""

    def __init__(self, link: ReceiverLink) -> None:
        self.link = link
        self.messages: list[tuple[IncomingDelivery | None, bytes]] = []
        # By tag: what came of a message that is not whole yet.
        self.parts: dict[bytes, bytes] = {}
        self.aborted: list[bytes] = []
        self.is_detached = False

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        self.messages.append((delivery, payload))

    def on_part(self, link: ReceiverLink, delivery: IncomingDelivery, payload: bytes, more: bool) -> None:
        self.parts[delivery.tag] = self.parts.get(delivery.tag, b"") + payload
        if not more:
            self.messages.append((delivery, self.parts.pop(delivery.tag)))

    def on_aborted(self, link: ReceiverLink, delivery: IncomingDelivery) -> None:
        self.aborted.append(delivery.tag)

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        return None

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self.is_detached = True


class Outgoing(SenderOwner):
    """What the client receives: the test sends by the link, and reads what became of it."""

    def __init__(self, link: SenderLink) -> None:
        self.link = link
        self.dispositions: list[tuple[bytes, DeliveryState | None, bool]] = []
        self.is_detached = False

    def on_flow(self, link: SenderLink) -> None:
        return None

    def on_room(self, link: SenderLink) -> None:
        return None

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        self.dispositions.append((delivery.tag, state, settled))

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self.is_detached = True


class Server(ConnectionOwner):
    """Takes any login and any link. `unsettled` is what it says of a link's deliveries when that is attached."""

    def __init__(self) -> None:
        self.output = Output(Outbox())
        self.engine = Connection(
            Role.SERVER, self, self.output, Tuning(frame_max=FRAME_MAX), Open(container_id="server"), ["PLAIN"]
        )
        self.refuses_logins = False
        self.refuses_links: AmqpError | Amqp10Error | None = None
        self.unsettled: dict[bytes, DeliveryState | None] | None = None
        self.credit = 100
        self.incoming: list[Incoming] = []
        self.outgoing: list[Outgoing] = []

    def on_sasl_init(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        if self.refuses_logins:
            self.engine.sasl_refuse(AmqpError("no"))
        else:
            self.engine.sasl_accept()

    def on_open(self, opening: Open) -> None:
        self.engine.accept_open()

    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        return _Links(self)

    def on_closed(self, error: FlintError | None) -> None:
        return None


class _Links(SessionOwner):
    """A session of the server's."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        owner = Outgoing(link)
        if self._server.refuses_links is not None:
            raise self._server.refuses_links
        self._server.outgoing.append(owner)
        link.accept(Attach(source=attach.source, target=attach.target, unsettled=self._server.unsettled))
        return owner

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        owner = Incoming(link)
        if self._server.refuses_links is not None:
            raise self._server.refuses_links
        if self._server.unsettled is not None:
            for earlier in self._server.incoming:
                for tag in (*earlier.aborted, *(delivery.tag for delivery, _ in earlier.messages if delivery)):
                    self._server.unsettled.pop(tag, None)
        self._server.incoming.append(owner)
        link.wants_parts = True
        link.accept(Attach(source=attach.source, target=attach.target, unsettled=self._server.unsettled))
        if self._server.credit:
            link.grant(self._server.credit)
        return owner

    def on_ended(self, error: FlintError | None) -> None:
        return None


class Pair:
    """A client and a server, and what travels between them."""

    def __init__(self) -> None:
        self.server = Server()
        self.client: ClientConnection = terms.connection(Address(), "client")
        # How many bytes the client may still send, None for any: where a lost connection cuts it off.
        self.client_may_send: int | None = None

    def run(self) -> None:
        """Everything that one says is heard by the other, until both have nothing more to say."""
        while self.step():
            pass

    def step(self) -> bool:
        """What both have to say is heard by the other; False if it was nothing."""
        from_client = b"".join(self.client.take_output()) if self.client.has_output() else b""
        if self.client_may_send is not None:
            from_client = from_client[: self.client_may_send]
            self.client_may_send -= len(from_client)
        self.server.engine.flush()
        from_server = b"".join(self.server.output.take())
        if from_client:
            self.server.engine.refresh()
            self.server.engine.receive(from_client, 0.0)
        if from_server:
            self.client.receive(from_server, 0.0)
        return bool(from_client or from_server)

    def opened(self) -> "Pair":
        self.run()
        self.client.opened.check()
        return self

    def attach(self, link: ClientSender | ClientReceiver) -> None:
        self.client.attach(link)
        self.run()

    def lose(self) -> None:
        self.client.lost(None)
        self.server.engine.lost(None)


def sender() -> ClientSender:
    return terms.sender(Target(address="/queues/q"), "link", settled=False, source=None)


def receiver(credit: int = 10, *, second: bool = False) -> ClientReceiver:
    return terms.receiver(Source(address="/queues/q"), "link", credit, settled=False, second=second, filters=None)


__all__ = ["Coordinator", "Incoming", "Outgoing", "Pair", "Server", "receiver", "sender"]
