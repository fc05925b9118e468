"""The transport of a socket that another process owns: the end of a channel at the broker's event loop.

It has the methods of `asyncio.Transport` that a peer uses, and not the class: a compiled class has no interpreted base.
"""

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import ConnectionLost
from flintmq.base.limits import (
    LINK_FIRST_BYTES,
    LINK_NARROW_BYTES,
    LINK_REPORT_BYTES,
    LINK_SHARED_BYTES,
    LINK_WIDE_BYTES,
)
from flintmq.server.relay.frames import CLOSE, END, FETCH, FETCHED, OVER, REFUSED, SECURED
from flintmq.server.relay.link import Channel, Link

# What waits is not sent in smaller pieces than this.
_PIECE_BYTES: Final = 16 * 1024
# Kept input is joined to pieces of this size: an object for each two bytes of a client would take 25 times its window.
_JOINED_BYTES: Final = 4 * 1024
# The other end reports what the kernel has taken from LINK_REPORT_BYTES on. So much may be unreported, and as much on
# its way.
_UNREPORTED_BYTES: Final = 2 * LINK_REPORT_BYTES


@mypyc_attr(allow_interpreted_subclasses=True)
class Receiver:
    """The protocol of a relayed socket: the methods of `asyncio.Protocol`, and what else the other end tells."""

    def read_max(self) -> i64:
        """Return the most bytes that one call of `data_received` may have."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        raise NotImplementedError

    def pause_writing(self) -> None:
        raise NotImplementedError

    def resume_writing(self) -> None:
        raise NotImplementedError

    def secured(self, certificate: bytes) -> None:
        """The client speaks TLS, and has presented this certificate: JSON, of which `null` means none."""
        raise NotImplementedError

    def refused(self, error: ConnectionLost) -> None:
        """The client has violated TLS. Nothing more comes from it."""
        raise NotImplementedError

    def fetched(self, following: i64, count: i64) -> None:
        """The other end has answered a fetch with `count` messages before the offset `following`, or could not: 0."""
        raise NotImplementedError


@final
class RelayedTransport(Channel):
    """The transport of `receiver`. `peername` and `sockname` are the addresses of the client and of the listener."""

    def __init__(self, link: Link, number: i64, receiver: Receiver, peername: object, sockname: object) -> None:
        super().__init__(link)
        self._receiver = receiver
        self._peername = peername
        self._sockname = sockname
        self._is_closing = False
        self._is_over = False
        # Input: what came while reading was paused, from a place in the first piece on; the window, and the bytes that
        # were handled and not returned as credit.
        self._is_paused = False
        self._kept: deque[bytes] = deque()
        self._kept_at: i64 = 0
        self._window: i64 = LINK_FIRST_BYTES
        self._unreturned: i64 = 0
        self._is_later = False
        # The reason of an OVER that came behind input that was kept.
        self._end: ConnectionLost | None = None
        self._is_at_end = False
        # Output: what the other end has not reported as sent, and what waits for room, from a place in the first piece.
        self._outstanding: i64 = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_at: i64 = 0
        self._waiting_bytes: i64 = 0
        self._last_kind: i64 = 0
        self._is_full = False
        self._high: i64 = 65_536
        self._low: i64 = 16_384
        link.add(self, number)

    # -- asyncio.Transport --------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "peername":
            return self._peername
        if name == "sockname":
            return self._sockname
        return default

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65_536 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes()

    def _unsent_bytes(self) -> i64:
        """Return the bytes that the kernel at the other end has not taken, as far as that is known here."""
        if self._last_kind != 0:
            # Nothing more is sent, so everything that is not reported is what the client has to read.
            return self._waiting_bytes + self._outstanding
        unreported: i64 = self._outstanding - _UNREPORTED_BYTES
        return self._waiting_bytes + max(unreported, 0)

    def write(self, data: bytes) -> None:
        if self._is_closing or self._last_kind != 0:
            return
        if self._is_at_end:
            # The client is gone: what it has sent and was not read is lost, as with any socket.
            self._later_lost()
            return
        size: i64 = len(data)
        link = self.link
        if self._waiting_bytes == 0 and self._outstanding + size <= link.window():
            self._outstanding += size
            link.outstanding += size
            link.send_data(self.number, data)
        elif size > 0:
            self._waiting.append(data)
            self._waiting_bytes += size
            self._push()
        self._look_whether_full()

    def _look_whether_full(self) -> None:
        if not self._is_full and self._unsent_bytes() > self._high:
            self._is_full = True
            self._receiver.pause_writing()

    def writelines(self, list_of_data: list[bytes]) -> None:
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._finish(END)

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self._is_at_end:
            self._later_lost()
            return
        self._last_kind = 0
        self._finish(CLOSE)

    def abort(self) -> None:
        if self._is_over:
            return
        if not self._is_at_end:
            self.link.send(OVER, self.number, b"")
            self.link.forget(self.number)
        self._later_lost()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._kept or self._is_at_end:
            self._go_on_later()
        else:
            self._return_credit(0)

    def widen(self) -> None:
        """Let the client send more than it might before its login, and without waiting for an answer each time."""
        self._grow(LINK_NARROW_BYTES)

    # -- output -------------------------------------------------------------------------------------------------

    def _finish(self, kind: i64) -> None:
        """Send END or CLOSE behind everything else."""
        if self._last_kind != 0 or self._is_over:
            return
        self._last_kind = kind
        if self._waiting_bytes == 0:
            self.link.send(kind, self.number, b"")

    def _push(self) -> None:
        """Send what waits, as far as the window allows."""
        link = self.link
        while self._waiting_bytes > 0:
            first = self._waiting[0]
            at = self._waiting_at
            left: i64 = len(first) - at
            room: i64 = link.window() - self._outstanding
            if room < left and room < _PIECE_BYTES:
                return
            size: i64 = min(left, room)
            link.send_data(self.number, first if size == len(first) else first[at : at + size])
            self._outstanding += size
            link.outstanding += size
            self._waiting_bytes -= size
            if size < left:
                self._waiting_at = at + size
            else:
                self._waiting.popleft()
                self._waiting_at = 0
        if self._last_kind != 0:
            link.send(self._last_kind, self.number, b"")

    def on_credit(self, size: i64) -> None:
        size = min(size, self._outstanding)
        self._outstanding -= size
        self.link.outstanding -= size
        if self._waiting_bytes > 0:
            self._push()
        if self._is_full and self._unsent_bytes() <= self._low:
            self._is_full = False
            self._receiver.resume_writing()

    def fetch(self, asked: bytes, size: i64) -> bool:
        """Have the other end answer a fetch of the client behind everything that was written, and call `fetched`.

        The answer counts as `size` bytes. Returns False if the other end cannot, or should not now.
        """
        link = self.link
        can = link.answers_fetches
        if can is None or self._is_closing or self._last_kind != 0 or self._is_at_end:
            return False
        if self._waiting_bytes > 0 or self._outstanding > link.window() or not can():
            return False
        if link.outstanding + size > LINK_SHARED_BYTES:
            # Others of its clients that do not read have that much to read already.
            return False
        self._outstanding += size
        link.outstanding += size
        w = BytesWriter()
        write_i64_be(w, size)
        w.write(asked)
        link.send(FETCH, self.number, w.getvalue())
        self._look_whether_full()
        return True

    # -- input --------------------------------------------------------------------------------------------------

    def on_data(self, data: bytes) -> None:
        if self._is_closing:
            return
        size: i64 = len(data)
        kept = self._kept
        if self._is_paused or kept:
            if kept and len(kept[-1]) + size <= _JOINED_BYTES:
                kept[-1] += data
            else:
                kept.append(data)
            return
        if size <= self._receiver.read_max():
            self._receiver.data_received(data)
            self._return_credit(size)
        else:
            self._kept.append(data)
            self.go_on()

    def go_on(self) -> None:
        """Give what was kept to the receiver, as much at a time as it takes, until it pauses."""
        self._is_later = False
        taken: i64 = 0
        while self._kept and not self._is_paused and not self._is_closing:
            first = self._kept[0]
            at = self._kept_at
            left: i64 = len(first) - at
            size: i64 = min(left, max(self._receiver.read_max(), 1))
            if size < left:
                self._kept_at = at + size
            else:
                self._kept.popleft()
                self._kept_at = 0
            taken += size
            self._receiver.data_received(first if size == len(first) else first[at : at + size])
        if self._is_over:
            return
        if not self._is_at_end:
            self._return_credit(taken)
        elif not self._kept and not self._is_paused:
            self._lost()

    def _go_on_later(self) -> None:
        if not self._is_later:
            self._is_later = True
            self.link.go_on_later(self)

    def _return_credit(self, handled: i64) -> None:
        """Return the credit for bytes that were handled, once there are many, and not while reading is paused."""
        unreturned = self._unreturned + handled
        self._unreturned = unreturned
        if unreturned == 0 or self._is_paused or self._is_closing:
            return
        window = self._window
        if window <= LINK_FIRST_BYTES:
            # Before the login, each read waits for the credit of the one before.
            self._unreturned = 0
            self.link.send_credit(self.number, unreturned)
        elif unreturned >= window // 2:
            if window < LINK_WIDE_BYTES and handled >= window // 4:
                # The client sends in bulk, and the window would hold it up.
                self._grow(LINK_WIDE_BYTES)
            else:
                self._unreturned = 0
                self.link.send_credit(self.number, unreturned)

    def _grow(self, window: i64) -> None:
        """Return all credit, and as much more as the window grows."""
        link = self.link
        more = window - self._window
        if self._is_over or self._is_at_end or more <= 0:
            return
        if window > LINK_NARROW_BYTES:
            if link.granted + more > LINK_SHARED_BYTES:
                more = 0
            link.granted += more
        self._window += more
        size = self._unreturned + more
        self._unreturned = 0
        link.send_credit(self.number, size)

    # -- the end ------------------------------------------------------------------------------------------------

    def on_frame(self, kind: i64, payload: bytes) -> None:
        if kind == OVER:
            self._end = ConnectionLost(payload.decode(errors="replace")) if payload else None
            self._is_at_end = True
            # Input that was kept counts, and the receiver takes it before it hears of the end.
            if not self._kept or self._is_closing:
                self._lost()
        elif kind == SECURED:
            if not self._is_closing:
                self._receiver.secured(payload)
        elif kind == REFUSED and not self._is_closing:
            self._receiver.refused(ConnectionLost(payload.decode(errors="replace")))
        elif kind == FETCHED and not self._is_closing:
            self._receiver.fetched(read_i64_be(payload, 0), read_i64_be(payload, 8))

    def on_link_lost(self, reason: str) -> None:
        self._end = ConnectionLost(reason)
        self._is_at_end = True
        self._lost()

    def fail(self) -> None:
        self.abort()

    def _later_lost(self) -> None:
        """Tell the receiver in the next turn that the connection is lost, as any transport does."""
        self._is_closing = True
        self._kept.clear()
        self._is_at_end = True
        self._is_paused = False
        self._go_on_later()

    def _lost(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._is_closing = True
        link = self.link
        link.outstanding -= self._outstanding
        self._outstanding = 0
        link.granted -= max(self._window - LINK_NARROW_BYTES, 0)
        self._window = LINK_NARROW_BYTES
        self._kept.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
        self._receiver.connection_lost(self._end)
