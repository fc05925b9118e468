"""A link: the channels of many sockets over one stream, each with its own credit.

Everything that one turn of the event loop sends goes out in one write, and one read brings what many sockets have
received. So both ends need a few system calls for many clients.

The link has the methods of `asyncio.Protocol` and not the class, because event loops call them by name.
"""

import asyncio
from collections.abc import Callable
from typing import Final, cast, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.limits import (
    LINK_NARROW_BYTES,
    LINK_SHARED_BYTES,
    LINK_UNSENT_BYTES,
)
from flintmq.server import logs
from flintmq.server.acceptor import ACCEPTED_PER_TURN
from flintmq.server.relay.frames import (
    CHANNEL_MAX,
    DATA,
    NOTE,
    OPEN,
    OVER,
    FrameReader,
    FrameSink,
    LinkViolation,
    write_credit,
    write_frame,
    write_head,
)

# A piece of at least this size is handed to the kernel without a copy.
_LARGE_BYTES: Final = 65_536
# A writer that grew beyond this size in a burst is replaced by a new one.
_WRITER_KEEP_BYTES: Final = 1024 * 1024


log = logs.get_logger()


class Channel:
    """One end of a channel. `number` is its number on the link; 0 before it is open."""

    def __init__(self, link: "Link") -> None:
        self.link = link
        self.number: i64 = 0

    def on_data(self, data: bytes) -> None:
        raise NotImplementedError

    def on_credit(self, size: i64) -> None:
        raise NotImplementedError

    def on_frame(self, kind: i64, payload: bytes) -> None:
        """Take any frame but DATA, CREDIT and OPEN. After OVER the channel is forgotten."""
        raise NotImplementedError

    def on_link_lost(self, reason: str) -> None:
        """The link is lost, and with it this channel."""
        raise NotImplementedError

    def fail(self) -> None:
        """End this channel at once, after an internal error."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Take input that was kept; called in the turn of the event loop after `Link.go_on_later`."""
        raise NotImplementedError


