"""Two engines of AMQP 1.0, one in each role, and everything they tell their owners."""

from flintmq.base.errors import Amqp10Error, AmqpError, AuthenticationFailed, FlintError
from flintmq.protocol.amqp10.connection import Connection, ConnectionOwner, Tuning
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.wire.amqp10.performatives import Attach, Begin, Open
from flintmq.wire.amqp10.states import DeliveryState
from flintmq.wire.amqp10.termini import Source, Target

Fault = AmqpError | Amqp10Error


class Sends(SenderOwner):
    """The owner of a sender: remembers what it was told."""

    def __init__(self) -> None:
        self.attached: list[Attach] = []
        self.flows: list[tuple[int, bool]] = []
        self.rooms = 0
        self.dispositions: list[tuple[OutgoingDelivery, DeliveryState | None, bool]] = []
        self.detached: list[tuple[FlintError | None, bool]] = []
        self.released = 0
        self.unsettled: list[OutgoingDelivery] = []
        self.link: SenderLink | None = None

    def on_attached(self, attach: Attach) -> None:
        self.attached.append(attach)

    def on_flow(self, link: SenderLink) -> None:
        self.flows.append((link.credit, link.drain))

    def on_room(self, link: SenderLink) -> None:
        self.rooms += 1

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        self.dispositions.append((delivery, state, settled))

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self.detached.append((error, closed))
        if self.link is not None:
            self.unsettled = self.link.take_unsettled()

    def on_released(self) -> None:
        self.released += 1


class Receives(ReceiverOwner):
    """The owner of a receiver: remembers what came, and accepts it if `accepts`."""

    def __init__(self) -> None:
        self.attached: list[Attach] = []
        self.messages: list[tuple[IncomingDelivery | None, bytes]] = []
        self.parts: list[tuple[IncomingDelivery, bytes, bool]] = []
        self.aborted: list[IncomingDelivery] = []
        self.dispositions: list[tuple[IncomingDelivery, DeliveryState | None, bool]] = []
        self.detached: list[tuple[FlintError | None, bool]] = []
        self.flows: list[tuple[int, int]] = []
        self.released = 0
        self.accepts = False
        self.fault: Fault | None = None
        self.link: ReceiverLink | None = None
        self.unsettled: list[IncomingDelivery] = []

    def on_attached(self, attach: Attach) -> None:
        self.attached.append(attach)

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        if self.fault is not None:
            raise self.fault
        self.messages.append((delivery, payload))
        if self.accepts and delivery is not None:
            link.accept_delivery(delivery)

    def on_part(self, link: ReceiverLink, delivery: IncomingDelivery, payload: bytes, more: bool) -> None:
        self.parts.append((delivery, payload, more))

    def on_aborted(self, link: ReceiverLink, delivery: IncomingDelivery) -> None:
        self.aborted.append(delivery)

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        self.dispositions.append((delivery, state, settled))

    def on_flow(self, link: ReceiverLink) -> None:
        self.flows.append((link.credit, link.available))

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self.detached.append((error, closed))
        if self.link is not None:
            self.unsettled = self.link.take_unsettled()

    def on_released(self) -> None:
        self.released += 1


