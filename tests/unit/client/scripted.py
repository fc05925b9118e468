"""A client's session with a server that says what a test tells it to."""

from flintmq.client.channel import ClientChannel
from flintmq.client.session import Session
from flintmq.protocol.amqp091.channel import Channel
from flintmq.protocol.amqp091.connection import Login, Tuning
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import BasicDeliver, Method
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.protocol.amqp091.pair import Recorder, Side

NO_PROPERTIES = encode_properties(Properties())


class Scripted:
    """`session` and its server, with bytes carried between them `step` at a time (0: all at once)."""

    def __init__(self, password: str = "secret", tuning: Tuning | None = None, step: int = 0) -> None:
        login = Login(
            plain.NAME,
            plain.response("user", password),
            properties={"capabilities": {"authentication_failure_close": True}},
        )
        self.session = Session(login, tuning or Tuning())
        self.server = Side(Role.SERVER, Tuning())
        self.now = 0.0
        self._step = step

    def pump(self) -> None:
        """Carry bytes both ways until neither side has any."""
        while True:
            up, down = b"".join(self.session.take_output()), self.server.sent()
            if not up and not down:
                return
            if up:
                self.server.engine.receive(up, self.now)
            step = self._step or len(down) or 1
            for start in range(0, len(down), step):
                self.session.receive(down[start : start + step], self.now)

    def open(self) -> "Scripted":
        self.pump()
        assert self.session.opened.is_ready
        self.session.check()
        return self

    def channel(self) -> tuple[ClientChannel, Recorder]:
        """An open channel, and what its server's side was told."""
        channel, opened = self.session.open_channel()
        self.pump()
        opened.result()
        return channel, self.server.channels[-1]

    def say(self, recorder: Recorder, *methods: Method) -> None:
        """Let the server send these on a channel."""
        for method in methods:
            wire(recorder).send(method)
        self.pump()

    def deliver(self, recorder: Recorder, consumer_tag: str, tag: int, body: bytes = b"") -> None:
        method = BasicDeliver(consumer_tag=consumer_tag, delivery_tag=tag, exchange="x", routing_key=f"k{tag}")
        wire(recorder).send_content(encode_method(method), NO_PROPERTIES, body)
        self.pump()


def wire(recorder: Recorder) -> Channel:
    """The server's end of a channel."""
    assert recorder.channel is not None
    return recorder.channel
