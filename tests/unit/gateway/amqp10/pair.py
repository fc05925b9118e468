"""A client's engine against the server's gateway, over a storage that is as durable as the test says."""

from flintmq.base.errors import EndedByPeer, FlintError
from flintmq.broker.broker import Broker
from flintmq.broker.message import Table
from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.gateway.amqp10.connection import ServerConnection
from flintmq.gateway.amqp10.service import ServerProperties, Service
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.amqp10.connection import Connection, ConnectionOwner, Tuning
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session, SessionOwner
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp10.composite import Composite, Fields
from flintmq.wire.amqp10.performatives import Attach, Begin, Open
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.sections import (
    decode_data,
    encode_amqp_value,
    encode_data,
    encode_header,
    encode_properties,
    scan,
)
from flintmq.wire.amqp10.spec import SND_UNSETTLED
from flintmq.wire.amqp10.states import Declared, DeliveryState
from flintmq.wire.amqp10.termini import Coordinator, Declare, Discharge, Source, Target
from tests.unit.broker.memory import MemoryStorage
from tests.unit.gateway.amqp091.pair import OpenHost


class Server:
    """A broker without I/O. Names it makes up are counted."""

    def __init__(self, message_max: int = 16 * 1024 * 1024) -> None:
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.vhost = self.broker.add_vhost("/")
        self.user = self.broker.put_user(UserRecord("u", ""))
        self.allow()
        self.host = OpenHost()
        self._made = 0
        self.gateway = Gateway(self.broker, self.host, self._random)
        self.service = Service(
            self.gateway, ServerProperties("broker", {"product": "test"}, Tuning(message_max=message_max))
        )

    def allow(self, configure: str = ".*", write: str = ".*", read: str = ".*", vhost: str = "/") -> None:
        """Say what the user may do; everything, if nothing is said."""
        self.broker.put_rule(PermissionRecord(vhost, "u", configure, write, read))

    def queue(self, name: str = "q", durable: bool = True, **arguments: object) -> None:
        table: Table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        self.vhost.declare_queue(name, durable, False, False, table, None)

    def _random(self, count: int) -> bytes:
        self._made += 1
        return self._made.to_bytes(count, "big")


class Client(ConnectionOwner):
    """A connection to a Server with one session. `tick` carries bytes both ways and lets the server end its tick."""

    def __init__(
        self,
        server: Server,
        password: str = "secret",
        hostname: str | None = None,
        container: str = "client",
        user: str = "u",
        tuning: Tuning | None = None,
    ) -> None:
        self.server = server
        self._user = user
        self._password = password
        self.closed: list[FlintError | None] = []
        self.ended: list[FlintError | None] = []
        self.opened: list[Open] = []
        self._up = Output(Outbox())
        opening = Open(container_id=container, hostname=hostname)
        self.engine = Connection(Role.CLIENT, self, self._up, tuning or Tuning(), opening, logs_in=True)
        self.output = Output(Outbox())
        self.connection = ServerConnection(server.service, self.output, "test:1")
        self.tick()
        if self.engine.is_open:
            self.session = self.begin()

    def begin(self) -> Session:
        session = self.engine.begin(_SessionRecorder(self))
        self.tick()
        return session

    def tick(self) -> None:
        while True:
            up = self.carry_up()
            while self.server.gateway.end_tick():
                pass
            down = self.carry_down()
            if not up and not down and not self.connection.engine.is_paused:
                return

    def single_tick(self) -> bool:
        """The server's next tick only. Returns whether another one follows at once."""
        self.carry_up()
        more = self.server.gateway.end_tick()
        self.carry_down()
        return more

    def carry_up(self) -> bytes:
        self.engine.flush()
        up = b"".join(self._up.take())
        self._up.backlog_is(0)
        self.connection.engine.refresh()
        if up or self.connection.engine.is_paused:
            self.connection.engine.receive(up, 0.0)
        return up

    def carry_down(self) -> bytes:
        down = b"".join(self.output.take())
        self.output.backlog_is(0)
        if down:
            self.engine.receive(down, 0.0)
        return down

    def durable(self) -> None:
        """All that was sent is on the disk now."""
        self.tick()
        self.server.storage.sync()
        self.server.gateway.on_durable()
        self.tick()

    def sender(
        self,
        address: str | None = "/queues/q",
        target: Target | Coordinator | None = None,
        attach: Attach | None = None,
        session: Session | None = None,
    ) -> "Sender":
        asked = attach or Attach(name=f"to {address}")
        asked.source = asked.source or Source(address="here")
        asked.target = target or Target(address=address)
        return Sender(self, session or self.session, asked)

    def receiver(
        self,
        address: str | None = "/queues/q",
        credit: int = 10,
        source: Source | None = None,
        attach: Attach | None = None,
        session: Session | None = None,
    ) -> "Receiver":
        asked = attach or Attach(name=f"from {address}", snd_settle_mode=SND_UNSETTLED)
        asked.source = source or Source(address=address)
        asked.target = asked.target or Target(address="here")
        return Receiver(self, session or self.session, asked, credit)

    # -- what the engine says -----------------------------------------------------------------------------------

    def on_sasl_mechanisms(self, mechanisms: list[str]) -> None:
        self.engine.sasl_init(plain.NAME, plain.response(self._user, self._password))

    def on_open(self, opening: Open) -> None:
        self.opened.append(opening)

    def on_session(self, session: Session, begin: Begin) -> SessionOwner:
        raise AssertionError("a server begins no sessions")

    def on_closed(self, error: FlintError | None) -> None:
        self.closed.append(error)


class _SessionRecorder(SessionOwner):
    def __init__(self, client: Client) -> None:
        self._client = client

    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        raise AssertionError("a server attaches no links")

    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        raise AssertionError("a server attaches no links")

    def on_ended(self, error: FlintError | None) -> None:
        self._client.ended.append(error)


