"""A client's engine against the server's gateway, over a storage that is as durable as the test says."""

from collections.abc import Callable

from flintmq.base.errors import AmqpError, FlintError
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.broker import Broker
from flintmq.broker.dialect import RABBITMQ, Dialect
from flintmq.broker.message import Table
from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.amqp091.service import ServerProperties, Service
from flintmq.gateway.audit import AuditEvent
from flintmq.gateway.gateway import Gateway, Host
from flintmq.protocol.amqp091.channel import Channel
from flintmq.protocol.amqp091.connection import Login, Tuning
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import plain
from flintmq.protocol.sasl.scram import Keys, derive_keys
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import BasicDeliver, BasicPublish, Method
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.broker.memory import MemoryStorage
from tests.unit.protocol.amqp091.pair import Recorder, Side

PERSISTENT = encode_properties(Properties(delivery_mode=2))
TRANSIENT = encode_properties(Properties())
NOTIFIED: Table = {"capabilities": {"consumer_cancel_notify": True, "authentication_failure_close": True}}


class OpenHost(Host):
    """Lets in whoever has the password "secret", or one of `passwords`, and remembers which channels failed."""

    def __init__(self) -> None:
        self.failed: list[tuple[int, AmqpError]] = []
        self.refused: list[str] = []
        self.errors: list[Exception] = []
        self.events: list[AuditEvent] = []
        # User, virtual host, queue and reason of messages that could not be sent.
        self.unsent: list[tuple[str, str, str, str]] = []
        self.users = {"u"}
        # By users, where one has another.
        self.passwords: dict[str, str] = {}
        # By their tokens.
        self.bearers: dict[str, Bearer] = {}
        self.barred = ""

    def authenticate(
        self, peer: str, user: str, password: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        answer("" if password == self.passwords.get(user, "secret") else "wrong password")

    def check_token(
        self, peer: str, token: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None:
        bearer = self.bearers.get(token)
        answer("" if bearer else "the token is not valid", bearer)

    def check_proof(
        self,
        peer: str,
        user: str,
        proof: Callable[[], str],
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None:
        why = proof() or self.barred or self.refusal(peer, user)
        if why:
            self.refused.append(why)
        answer(why)

    def refusal(self, peer: str, user: str) -> str:
        return "" if user in self.users else f"there is no user '{user}'"

    def scram_keys(self, user: str, mechanism: str) -> Keys:
        return derive_keys(mechanism, "secret" if user in self.users else "unknown", b"0123456789abcdef")

    def login_refused(self, peer: str, user: str, why: str) -> None:
        self.refused.append(why)

    def internal_error(self, error: Exception) -> None:
        self.errors.append(error)

    def channel_failed(self, peer: str, user: str, channel: int, error: AmqpError) -> None:
        self.failed.append((channel, error))

    def unsendable(self, user: str, vhost: str, queue: str, why: str) -> None:
        self.unsent.append((user, vhost, queue, why))

    def audit(self, event: AuditEvent) -> None:
        self.events.append(event)


class Server:
    """A broker without I/O. Names it makes up are counted: amq.gen-AAAA..., one byte up each time."""

    def __init__(self, dialect: Dialect = RABBITMQ, consumers_max: int = 0) -> None:
        self.storage = MemoryStorage()
        self.broker = Broker(self.storage)
        self.vhost = self.broker.add_vhost("/", dialect)
        self.user = self.broker.put_user(UserRecord("u", ""))
        self.allow()
        self.host = OpenHost()
        self._made = 0
        properties = ServerProperties({"product": "test"}, Tuning(), consumers_max)
        self.gateway = Gateway(self.broker, self.host, self._random)
        self.service = Service(self.gateway, properties)

    def allow(self, configure: str = ".*", write: str = ".*", read: str = ".*", vhost: str = "/") -> None:
        """Say what the user may do; everything, if nothing is said."""
        self.broker.put_rule(PermissionRecord(vhost, "u", configure, write, read))

    def _random(self, count: int) -> bytes:
        self._made += 1
        return self._made.to_bytes(count, "big")


class Client:
    """A connection to a Server. `tick` carries bytes both ways and lets the server end its tick."""

    def __init__(
        self,
        server: Server,
        password: str = "secret",
        vhost: str = "/",
        tuning: Tuning | None = None,
        properties: Table = NOTIFIED,
        user: str = "u",
    ) -> None:
        self.server = server
        login = Login("PLAIN", plain.response(user, password), vhost, properties)
        self.side = Side(Role.CLIENT, tuning or Tuning(), login)
        self.output = Output(Outbox())
        self.connection = ServerConnection(server.service, self.output, "test:1")
        self.tick()

    def tick(self) -> None:
        while True:
            up = self.side.sent()
            self.connection.engine.refresh()
            if up or self.connection.engine.is_paused:
                self.connection.engine.receive(up, 0.0)
            while self.server.gateway.end_tick():
                pass
            down = b"".join(self.output.take())
            self.output.backlog_is(0)
            if down:
                self.side.engine.receive(down, 0.0)
            if not up and not down and not self.connection.engine.is_paused:
                return

    def durable(self) -> None:
        """All the server handed to its storage is on the disk now."""
        self.server.storage.sync()
        self.server.gateway.on_durable()
        self.tick()

    def channel(self) -> "ClientChannel":
        recorder = Recorder()
        channel = self.side.engine.open_channel(recorder)
        self.tick()
        recorder.methods.clear()
        return ClientChannel(self, recorder, channel)

    @property
    def closed(self) -> FlintError | None:
        (reason,) = self.side.closed
        return reason


class ClientChannel:
    def __init__(self, client: Client, recorder: Recorder, channel: Channel) -> None:
        self._client = client
        self._recorder = recorder
        self.channel = channel

    def send(self, *methods: Method) -> None:
        for method in methods:
            self.channel.send(method)

    def call(self, *methods: Method) -> list[Method]:
        """Send, let everything happen, disk included; returns the methods that came back."""
        self.send(*methods)
        self._client.tick()
        self._client.durable()
        return self.came()

    def came(self) -> list[Method]:
        """Methods that came since the last look."""
        methods = self._recorder.methods[:]
        self._recorder.methods.clear()
        return methods

    def publish(
        self, body: str, key: str = "q", exchange: str = "", properties: bytes = PERSISTENT, mandatory: bool = False
    ) -> None:
        method = BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
        self.channel.send_content(encode_method(method), properties, body.encode())

    @property
    def acks(self) -> list[tuple[int, bool]]:
        return self._recorder.acks

    @property
    def contents(self) -> list[tuple[Method, bytes, str]]:
        """What came with content: method, properties, body."""
        return [
            (decode_method(method), props, body.decode(errors="replace"))
            for method, props, body in self._recorder.contents
        ]

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of what came with content."""
        return [body for _, _, body in self._recorder.contents]

    def deliveries(self) -> list[tuple[int, str, bool]]:
        """Delivery tag, body and redelivered of what came since the last look."""
        found = []
        for method, _, body in self.contents:
            assert isinstance(method, BasicDeliver)
            found.append((method.delivery_tag, body, method.redelivered))
        self._recorder.contents.clear()
        return found

    @property
    def closed(self) -> FlintError | None:
        (reason,) = self._recorder.closed
        return reason