class Meets(SessionOwner):
    """The owner of a session: accepts whatever the peer attaches, unless told otherwise."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.begun: list[Begin] = []
        self.attaches: list[Attach] = []
        self.senders: list[Sends] = []
        self.receivers: list[Receives] = []
        self.ended: list[FlintError | None] = []
        self.decides = True
        self.refusal: Fault | None = None
        self.answer = Attach()
        self.credit = 0

    def on_begun(self, begin: Begin) -> None:
        self.begun.append(begin)

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        self.attaches.append(attach)
        if self.refusal is not None:
            raise self.refusal
        owner = Sends()
        owner.link = link
        self.senders.append(owner)
        if self.decides:
            self.answer.source, self.answer.target = attach.source, attach.target
            link.accept(self.answer)
        return owner

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        self.attaches.append(attach)
        if self.refusal is not None:
            raise self.refusal
        owner = Receives()
        owner.link = link
        self.receivers.append(owner)
        if self.decides:
            self.answer.source, self.answer.target = attach.source, attach.target
            link.accept(self.answer)
            if self.credit:
                link.grant(self.credit)
        return owner

    def on_ended(self, error: FlintError | None) -> None:
        self.ended.append(error)


class Side(ConnectionOwner):
    """One end: its engine, its output, and what it was told."""

    def __init__(
        self, role: Role, tuning: Tuning, opening: Open, mechanisms: list[str] | None = None, logs_in: bool = False
    ) -> None:
        self.output = Output(Outbox())
        self.logins: list[tuple[str, bytes | None, str | None]] = []
        self.responses: list[bytes] = []
        self.offered: list[str] = []
        self.outcomes: list[bytes | None] = []
        self.opened: list[Open] = []
        self.sessions: list[Meets] = []
        self.closed: list[FlintError | None] = []
        self.held = 0
        self.refusal: Fault | None = None
        self.challenges: list[bytes] = []
        self.password: bytes | None = b"\0guest\0guest"
        self.decides = True
        self.engine = Connection(role, self, self.output, tuning, opening, mechanisms, logs_in)

    def on_sasl_init(self, mechanism: str, response: bytes | None, hostname: str | None) -> None:
        self.logins.append((mechanism, response, hostname))
        if self.decides:
            self._judge(response)

    def on_sasl_response(self, response: bytes) -> None:
        self.responses.append(response)
        self._judge(response)

    def _judge(self, response: bytes | None) -> None:
        if self.challenges:
            self.engine.sasl_challenge(self.challenges.pop(0))
        elif response == self.password:
            self.engine.sasl_accept(b"welcome")
        else:
            self.engine.sasl_refuse(AuthenticationFailed("wrong password"))

    def on_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        self.offered = mechanisms
        self.engine.sasl_init("PLAIN", self.password, "vhost:test")

    def on_sasl_challenge(self, challenge: bytes) -> None:
        self.responses.append(challenge)
        self.engine.sasl_respond(self.password or b"")

    def on_sasl_outcome(self, additional: bytes | None) -> None:
        self.outcomes.append(additional)

    def on_open(self, opening: Open) -> None:
        self.opened.append(opening)
        if self.refusal is not None:
            raise self.refusal
        if self.decides:
            self.engine.accept_open()

    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        if self.refusal is not None:
            raise self.refusal
        owner = Meets()
        owner.session = session
        self.sessions.append(owner)
        return owner

    def on_transfer_held(self) -> None:
        self.held += 1

    def on_closed(self, error: FlintError | None) -> None:
        self.closed.append(error)

    def take(self) -> bytes:
        """What is to be sent, by a socket that takes everything."""
        data = b"".join(self.output.take())
        if self.output.backlog_is(0):
            self.engine.resume()
        return data


class Pair:
    """A client and a server, and the wire between them. `step` is how many bytes arrive at once; 0 for all."""

    def __init__(
        self,
        client: Tuning | None = None,
        server: Tuning | None = None,
        mechanisms: list[str] | None = None,
        logs_in: bool = False,
        step: int = 0,
    ) -> None:
        self.client = Side(Role.CLIENT, client or Tuning(), Open(container_id="client"), None, logs_in)
        self.server = Side(Role.SERVER, server or Tuning(), Open(container_id="server"), mechanisms)
        self.step = step
        self.now = 0.0
        # Everything that went over the wire.
        self.from_client = b""
        self.from_server = b""

    def run(self) -> None:
        """Exchange bytes until there are none."""
        while True:
            self.client.engine.flush()
            self.server.engine.flush()
            up = self.client.take()
            down = self.server.take()
            if not up and not down:
                return
            self.from_client += up
            self.from_server += down
            self.feed(self.server, up)
            self.feed(self.client, down)

    def feed(self, side: Side, data: bytes) -> None:
        step = self.step or max(len(data), 1)
        for start in range(0, len(data), step):
            if side.engine.is_closed:
                return
            side.engine.receive(data[start : start + step], self.now)

    def open(self) -> "Pair":
        self.run()
        assert self.client.engine.is_open
        assert self.server.engine.is_open
        return self

    def session(self) -> tuple[Session, Meets, Meets]:
        """Begin a session from the client's side: it, its owner, and the owner at the server."""
        owner = Meets()
        session = self.client.engine.begin(owner)
        owner.session = session
        self.run()
        return session, owner, self.server.sessions[-1]


class Flowing:
    """A link from the client to the server, with credit, or the other way around."""

    def __init__(self, to_server: bool = True, credit: int = 100, attach: Attach | None = None, **pair: object) -> None:
        self.pair = Pair(**pair).open()  # type: ignore[arg-type]
        self.session, self.owner, self.peer = self.pair.session()
        self.peer.credit = credit if to_server else 0
        attach = attach or Attach(source=Source(address="here"), target=Target(address="there"))
        attach.name = attach.name or "link"
        self.sends = Sends()
        self.receives = Receives()
        if to_server:
            self.sender = self.session.attach_sender(self.sends, attach)
            self.pair.run()
            self.receives = self.peer.receivers[-1]
            assert self.receives.link is not None
            self.receiver = self.receives.link
        else:
            self.receiver = self.session.attach_receiver(self.receives, attach)
            self.receiver.grant(credit)
            self.pair.run()
            self.sends = self.peer.senders[-1]
            assert self.sends.link is not None
            self.sender = self.sends.link
        self.pair.run()

    def run(self) -> None:
        self.pair.run()