class Sender(SenderOwner):
    """`said` are the states that the server gave the messages sent, by the numbers they were sent with."""

    def __init__(self, client: Client, session: Session, attach: Attach) -> None:
        self.client = client
        self.attached: list[Attach] = []
        self.detached: list[FlintError | None] = []
        self.said: list[tuple[int, DeliveryState | None, bool]] = []
        self._sent = 0
        self.link = session.attach_sender(self, attach)
        client.tick()

    @property
    def answer(self) -> Attach:
        (attach,) = self.attached
        return attach

    @property
    def refusal(self) -> tuple[str, str]:
        """The condition and the text the link was ended with."""
        (error,) = self.detached
        assert isinstance(error, EndedByPeer)
        return error.condition, error.text

    def send(
        self,
        body: str = "m",
        settled: bool = False,
        durable: bool = True,
        ttl: int | None = None,
        properties: Properties | None = None,
        before: bytes = b"",
        state: DeliveryState | None = None,
    ) -> OutgoingDelivery | None:
        """Send a message in the next tick."""
        head = encode_header(durable, 4, ttl, False, 0) + before
        if properties is not None:
            head += encode_properties(properties)
        return self.send_encoded(head + encode_data(body.encode()), settled, state)

    def send_encoded(
        self, payload: bytes, settled: bool = False, state: DeliveryState | None = None
    ) -> OutgoingDelivery | None:
        self._sent += 1
        if state is None:
            return self.link.send(self._sent, payload, b"", settled, self._sent)
        return self.link.send_tagged(str(self._sent).encode(), [payload], settled, 0, state, self._sent)

    def publish(self, *bodies: str) -> list[DeliveryState | None]:
        """Send durable messages; returns what the server said of them once all is on the disk."""
        before = len(self.said)
        for body in bodies:
            self.send(body)
        self.client.tick()
        self.client.durable()
        return [state for _, state, _ in self.said[before:]]

    def on_attached(self, attach: Attach) -> None:
        self.attached.append(attach)

    def on_flow(self, link: SenderLink) -> None:
        """Credit came."""

    def on_room(self, link: SenderLink) -> None:
        """Messages are sent when a test says so."""

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        number = delivery.mark
        assert isinstance(number, int)
        self.said.append((number, state, settled))

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self.detached.append(error)


class Receiver(ReceiverOwner):
    """`came` is what was received and not looked at yet."""

    def __init__(self, client: Client, session: Session, attach: Attach, credit: int) -> None:
        self.client = client
        self.attached: list[Attach] = []
        self.detached: list[FlintError | None] = []
        self.said: list[tuple[DeliveryState | None, bool]] = []
        self.flows: list[Fields | None] = []
        self.came: list[tuple[IncomingDelivery | None, bytes]] = []
        self.aborted: list[bytes] = []
        self.link = session.attach_receiver(self, attach)
        if credit:
            self.link.grant(credit)
        client.tick()
        # A grant before the answer is not told.
        if credit and not self.detached:
            self.link.grant(credit)
            client.tick()

    @property
    def answer(self) -> Attach:
        (attach,) = self.attached
        return attach

    @property
    def source(self) -> Source:
        source = self.answer.source
        assert source is not None
        return source

    @property
    def refusal(self) -> tuple[str, str]:
        """The condition and the text the link was ended with."""
        (error,) = self.detached
        assert isinstance(error, EndedByPeer)
        return error.condition, error.text

    def take(self) -> list[tuple[IncomingDelivery | None, bytes]]:
        """What came since the last look."""
        came = self.came
        self.came = []
        return came

    def bodies(self) -> list[str]:
        """The single data sections of what came since the last look."""
        return [body_of(payload) for _, payload in self.take()]

    def acquire_in(self, txn_id: bytes | None, credit: int = 10) -> None:
        """Grant credit, for messages that are acquired in a transaction from now on; None: in none."""
        self.link.grant(credit)
        flow = self.link.flow()
        flow.properties = {"txn-id": txn_id}
        self.link.session.send_flow(flow)
        self.client.tick()

    def settle(self, delivery: IncomingDelivery | None, state: DeliveryState | None) -> None:
        assert delivery is not None
        self.link.settle(delivery, state)
        self.client.tick()

    def on_attached(self, attach: Attach) -> None:
        self.attached.append(attach)

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        self.came.append((delivery, payload))

    def on_aborted(self, link: ReceiverLink, delivery: IncomingDelivery) -> None:
        self.aborted.append(delivery.tag)

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        self.said.append((state, settled))

    def on_flow(self, link: ReceiverLink) -> None:
        self.flows.append(link.flow_properties)

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self.detached.append(error)


def body_of(payload: bytes) -> str:

    return b"".join(decode_data(payload, scan(payload))).decode()


class Control:
    """A link to the coordinator."""

    def __init__(self, client: Client, name: str = "control") -> None:
        self.client = client
        self.sender = client.sender(target=Coordinator(), attach=Attach(name=name))

    def tell(self, command: Composite) -> DeliveryState | None:
        self.sender.send_encoded(encode_amqp_value(command))
        self.client.durable()
        return self.sender.said[-1][1]

    def declare(self) -> bytes:
        state = self.tell(Declare())
        assert isinstance(state, Declared)
        return state.txn_id

    def discharge(self, txn_id: bytes, fail: bool) -> DeliveryState | None:
        return self.tell(Discharge(txn_id=txn_id, fail=fail))

    def commit(self, txn_id: bytes) -> DeliveryState | None:
        return self.discharge(txn_id, False)

    def roll_back(self, txn_id: bytes) -> DeliveryState | None:
        return self.discharge(txn_id, True)
