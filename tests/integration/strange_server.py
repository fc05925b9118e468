"""A server in a thread that does what no broker should: to see what becomes of its clients."""

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from flintmq.protocol.amqp091.channel import Channel, ChannelOwner
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.protocol.role import Role
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
)
from tests.unit.protocol.amqp091.pair import Recorder, Side

# Nothing here takes long, unless a test fails.
_SECONDS: Final = 60.0
_EMPTY_ANSWERS: Final[dict[type[Method], Method]] = {ConfirmSelect: ConfirmSelectOk(), BasicQos: BasicQosOk()}


class Obliging(Recorder):
    """Says yes to everything a client asks for."""

    def on_method(self, method: Method) -> None:
        super().on_method(method)
        assert self.channel is not None
        answer = _EMPTY_ANSWERS.get(type(method))
        if isinstance(method, BasicConsume):
            answer = BasicConsumeOk(consumer_tag=method.consumer_tag)
        if answer is not None:
            self.channel.send(answer)


class _Server(Side):
    def on_channel(self, channel: Channel) -> ChannelOwner:
        owner = Obliging(channel)
        self.channels.append(owner)
        return owner


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.side = _Server(Role.SERVER, Tuning())
        self.side.password = "guest"

    def serve(self, until: Callable[[], bool] = lambda: False) -> None:
        """Do as a broker does until then, or until the client hangs up."""
        while not until():
            self.send()
            data = self.socket.recv(65_536)
            if not data:
                return
            self.side.engine.receive(data, 0.0)
        self.send()

    def channel(self, number: int = 0) -> Recorder:
        """What came on a channel, once the client has opened it: the first, the second..."""
        self.serve(lambda: len(self.side.channels) > number)
        return self.side.channels[number]

    def consumer(self, first: bytes | None = None) -> tuple[Recorder, str]:
        """The first channel and its consumer tag, once the client has subscribed.

        The answer to that and a delivery with the body `first` are sent in one piece.
        """
        channel = self.channel()
        tags: list[str] = []

        def is_subscribed() -> bool:
            tags[:] = [method.consumer_tag for method in channel.methods if isinstance(method, BasicConsume)]
            if tags and first is not None:
                deliver(channel, tags[0], 1, first)
            return bool(tags)

        self.serve(is_subscribed)
        return channel, tags[0]

    def publisher(self, number: int = 0) -> Recorder:
        """A channel, once the client has published on it."""
        channel = self.channel(number)
        self.serve(lambda: bool(channel.contents))
        return channel

    def send(self) -> None:
        self.socket.sendall(self.side.sent())


def wire(recorder: Recorder) -> Channel:
    """The server's end of a channel."""
    assert recorder.channel is not None
    return recorder.channel


def deliver(recorder: Recorder, consumer_tag: str, tag: int, body: bytes) -> None:
    method = BasicDeliver(consumer_tag=consumer_tag, delivery_tag=tag)
    wire(recorder).send_content(encode_method(method), b"\0\0", body)


class StrangeServer:
    """Accepts one connection and does `behaviour` with it. A failure there is raised when the server is left."""

    def __init__(self, behaviour: Callable[[Peer], None]) -> None:
        self._behaviour = behaviour
        self._failure: BaseException | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_SECONDS)
        self.url = f"amqp://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join(_SECONDS)
        self._listener.close()
        if kind is None and self._failure is not None:
            raise self._failure
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            sock, _ = self._listener.accept()
            with sock:
                sock.settimeout(_SECONDS)
                self._behaviour(Peer(sock))
        except (ConnectionError, BrokenPipeError):
            # The client hung up, which is its right.
            pass
        except BaseException as failure:  # noqa: BLE001 - told to the test, in its own thread
            self._failure = failure
