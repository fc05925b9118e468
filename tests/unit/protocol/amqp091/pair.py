"""Two engines, one in each role, and everything they tell their owners."""

from mypy_extensions import i64

from flintmq.base.errors import AmqpError, AuthenticationFailed, FlintError
from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.connection import Connection, ConnectionOwner, Login, Tuning
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp091.methods import Method
from flintmq.wire.amqp091.tables import Table


class Recorder(ChannelOwner):
    """Remembers what came on a channel; raises `fault` at the next method or content, once."""

    def __init__(self, channel: Channel | None = None) -> None:
        self.channel = channel
        self.methods: list[Method] = []
        self.contents: list[tuple[bytes, bytes, bytes]] = []
        self.acks: list[tuple[int, bool]] = []
        self.closed: list[FlintError | None] = []
        self.fault: AmqpError | None = None

    def _maybe_fail(self) -> None:
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault

    def on_method(self, method: Method) -> None:
        self._maybe_fail()
        self.methods.append(method)

    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        self._maybe_fail()
        self.contents.append((method, properties, body))

    def on_ack(self, delivery_tag: i64, multiple: bool) -> None:
        self.acks.append((delivery_tag, multiple))

    def on_closed(self, error: FlintError | None) -> None:
        self.closed.append(error)


class Side(ConnectionOwner):
    """One end: its engine, its output, and what it was told."""

    def __init__(self, role: Role, tuning: Tuning, login: Login | None = None) -> None:
        self.output = Output(Outbox())
        self.logins: list[tuple[str, bytes]] = []
        self.opened: list[str] = []
        self.blocked: list[str | None] = []
        self.closed: list[FlintError | None] = []
        self.channels: list[Recorder] = []
        self.renewed = 0
        self.password = "secret"
        self.engine = Connection(role, self, self.output, tuning, {"product": "test"}, login=login)

    def on_login(self, mechanism: str, response: bytes, client_properties: Table) -> None:
        self.logins.append((mechanism, response))
        if plain.credentials(response)[1] == self.password:
            self.engine.accept_login()
        else:
            self.engine.refuse_login(AuthenticationFailed("Login was refused"))

    def on_open(self, virtual_host: str) -> None:
        self.opened.append(virtual_host)
        self.engine.accept_open()

    def on_secret_accepted(self) -> None:
        self.renewed += 1

    def on_channel(self, channel: Channel) -> ChannelOwner:
        recorder = Recorder(channel)
        self.channels.append(recorder)
        return recorder

    def on_blocked(self, reason: str | None) -> None:
        self.blocked.append(reason)

    def on_closed(self, error: FlintError | None) -> None:
        self.closed.append(error)

    def sent(self) -> bytes:
        return b"".join(self.output.take())


class ConnectionPair:
    """A client and a server whose bytes go to each other, `step` bytes at a time (0: all at once)."""

    def __init__(
        self,
        server: Tuning | None = None,
        client: Tuning | None = None,
        password: str = "secret",
        properties: Table | None = None,
        step: int = 0,
    ) -> None:
        login = Login("PLAIN", plain.response("user", password), "/", properties or {})
        self.server = Side(Role.SERVER, server or Tuning())
        self.client = Side(Role.CLIENT, client or Tuning(), login)
        self.now = 0.0
        self._step = step

    def pump(self) -> None:
        """Carry bytes both ways until neither side has any."""
        while True:
            up, down = self.client.sent(), self.server.sent()
            if not up and not down:
                return
            self._carry(up, self.server.engine)
            self._carry(down, self.client.engine)

    def _carry(self, data: bytes, to: Connection) -> None:
        step = self._step or len(data) or 1
        for start in range(0, len(data), step):
            to.receive(data[start : start + step], self.now)

    def open(self) -> "ConnectionPair":
        self.pump()
        assert self.client.opened
        return self

    def channel(self) -> tuple[Recorder, Recorder]:
        """A channel opened by the client: its two owners, client's first."""
        recorder = Recorder()
        recorder.channel = self.client.engine.open_channel(recorder)
        self.pump()
        return recorder, self.server.channels[-1]
