"""A client of a link: one accepted socket, with TLS where the client wants it, and its channel to the broker.

The broker decides everything else: how long a handshake may take, who may log in, and when the socket is closed.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Final, cast, final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

from flintmq.base.errors import ConnectionLost
from flintmq.base.limits import LINK_FIRST_BYTES, LINK_REPORT_BYTES
from flintmq.protocol.sniff import TLS_HEADER, sniff
from flintmq.protocol.sniff import Protocol as Spoken
from flintmq.server.certificates import Tls
from flintmq.server.relay.frames import CLOSE, DATA, END, FETCH, FETCHED, OVER, REFUSED, SECURED
from flintmq.server.relay.link import Channel, Link
from flintmq.server.tls import TlsTransport
from flintmq.server.unauthenticated import HandshakeReads, ReadThrottle

# The most that one system call reads.
_BUFFER_BYTES: Final = 256 * 1024
# With less credit than this, a client is not read from: the broker returns credit in larger pieces.
_READ_MIN_BYTES: Final = 4 * 1024
# From this on, the loop says when less waits for the client. What is not reported is then reported: less than that the
# broker need not know.
_UNSENT_HIGH_BYTES: Final = LINK_REPORT_BYTES - 1
_UNSENT_LOW_BYTES: Final = LINK_REPORT_BYTES // 4
# The interval at which the broker learns what slow clients have read meanwhile.
_SLOW_SECONDS: Final = 1.0
# The bytes that a client may still send after its TLS has ended. A client that sends more is disconnected.
_UNHEARD_MAX_BYTES: Final = 1024 * 1024

# The number before a fetch in its frame.
_SIZE_BYTES: Final = 8

# Listeners: those whose clients begin with TLS, and the one whose clients do not use it.
_HTTPS: Final = "https"
_SECURE: Final = ("amqp/ssl", _HTTPS)
_HTTP: Final = "http"

# Where a client is: its bytes go to the broker as they are; its first bytes tell whether it begins with TLS; TLS; the
# rest of what it says is discarded.
_PLAIN: Final = 0
_FIRST: Final = 1
_TLS: Final = 2
_UNHEARD: Final = 3


@final
class Fetched:
    """The answer to a fetch of a stream: bytes for the client, with `count` messages before the offset `following`."""

    def __init__(self, pieces: Sequence[bytes | memoryview], following: int, count: int) -> None:
        self.pieces = pieces
        self.following = following
        self.count = count


NOT_FETCHED: Final = Fetched((), 0, 0)
# Answers a fetch of a stream: gets what is asked, and calls back.
Fetch = Callable[[bytes, Callable[[Fetched], None]], None]


@final
class Clients:
    """What all clients of a link share. `tls` returns the TLS of the listeners, or None. `fetch` gets a fetch that the
    broker delegates to this end, and what to call with the answer, in a later turn of the event loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        link: Link,
        tls: Callable[[], Tls | None],
        fetch: Fetch = lambda _, answer: answer(NOT_FETCHED),
    ) -> None:
        self.link = link
        self.throttle = ReadThrottle(loop)
        self.tls = tls
        self.fetch = fetch
        self.view = memoryview(bytearray(_BUFFER_BYTES))
        self._loop = loop
        self._touched: list[Client] = []
        # Clients for which output waits in this process.
        self._slow: dict[Client, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def of(self, listener: str) -> "Callable[[], Client]":
        """Return what makes the clients of a listener, which has one of the names in `server/addresses.py`."""
        return lambda: Client(self, listener)

    def touched(self, client: "Client") -> None:
        """Report in the next turn what the kernel has taken for this client; it takes output at the end of this one."""
        if not self._touched:
            self._loop.call_soon(self._report)
        self._touched.append(client)

    def _report(self) -> None:
        touched = self._touched
        self._touched = []
        for client in touched:
            client.report()

    def slow(self, client: "Client") -> None:
        """Report at intervals what the kernel takes for this client."""
        self._slow[client] = None
        if self._timer is None:
            self._timer = self._loop.call_later(_SLOW_SECONDS, self._report_slow)

    def not_slow(self, client: "Client") -> None:
        self._slow.pop(client, None)

    def _report_slow(self) -> None:
        self._timer = None
        for client in list(self._slow):
            client.report()
        if self._slow:
            self._timer = self._loop.call_later(_SLOW_SECONDS, self._report_slow)


@final
class Client(Channel):
    """One socket, which `listener` has accepted. Its client begins with TLS, or may do so, or does not."""

    def __init__(self, clients: Clients, listener: str) -> None:
        super().__init__(clients.link)
        self._clients = clients
        self._transport: asyncio.Transport | None = None
        self._tls: TlsTransport | None = None
        self._listener = listener
        self._stage: i64 = _PLAIN if clients.tls() is None or listener == _HTTP else _FIRST
        self._first = b""
        self._is_secured = False
        self._handshake_reads = HandshakeReads()
        self._is_resting = False
        self._unheard: i64 = 0
        # Input: the bytes that the broker takes.
        self._credit: i64 = LINK_FIRST_BYTES
        self._is_admitted = False
        self._is_paused = False
        # Output: all bytes of the broker, and those that were reported as taken by the kernel.
        self._written: i64 = 0
        self._reported: i64 = 0
        self._is_touched = False
        # While a fetch is answered: how many bytes the answer counts as, and everything that came behind the fetch.
        self._fetching: i64 = 0
        self._held: list[tuple[int, bytes]] = []

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast(asyncio.Transport, transport)
        if self.link.is_lost:
            stream.abort()
            return
        self._transport = stream
        stream.set_write_buffer_limits(high=_UNSENT_HIGH_BYTES, low=_UNSENT_LOW_BYTES)
        opened = {
            "listener": self._listener,
            "peer": stream.get_extra_info("peername"),
            "local": stream.get_extra_info("sockname"),
        }
        self.link.open(self, json.dumps(opened).encode())
        if self._listener in _SECURE:
            self._begin_tls(stream)

    def get_buffer(self, _size_hint: int) -> memoryview:
        return self._clients.view[: max(self._credit, _READ_MIN_BYTES)]

    def buffer_updated(self, size: int) -> None:
        self.data_received(bytes(self._clients.view[:size]))

    def data_received(self, data: bytes) -> None:
        if self._stage == _PLAIN:
            self._forward(data)
        elif self._stage == _UNHEARD:
            self._unheard += len(data)
            if self._unheard > _UNHEARD_MAX_BYTES:
                self._abort()
        else:
            if not self._is_admitted and self._handshake_reads.are_too_many(len(data)):
                self._rest()
            if self._stage == _TLS:
                self._receive_tls(data)
            else:
                self._find_tls(self._first + data)

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._clients.not_slow(self)
        self.link.send(OVER, self.number, str(exc).encode() if exc else b"")
        self.link.forget(self.number)

    def pause_writing(self) -> None:
        self._clients.slow(self)

    def resume_writing(self) -> None:
        self._clients.not_slow(self)
        self.report()

    # -- input --------------------------------------------------------------------------------------------------

    def _forward(self, data: bytes) -> None:
        """Send bytes of the client to the broker."""
        self._credit -= len(data)
        self.link.send_data(self.number, data)
        self._decide()

    def _decide(self) -> None:
        """Read from the client if the broker takes more of it, and it need not rest."""
        stop = self._is_resting or self._credit < (_READ_MIN_BYTES if self._is_admitted else LINK_FIRST_BYTES)
        if self._stage == _UNHEARD:
            stop = False
        transport = self._transport
        if stop == self._is_paused or transport is None or transport.is_closing():
            return
        self._is_paused = stop
        if stop:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _find_tls(self, data: bytes) -> None:
        """Find out whether the client begins with TLS. The broker handles everything else, wrong headers, too."""
        spoken = sniff(data)
        transport = self._transport
        if transport is None:
            return
        if spoken is None or (spoken is Spoken.TLS_HEADER and data == TLS_HEADER[: len(data)] != TLS_HEADER):
            self._first = data
            return
        self._first = b""
        if spoken is Spoken.TLS:
            self._begin_tls(transport)
            self._receive_tls(data)
        elif spoken is Spoken.TLS_HEADER and data.startswith(TLS_HEADER):
            # amqp-1.0 §5.2.1: the answer is the same header.
            transport.write(TLS_HEADER)
            self._begin_tls(transport)
            if len(data) > len(TLS_HEADER):
                self._receive_tls(data[len(TLS_HEADER) :])
        else:
            self._stage = _PLAIN
            self._forward(data)

    def _begin_tls(self, transport: asyncio.Transport) -> None:
        tls = self._clients.tls()
        assert tls is not None
        self._tls = TlsTransport(transport, tls.context)
        self._stage = _TLS

    def _receive_tls(self, data: bytes) -> None:
        tls = self._tls
        assert tls is not None
        try:
            data = tls.receive(data)
        except ConnectionLost as error:
            self._stage = _UNHEARD
            self.link.send(REFUSED, self.number, str(error).encode())
            return
        if not self._is_secured and tls.is_established:
            self._is_secured = True
            self.link.send(SECURED, self.number, json.dumps(tls.certificate).encode())
        if data:
            self._forward(data)
        if tls.is_peer_closed and self._listener == _HTTPS:
            # As the API's own TLS does: some clients wait for that. Those of AMQP are told by the broker.
            tls.close()

    def _rest(self) -> None:
        """Read nothing for a while, because the client sends many small pieces before its login."""
        if not self._is_resting:
            self._is_resting = True
            self._decide()
            self._clients.throttle.rest(self)

    def end_rest(self) -> None:
        self._is_resting = False
        self._decide()

    def on_credit(self, size: i64) -> None:
        self._credit += size
        if self._credit > LINK_FIRST_BYTES:
            self._is_admitted = True
        if self._is_paused:
            self._decide()

    # -- output -------------------------------------------------------------------------------------------------

    def on_data(self, data: bytes) -> None:
        if self._fetching > 0:
            self._held.append((DATA, data))
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._tls is None:
            transport.write(data)
        else:
            self._tls.write(data)
        self._has_written(len(data))

    def _fetch(self, payload: bytes) -> None:
        """Have a fetch answered that the broker has delegated."""
        self._fetching = max(read_i64_be(payload, 0), 1)
        self._clients.fetch(payload[_SIZE_BYTES:], self._fetched)

    def _fetched(self, answer: Fetched) -> None:
        """Give the client the answer, and tell the broker what the client got."""
        size = self._fetching
        self._fetching = 0
        held = self._held
        self._held = []
        transport = self._transport
        if transport is None:
            return
        if answer.count > 0 and not transport.is_closing():
            if self._tls is None:
                transport.writelines(answer.pieces)
            else:
                for piece in answer.pieces:
                    self._tls.write(bytes(piece))
        w = BytesWriter()
        write_i64_be(w, answer.following)
        write_i64_be(w, answer.count)
        self.link.send(FETCHED, self.number, w.getvalue())
        self._has_written(size)
        for kind, payload in held:
            if kind == DATA:
                self.on_data(payload)
            else:
                self.on_frame(kind, payload)

    def _has_written(self, size: i64) -> None:
        """Count what came from the broker, and report it once the kernel has taken it."""
        self._written += size
        if self._written - self._reported >= LINK_REPORT_BYTES and not self._is_touched:
            self._is_touched = True
            self._clients.touched(self)

    def report(self) -> None:
        """Tell the broker how many bytes the kernel has taken since the last report."""
        self._is_touched = False
        transport = self._transport
        if transport is None:
            return
        # TLS makes more bytes of those that the broker has sent.
        taken: i64 = self._written - self._reported - transport.get_write_buffer_size()
        if taken > 0:
            self._reported += taken
            self.link.send_credit(self.number, taken)

    def on_frame(self, kind: i64, payload: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        if self._fetching > 0 and kind != OVER:
            self._held.append((kind, payload))
        elif kind == FETCH:
            self._fetch(payload)
        elif kind == END:
            if self._tls is not None:
                self._stage = _UNHEARD
                self._tls.write_eof()
            elif not transport.is_closing():
                transport.write_eof()
            self._is_resting = False
            self._decide()
            self._report_the_rest(transport)
        elif kind == CLOSE:
            if self._tls is not None:
                self._tls.close()
            else:
                transport.close()
            self._report_the_rest(transport)
        elif kind == OVER:
            self._transport = None
            self._clients.not_slow(self)
            transport.abort()

    def _report_the_rest(self, transport: asyncio.Transport) -> None:
        """Report at intervals what the client reads of its last bytes: one that reads nothing is disconnected."""
        if transport.get_write_buffer_size() > 0:
            self._clients.slow(self)

    def on_link_lost(self, reason: str) -> None:
        self._abort()

    def fail(self) -> None:
        self._abort()

    def go_on(self) -> None:
        """Do nothing: no input is kept here."""

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
