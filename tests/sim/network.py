"""A connection between a simulated client and the production server: bytes arrive late, in pieces, or not at all."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, final
from zlib import crc32

from flintmq.server.acceptor import StreamProtocol
from tests.sim.loop import VirtualLoop

# What the kernels on the way take before a writer's own buffer fills.
_KERNEL_BYTES: Final = 64 * 1024


@final
class Link(asyncio.Transport):
    """The server's transport, and the client's end of it. `received` and `lost` are the client's."""

    def __init__(
        self,
        loop: VirtualLoop,
        chance: random.Random,
        protocol: StreamProtocol,
        received: Callable[[bytes], None],
        lost: Callable[[], None],
        port: int,
        latency: float,
    ) -> None:
        super().__init__()
        self.latency = latency
        # While it is set the client reads nothing.
        self.is_stalled = False
        # A checksum of all that went over it, and when, for whoever compares runs.
        self.traffic = 0
        self._loop = loop
        self._random = chance
        self._protocol = protocol
        self._received = received
        self._lost = lost
        self._port = port
        self._up = bytearray()
        self._down = bytearray()
        self._is_up_due = False
        self._is_down_due = False
        self._is_reading = True
        self._is_full = False
        self._is_closing = False
        self._client_is_there = True
        self._server_is_there = True
        self._high = _KERNEL_BYTES
        self._low = 0
        self._sent = 0
        self._arrived = 0
        # What to call when the server has read up to a place.
        self._marks: deque[tuple[int, Callable[[], None]]] = deque()
        protocol.connection_made(self)

    # -- from the client ----------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        if self._server_is_there and data:
            self._up += data
            self._sent += len(data)
            self._carry_up_soon(self.latency)

    def when_arrived(self, tell: Callable[[], None]) -> None:
        """`tell` is called when the server has read, and done, all that was sent until now."""
        self._marks.append((self._sent, tell))

    def _carry_up_soon(self, delay: float) -> None:
        if not self._is_up_due:
            self._is_up_due = True
            self._loop.call_later(self._random.random() * delay, self._carry_up)

    def _carry_up(self) -> None:
        self._is_up_due = False
        if not self._server_is_there or not self._is_reading or not self._up:
            return
        data = self._piece(self._up)
        self._arrived += len(data)
        self.traffic = crc32(data, crc32(b"%.9f" % self._loop.time(), self.traffic))
        self._protocol.data_received(data)
        if self._marks and self._marks[0][0] <= self._arrived:
            # Behind the tick that this was taken in for.
            self._loop.call_soon(self._tell, self._arrived)
        if self._up:
            self._carry_up_soon(self.latency)

    def _tell(self, arrived: int) -> None:
        marks = self._marks
        while marks and marks[0][0] <= arrived:
            marks.popleft()[1]()

    def _piece(self, waiting: bytearray) -> bytes:
        size = len(waiting)
        if self._random.random() < 0.2:
            size = self._random.randrange(size) + 1
        data = bytes(waiting[:size])
        del waiting[:size]
        return data

    def cut(self) -> None:
        """The connection breaks. Neither side hears of it at once, nor gets what is under way."""
        self._up.clear()
        self._down.clear()
        self._client_gone(self._random.random() * self.latency)
        self._server_gone(self._random.random() * self.latency, ConnectionResetError(104, "Connection reset by peer"))

    def drop(self) -> None:
        """The server is gone: its power has failed."""
        self._server_is_there = False
        self._client_is_there = False

    def _client_gone(self, delay: float) -> None:
        if self._client_is_there:
            self._client_is_there = False
            self._loop.call_later(delay, self._lost)

    def _server_gone(self, delay: float, error: Exception | None) -> None:
        if self._server_is_there:
            self._server_is_there = False
            self._is_closing = True
            self._loop.call_later(delay, self._protocol.connection_lost, error)

    def hang_up(self) -> None:
        """The client has closed the socket, after what it sent."""
        self._client_is_there = False
        self._down.clear()
        self._loop.call_later(self.latency, self._server_gone, 0.0, None)

    # -- from the server ----------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._client_is_there and not self._is_closing:
            self._down += data
            self._carry_down_soon(self.latency)
            if not self._is_full and self.get_write_buffer_size() > self._high:
                self._is_full = True
                self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def _carry_down_soon(self, delay: float) -> None:
        if not self._is_down_due:
            self._is_down_due = True
            self._loop.call_later(self._random.random() * delay, self._carry_down)

    def _carry_down(self) -> None:
        self._is_down_due = False
        if self.is_stalled or not self._client_is_there:
            return
        if self._down:
            data = self._piece(self._down)
            self.traffic = crc32(data, crc32(b"%.9f" % self._loop.time(), self.traffic))
            self._received(data)
        if self._is_full and self.get_write_buffer_size() <= self._low and self._server_is_there:
            self._is_full = False
            self._protocol.resume_writing()
        if self._down:
            self._carry_down_soon(self.latency)
        elif self._is_closing:
            self._client_gone(0.0)

    def let_go(self) -> None:
        """The client reads again."""
        self.is_stalled = False
        self._carry_down_soon(self.latency)

    def get_write_buffer_size(self) -> int:
        return max(len(self._down) - _KERNEL_BYTES, 0)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0
        self._low = low or 0

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._carry_up_soon(self.latency)

    def is_closing(self) -> bool:
        return self._is_closing

    def can_write_eof(self) -> bool:
        # Nothing that was sent is lost here when a side closes with something unread.
        return False

    def close(self) -> None:
        """What was written before still goes out."""
        if not self._is_closing:
            self._is_closing = True
            self._server_gone(0.0, None)
            self._carry_down_soon(self.latency)

    def abort(self) -> None:
        self._is_closing = True
        self._down.clear()
        self._client_gone(0.0)
        self._server_gone(0.0, None)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", self._port) if name == "peername" else default