@final
class Link(FrameSink):
    """One end of a link.

    `wake` is called when there is something to write, and must lead to a call of `flush` soon. `accept` returns the
    channel of an OPEN frame, or None to refuse it. `on_note` takes notes of the other end, and `on_lost` the reason
    when the stream has ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wake: Callable[[], object],
        accept: Callable[["Link", int, bytes], Channel | None],
        on_note: Callable[["Link", bytes], None],
        on_lost: Callable[["Link", str], None],
    ) -> None:
        # The bytes that all channels have sent and that the other end has not handled, and the bytes that it may send
        # beyond the narrow window of each channel.
        self.outstanding: i64 = 0
        self.granted: i64 = 0
        self._loop = loop
        self._wake = wake
        self._accept = accept
        self._on_note = on_note
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._is_lost = False
        self._reader = FrameReader(self)
        self._channels: dict[int, Channel] = {}
        self._last_number: i64 = 0
        self._opened_in_turn: i64 = 0
        # How many channels were opened that the other end has not handled.
        self._unhandled: i64 = 0
        # Called when the other end has handled some of them.
        self.on_room: Callable[[], None] | None = None
        self._writer: BytesWriter = BytesWriter()
        self._chunks: list[bytes] = []
        self._is_awake = False
        # Channels that take more input in the next turn.
        self._later: list[Channel] = []
        self._violation = ""
        # Whether the other end can answer a fetch of streams now; None if it never can.
        self.answers_fetches: Callable[[], bool] | None = None

    def __len__(self) -> int:
        """Return the number of open channels."""
        return len(self._channels)

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._chunks or len(self._writer) > 0:
            self.flush()

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.receive(data)
        except LinkViolation as error:
            self._fail(str(error))

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._is_lost = True
        reason = self._violation or (str(exc) if exc else "the other end of the link has ended")
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            try:
                channel.on_link_lost(reason)
            except Exception:
                # The others have to learn of it, too.
                log.exception("internal error", channel=int(channel.number))
        self._on_lost(self, reason)

    def pause_writing(self) -> None:
        """Do nothing: credit bounds the bytes of each channel. Other frames are short, and come with each client that
        connects or goes, and with lines of the log.
        """

    def resume_writing(self) -> None:
        """Do nothing, as above."""

    def close(self) -> None:
        """Close the stream after everything is written."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the stream at once."""
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, reason: str) -> None:
        self._violation = reason
        self.abort()

    # -- input --------------------------------------------------------------------------------------------------

    def on_data(self, channel: i64, data: bytes) -> None:
        found = self._channels.get(channel)
        # A channel that is over here may not be over there yet.
        if found is not None:
            try:
                found.on_data(data)
            except Exception:
                # An internal error in one channel must not end the others.
                log.exception("internal error", channel=channel)
                found.fail()

    def on_credit(self, channel: i64, size: i64) -> None:
        if channel == 0:
            self._unhandled -= size
            if self.on_room is not None:
                self.on_room()
            return
        found = self._channels.get(channel)
        if found is not None:
            found.on_credit(size)

    def on_frame(self, kind: i64, channel: i64, payload: bytes) -> None:
        if kind == NOTE:
            self._on_note(self, payload)
            return
        found = self._channels.get(channel)
        if kind == OPEN:
            if found is not None or channel <= 0:
                raise LinkViolation(f"link: channel {channel} cannot be opened")
            self._open(channel, payload)
        elif found is not None:
            if kind == OVER:
                del self._channels[channel]
            try:
                found.on_frame(kind, payload)
            except Exception:
                log.exception("internal error", channel=channel)
                found.fail()

    def _open(self, number: i64, payload: bytes) -> None:
        channel = self._accept(self, number, payload)
        if channel is None:
            self.send(OVER, number, b"")
        self.send_credit(0, 1)
        # As few clients are accepted in a turn as without a link, because each takes a while.
        self._opened_in_turn += 1
        if self._opened_in_turn == 1:
            self._loop.call_soon(self._next_turn)
        if self._opened_in_turn >= ACCEPTED_PER_TURN:
            self._reader.hold()
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()

    def _next_turn(self) -> None:
        self._opened_in_turn = 0
        if not self._reader.is_held() or self._transport is None:
            return
        try:
            self._reader.go_on()
        except LinkViolation as error:
            self._fail(str(error))
        if not self._reader.is_held() and not self._transport.is_closing():
            self._transport.resume_reading()

    def go_on_later(self, channel: Channel) -> None:
        """Call `go_on` of this channel in the next turn of the event loop."""
        if not self._later:
            self._loop.call_soon(self._go_on)
        self._later.append(channel)

    def _go_on(self) -> None:
        later = self._later
        self._later = []
        for channel in later:
            try:
                channel.go_on()
            except Exception:
                log.exception("internal error", channel=int(channel.number))
                channel.fail()

    # -- channels -----------------------------------------------------------------------------------------------

    def add(self, channel: Channel, number: i64) -> None:
        """Add the channel of an OPEN frame of the other end."""
        channel.number = number
        self._channels[number] = channel

    def open(self, channel: Channel, payload: bytes) -> None:
        """Number a channel, and open it at the other end."""
        while True:
            self._last_number = self._last_number % CHANNEL_MAX + 1
            if self._last_number not in self._channels:
                break
        self.add(channel, self._last_number)
        self._unhandled += 1
        self.send(OPEN, self._last_number, payload)

    def room(self) -> int:
        """Return how many channels may be opened now.

        The other end opens only a few in a turn. If more were on their way, the data of all channels would wait behind.
        """
        return ACCEPTED_PER_TURN - self._unhandled

    def forget(self, number: i64) -> None:
        """Ignore everything that still comes on this channel."""
        self._channels.pop(number, None)

    def window(self) -> i64:
        """Return how many bytes one channel may have sent that the other end has not handled.

        All channels share what goes beyond the narrow window.
        """
        return LINK_UNSENT_BYTES if self.outstanding < LINK_SHARED_BYTES else LINK_NARROW_BYTES

    # -- output -------------------------------------------------------------------------------------------------

    def send_data(self, channel: i64, data: bytes) -> None:
        writer = self._writer
        write_head(writer, DATA, channel, len(data))
        if len(data) < _LARGE_BYTES:
            writer.write(data)
        else:
            self._chunks.append(writer.getvalue())
            writer.truncate(0)
            self._chunks.append(data)
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def send_credit(self, channel: i64, size: i64) -> None:
        write_credit(self._writer, channel, size)
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def send(self, kind: i64, channel: i64, payload: bytes) -> None:
        write_frame(self._writer, kind, channel, payload)
        if not self._is_awake:
            self._is_awake = True
            self._wake()

    def flush(self) -> None:
        """Write everything that was sent since the last call."""
        if self._transport is None and not self._is_lost:
            # The stream is not connected yet.
            return
        self._is_awake = False
        writer = self._writer
        chunks = self._chunks
        size: i64 = len(writer)
        if size > 0:
            chunks.append(writer.getvalue())
            if size > _WRITER_KEEP_BYTES:
                self._writer = BytesWriter()
            else:
                writer.truncate(0)
        if not chunks:
            return
        self._chunks = []
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if len(chunks) == 1:
            transport.write(chunks[0])
        else:
            transport.writelines(chunks)


def refuse(_link: Link, _number: int, _payload: bytes) -> Channel | None:
    """For `accept` of the end that accepts sockets: the broker's end opens no channels."""
    return None
