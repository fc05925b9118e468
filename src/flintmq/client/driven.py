"""The part of a connection that a driver (`LoopDriver`, `SocketDriver`) needs: bytes, timers and its end."""

from typing import Final, Protocol

from flintmq.base.errors import FlintError
from flintmq.client.waitable import Waitable
from flintmq.protocol.output import Output

# A batch is written and sent in pieces of this many bytes, so that reading and other tasks are not kept waiting.
PIECE_BYTES: Final = 256 * 1024


class Timers(Protocol):
    """The heartbeats of a protocol engine. Times are seconds of one clock that never goes back."""

    def next_timer(self) -> float | None: ...

    def handle_timer(self, now: float) -> None: ...

    def sent(self, now: float) -> None: ...


class Driven(Protocol):
    """A connection without its socket. `opened` becomes ready when it can be used, `ended` when it is over."""

    @property
    def opened(self) -> Waitable: ...

    @property
    def ended(self) -> Waitable: ...

    @property
    def engine(self) -> Timers: ...

    @property
    def output(self) -> Output: ...

    def check(self) -> None: ...

    def receive(self, data: bytes, now: float) -> None: ...

    def lost(self, error: FlintError | None) -> None: ...

    def has_output(self) -> bool: ...

    def take_output(self) -> list[bytes | memoryview]: ...

    def notice_end(self) -> None: ...
