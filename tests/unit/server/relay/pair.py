"""Two ends of a link in one event loop without sockets, and what is at either end of a channel."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from flintmq.base.errors import ConnectionLost
from flintmq.server.relay.client import Client, Clients, Fetched
from flintmq.server.relay.link import Channel, Link
from flintmq.server.relay.transport import Receiver, RelayedTransport
from tests.sim.loop import VirtualLoop

PEERNAME = ("192.0.2.7", 4711)


class Pipe(asyncio.Transport):
    """One end of a stream: what is written arrives at the other end in a later turn."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self.protocol: Any = None
        self.other: Pipe | None = None
        self.is_over = False
        self.is_read = True
        self._arrived: list[bytes] = []

    def write(self, data: Any) -> None:  # noqa: ANN401 - bytes of some kind
        assert self.other is not None
        self._loop.call_soon(self.other.arrive, bytes(data))

    def writelines(self, list_of_data: Any) -> None:  # noqa: ANN401
        self.write(b"".join(list_of_data))

    def arrive(self, data: bytes) -> None:
        if self.is_over:
            return
        if self.is_read:
            self.protocol.data_received(data)
        else:
            self._arrived.append(data)

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True
        arrived = self._arrived
        self._arrived = []
        for data in arrived:
            self._loop.call_soon(self.arrive, data)

    def is_closing(self) -> bool:
        return self.is_over

    def abort(self) -> None:
        for end in (self, self.other):
            if end is not None and not end.is_over:
                end.is_over = True
                self._loop.call_soon(end.protocol.connection_lost, None)

    def close(self) -> None:
        self.abort()


class Socket(asyncio.Transport):
    """The transport of a client's socket. `takes` is how many bytes the kernel still takes of what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.client: Client | None = None
        self.written = bytearray()
        self.takes = 1 << 40
        self.unsent = 0
        self.is_read = True
        self.is_ended = self.is_closed = self.is_aborted = False

    def write(self, data: Any) -> None:  # noqa: ANN401
        self.written += data
        self.unsent += len(data)
        self._send()

    def writelines(self, list_of_data: Any) -> None:  # noqa: ANN401
        self.write(b"".join(list_of_data))

    def let_read(self, size: int) -> None:
        """The client reads so many bytes."""
        assert self.client is not None
        was_full = self.unsent > 0
        self.takes += size
        self._send()
        if was_full and self.unsent == 0:
            self.client.resume_writing()

    def _send(self) -> None:
        assert self.client is not None
        sent = min(self.unsent, self.takes)
        self.unsent -= sent
        self.takes -= sent
        if self.unsent:
            self.client.pause_writing()

    def say(self, data: bytes) -> int:
        """The client sends this. Returns how many bytes are read at once."""
        assert self.client is not None
        at = 0
        while at < len(data) and self.is_read:
            view = self.client.get_buffer(-1)
            size = min(len(view), len(data) - at)
            view[:size] = data[at : at + size]
            self.client.buffer_updated(size)
            at += size
        return at

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        return PEERNAME if name == "peername" else ("127.0.0.1", 5672)

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def write_eof(self) -> None:
        self.is_ended = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True


class Server(Receiver):
    """The protocol of a relayed socket. `share` is the most that it takes at a time."""

    def __init__(self) -> None:
        self.transport: RelayedTransport | None = None
        self.share = 1 << 20
        self.received = bytearray()
        self.pieces: list[int] = []
        self.is_lost = False
        self.is_broken = False
        self.reason: Exception | None = None
        self.is_full = False
        self.certificate = b""
        self.refusal = ""
        # The offsets and numbers of messages of fetches that the other end has answered.
        self.answers: list[tuple[int, int]] = []
        # Pause after so many bytes.
        self.pause_at = 1 << 40

    def read_max(self) -> int:
        return self.share

    def data_received(self, data: bytes) -> None:
        assert not self.is_lost
        if self.is_broken:
            raise ValueError("a fault of ours")
        self.received += data
        self.pieces.append(len(data))
        if len(self.received) >= self.pause_at:
            self.end.pause_reading()

    @property
    def end(self) -> RelayedTransport:
        assert self.transport is not None
        return self.transport

    def connection_lost(self, exc: Exception | None) -> None:
        assert not self.is_lost
        self.is_lost = True
        self.reason = exc
        if self.is_broken:
            raise ValueError("a fault of ours")

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False

    def secured(self, certificate: bytes) -> None:
        self.certificate = certificate

    def refused(self, error: ConnectionLost) -> None:
        self.refusal = str(error)

    def fetched(self, following: int, count: int) -> None:
        self.answers.append((following, count))


class Pair:
    """A worker's end and the broker's end of a link, and the sockets that were accepted."""

    def __init__(self) -> None:
        self.loop = VirtualLoop(0.0)
        self.servers: list[Server] = []
        self.notes: list[bytes] = []
        self.lost: list[str] = []
        self.accepted_in_turn: list[float] = []
        self.refuses = False
        ends = [Pipe(self.loop), Pipe(self.loop)]
        links = [self._link(), self._link()]
        for end, other, link in zip(ends, reversed(ends), links, strict=True):
            end.other = other
            end.protocol = link
            link.connection_made(end)
        self.worker, self.broker = links
        self.pipes = ends
        # What the worker's end answers to fetches, by what it is asked.
        self.fetches: dict[bytes, Fetched] = {}
        self.fetch_seconds = 0.0
        self.clients = Clients(cast(asyncio.AbstractEventLoop, self.loop), self.worker, lambda: None, self._fetch)

    def _fetch(self, asked: bytes, answer: Callable[[Fetched], None]) -> None:
        self.loop.call_later(self.fetch_seconds, answer, self.fetches[asked])

    def _link(self) -> Link:
        link = Link(
            self.loop,
            lambda: self.loop.call_soon(link.flush),
            self._accept,
            lambda _, payload: self.notes.append(payload),
            lambda _, reason: self.lost.append(reason),
        )
        return link

    def _accept(self, link: Link, number: int, _payload: bytes) -> Channel | None:
        if self.refuses:
            return None
        server = Server()
        server.transport = RelayedTransport(link, number, server, PEERNAME, ("127.0.0.1", 5672))
        self.servers.append(server)
        return server.transport

    def connect(self) -> Socket:
        socket = Socket()
        socket.client = self.clients.of("amqp")()
        socket.client.connection_made(socket)
        return socket

    def connected(self) -> tuple[Socket, Server]:
        """A client that has logged in."""
        socket = self.connect()
        self.run()
        server = self.servers[-1]
        server.end.widen()
        self.run()
        return socket, server

    def run(self, seconds: float = 0.0) -> None:
        self.loop.run(self.loop.time() + seconds)
