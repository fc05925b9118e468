"""One channel of an AMQP 0-9-1 connection, for either role: legal order of frames, content assembly, encoding.

A channel has no notion of queues. It passes methods and contents that arrive to its owner, and writes the methods of
its owner to the connection's output.
"""

from abc import abstractmethod
from typing import Final, final

from librt.strings import read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, mypyc_attr

from flintmq.base.errors import (
    AmqpError,
    ChannelFault,
    ClosedByPeer,
    CommandInvalid,
    ContentTooLarge,
    FlintError,
    FrameFault,
    LocalProtocolError,
    PreconditionFailed,
    SyntaxFault,
    UnexpectedFrame,
)
from flintmq.protocol.amqp091.content import Assembly, LastContent, write_content, write_pieces
from flintmq.protocol.amqp091.deliveries import DELIVERY_OVERHEAD_BYTES, LastDelivery
from flintmq.protocol.amqp091.reassembly import ReassemblyBudget
from flintmq.protocol.amqp091.states import CHANNEL, CLOSING, CONTENT_METHODS, OPEN, OPENING, UNUSED
from flintmq.protocol.output import Output
from flintmq.protocol.role import Role
from flintmq.wire.amqp091 import methods, spec
from flintmq.wire.amqp091.frames import CONTENT_HEADER_BYTES, FRAME_END, FRAME_METHOD, write_channel, write_method
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk, Method
from flintmq.wire.amqp091.tables import UINT64_MAX

# The kind of frame that a channel expects next. Method, header and bodies follow each other without any other frame of
# the channel between them (amqp-0-9-1 §4.2.6.1).
_METHOD: Final = 0
_HEADER: Final = 1
_BODY: Final = 2

# The first four bytes of a content header: class basic, weight 0.
_BASIC_CONTENT: Final = spec.BASIC_CLASS << 16
_ACK_PAYLOAD_BYTES: Final = 13
_EMPTY: Final = b""


@mypyc_attr(allow_interpreted_subclasses=True)
class ChannelOwner:
    """Receives the events of a channel. Raises an AmqpError to close the channel or the connection."""

    @abstractmethod
    def on_method(self, method: Method) -> None:
        """Handle a method without content that the peer may send. A client gets channel.open-ok here, too."""

    @abstractmethod
    def on_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        """Handle a complete method with content: its encoded payload, the encoded properties, and the body."""

    @abstractmethod
    def on_ack(self, delivery_tag: i64, multiple: bool) -> None:
        """Handle basic.ack, which is not decoded to an object because it is frequent."""

    @abstractmethod
    def on_closed(self, error: FlintError | None) -> None:
        """Handle the end of the channel, whichever side closed it. Called once; `error` is the reason, if any."""

    def on_released(self) -> None:
        """Handle the end of a close by this side: after close-ok, or the end of the connection, the number is free.

        Called after `on_closed`.
        """


@final
class Channel:
    """A channel number, with the state of the channel that uses it at present."""

    def __init__(self, number: i64, role: Role, output: Output, reassembly: ReassemblyBudget) -> None:
        self.number: i64 = number
        self.state: int = UNUSED
        self._moves = CHANNEL[role]
        # The method that brings this side its messages.
        self._message_method: i64 = methods.BASIC_PUBLISH if role is Role.SERVER else methods.BASIC_DELIVER
        self._is_server = role is Role.SERVER
        self._output = output
        self._reassembly = reassembly
        self._owner: ChannelOwner | None = None
        # The owner, from our channel.close until close-ok.
        self._leaving: ChannelOwner | None = None
        self._expect: i64 = _METHOD
        self._method: bytes = _EMPTY
        self._properties: bytes = _EMPTY
        self._body_left: i64 = 0
        self._body_rest: Assembly | None = None
        self._last = LastDelivery()
        self._last_content = LastContent()

    @property
    def is_open(self) -> bool:
        return self.state == OPEN

    # -- input from the peer ------------------------------------------------------------------------------------

    def receive_method(self, method_id: i64, data: bytes, start: i64, stop: i64) -> None:
        """Handle a method frame, whose payload is data[start:stop]. Raises an AmqpError if the method is not legal."""
        if self.state == OPEN:
            if self._expect != _METHOD:
                raise self._unexpected()
            # The methods of every message are not looked up in the table.
            if method_id == self._message_method:
                self._method = data[start:stop]
                self._expect = _HEADER
                return
            if method_id == methods.BASIC_ACK:
                if stop - start != _ACK_PAYLOAD_BYTES:
                    raise SyntaxFault("basic.ack: 9 bytes of arguments are due")
                owner = self._owner
                assert owner is not None
                owner.on_ack(read_i64_be(data, start + 4), (data[start + 12] & 1) != 0)
                return
        target = self._moves[self.state].get(method_id)
        if target is not None:
            self._move(target, method_id, data[start:stop])
        elif self.state != CLOSING:
            raise self._illegal(method_id, data[start:stop])

    def _move(self, target: int, method_id: i64, payload: bytes) -> None:
        """Do what a legal method requires, and go to its state."""
        if method_id in CONTENT_METHODS:
            self._method = payload
            self._expect = _HEADER
        elif method_id == methods.CHANNEL_CLOSE:
            if target == UNUSED:
                method = decode_method(payload)
                assert isinstance(method, ChannelClose)
                self.send(ChannelCloseOk())
                self._end(ClosedByPeer(method.reply_code, method.reply_text, False))
            else:
                self.send(ChannelCloseOk())
        elif method_id == methods.CHANNEL_CLOSE_OK:
            self._release()
        else:
            self.state = target
            owner = self._owner
            assert owner is not None
            # Servers of earlier versions leave out the reserved argument of channel.open-ok.
            owner.on_method(ChannelOpenOk() if method_id == methods.CHANNEL_OPEN_OK else decode_method(payload))

    def _illegal(self, method_id: i64, payload: bytes) -> AmqpError:
        """Return the error for a method that has no entry in the table. Raises SyntaxFault if it is malformed, too."""
        method = decode_method(payload)
        if self.state != OPEN:
            return ChannelFault(f"expected 'channel.open' on channel {self.number}")
        if method_id == methods.CHANNEL_OPEN:
            return ChannelFault("second 'channel.open' seen")
        return CommandInvalid(f"{method.name} is not for this side to receive")

    def receive_header(self, data: bytes, start: i64, stop: i64) -> None:
        """Handle a content header, whose payload is data[start:stop].

        Raises UnexpectedFrame if another frame is due, PreconditionFailed or ContentTooLarge above a size limit.
        """
        if self.state != OPEN:
            self._drop_content("header")
            return
        if self._expect != _HEADER:
            raise self._unexpected()
        if stop - start < CONTENT_HEADER_BYTES + 2:
            raise FrameFault("content header too short")
        # The class must be basic, and the weight zero (amqp-0-9-1 §4.2.6.1).
        if read_i32_be(data, start) != _BASIC_CONTENT:
            raise UnexpectedFrame(
                f"expected content header for class {spec.BASIC_CLASS}, got one for class "
                f"{data[start] << 8 | data[start + 1]}, weight {data[start + 2] << 8 | data[start + 3]} instead"
            )
        size = read_i64_be(data, start + 4)
        reassembly = self._reassembly
        if size < 0 or size > reassembly.message_max:
            raise PreconditionFailed(
                f"message size {int(size) & UINT64_MAX} is larger than configured max size {reassembly.message_max}"
            )
        if stop - start > reassembly.header_max:
            raise ContentTooLarge(
                f"a content header of {stop - start} bytes: at most {reassembly.header_max} are taken"
            )
        self._properties = data[start + CONTENT_HEADER_BYTES : stop]
        if size == 0:
            self._deliver_content(_EMPTY)
        else:
            self._body_left = size
            self._expect = _BODY

    def receive_body(self, data: bytes, start: i64, stop: i64) -> None:
        """Handle a part of a content body, data[start:stop].

        Raises UnexpectedFrame if another frame is due or the body is too long, ResourceError above the memory limit.
        """
        if self.state != OPEN:
            self._drop_content("body")
            return
        if self._expect != _BODY:
            raise self._unexpected()
        left = self._body_left - (stop - start)
        if left < 0:
            raise UnexpectedFrame(f"expected content body of {self._body_left} bytes more, got {stop - start}")
        self._body_left = left
        rest = self._body_rest
        if rest is None:
            if left == 0:
                self._deliver_content(data[start:stop])
                return
            rest = Assembly()
            self._body_rest = rest
        before = rest.size
        if self._is_server:
            # A copy: a view would keep all of `data` in memory, while only the part is counted.
            rest.add(data[start:stop])
        else:
            rest.add_from(data, start, stop)
        if left == 0:
            self._reassembly.release(before)
            self._body_rest = None
            self._deliver_content(rest.whole())
        else:
            self._reassembly.hold(stop - start)

    def _deliver_content(self, body: bytes) -> None:
        self._expect = _METHOD
        owner = self._owner
        assert owner is not None
        owner.on_content(self._method, self._properties, body)

    def content_method(self) -> i64:
        """Return the id of the method whose content arrived last, or is arriving; 0 if there is none."""
        return i64(read_i32_be(self._method, 0)) if self._method else 0

    def _unexpected(self) -> UnexpectedFrame:
        """Return the error for a frame out of order (amqp-0-9-1 §4.2.6: method, header, bodies)."""
        if self._expect == _HEADER:
            return UnexpectedFrame(
                f"expected content header for class {spec.BASIC_CLASS}, got non content header frame instead"
            )
        if self._expect == _BODY:
            return UnexpectedFrame("expected content body, got non content body frame instead")
        self._method = _EMPTY
        return UnexpectedFrame("expected method frame, got non method frame instead")

    def _drop_content(self, what: str) -> None:
        if self.state != CLOSING:
            raise ChannelFault(f"content {what} on channel {self.number}, which is not open")

    # -- calls by the owner -------------------------------------------------------------------------------------

    def attach(self, owner: ChannelOwner) -> None:
        """Server: open the channel. From now on its events go to `owner`."""
        self._owner = owner
        self.state = OPEN
        self._expect = _METHOD

    def open(self, owner: ChannelOwner) -> None:
        """Client: send channel.open. The owner gets channel.open-ok."""
        self._owner = owner
        self.state = OPENING
        self._expect = _METHOD
        self.send(ChannelOpen())

    def send(self, method: Method) -> None:
        write_method(self._output.writer, self.number, encode_method(method))
        self._output.touch()

    def send_payload(self, payload: bytes) -> None:
        """Send a method that is encoded already."""
        write_method(self._output.writer, self.number, payload)
        self._output.touch()

    def send_content(self, method: bytes, properties: bytes, body: bytes) -> None:
        """Send a method with content: its encoded payload, the encoded properties, and a body of any size."""
        output = self._output
        last = self._last_content
        size: i64 = len(body)
        if (
            last.size == size
            and last.method is method
            and last.properties is properties
            and (last.before_body or last.compose(self.number, output))
        ):
            w = output.writer
            w.write(last.before_body)
            w.write(body)
            w.append(FRAME_END)
            output.charge(size)
        else:
            last.remember(method, properties, size)
            write_method(output.writer, self.number, method)
            write_content(output, self.number, properties, body)
        output.touch()

    def send_pieces(self, method: bytes, properties: bytes, pieces: list[bytes]) -> None:
        """Send a method with content whose body is in pieces."""
        write_method(self._output.writer, self.number, method)
        write_pieces(self._output, self.number, properties, pieces)
        self._output.touch()

    def send_delivery(
        self, prefix: bytes, delivery_tag: i64, redelivered: bool, address: bytes, properties: bytes, body: bytes
    ) -> None:
        """Send basic.deliver, written directly into the output.

        `prefix` is the encoded method id and consumer tag, `address` the encoded exchange and routing key.
        """
        output = self._output
        w = output.writer
        last = self._last
        size: i64 = len(body)
        if (
            last.size == size
            and last.properties is properties
            and last.address is address
            and last.prefix is prefix
            and (last.before_tag or last.compose(self.number, output))
        ):
            w.write(last.before_tag)
            write_i64_be(w, delivery_tag)
            w.append(1 if redelivered else 0)
            w.write(last.before_body)
            w.write(body)
            w.append(FRAME_END)
            output.charge(size)
        else:
            last.remember(prefix, address, properties, size)
            w.append(FRAME_METHOD)
            write_channel(w, self.number)
            write_i32_be(w, i32(len(prefix) + DELIVERY_OVERHEAD_BYTES + len(address)))
            w.write(prefix)
            write_i64_be(w, delivery_tag)
            w.append(1 if redelivered else 0)
            w.write(address)
            w.append(FRAME_END)
            write_content(output, self.number, properties, body)
        output.touch()

    def send_ack(self, delivery_tag: i64, multiple: bool) -> None:
        """Send basic.ack: from a client it settles deliveries, from a server it confirms publishes."""
        w = self._output.writer
        w.append(FRAME_METHOD)
        write_channel(w, self.number)
        write_i32_be(w, _ACK_PAYLOAD_BYTES)
        write_i32_be(w, methods.BASIC_ACK)
        write_i64_be(w, delivery_tag)
        w.append(1 if multiple else 0)
        w.append(FRAME_END)
        self._output.touch()

    def close(self, code: int = 200, text: str = "", method_id: int = 0, error: FlintError | None = None) -> None:
        """Send channel.close. The channel sends and accepts nothing more; close-ok frees its number.

        `method_id` is the method that failed, or 0. Raises LocalProtocolError if the channel is not open.
        """
        if self.state not in (OPEN, OPENING):
            raise LocalProtocolError(f"channel {self.number} is not open")
        self.send(
            ChannelClose(reply_code=code, reply_text=text, class_id=method_id >> 16, method_id=method_id & 0xFFFF)
        )
        owner = self._owner
        self._end(error)
        self.state = CLOSING
        self._leaving = owner

    def abandon(self, error: FlintError | None) -> None:
        """End the channel because its connection has ended."""
        if self.state in (OPEN, OPENING):
            self._end(error)
        self._release()

    def _release(self) -> None:
        owner = self._leaving
        self.state = UNUSED
        self._leaving = None
        if owner is not None:
            owner.on_released()

    def _end(self, error: FlintError | None) -> None:
        owner = self._owner
        self.state = UNUSED
        self._owner = None
        self._expect = _METHOD
        self._method = _EMPTY
        self._properties = _EMPTY
        if self._body_rest is not None:
            self._reassembly.release(self._body_rest.size)
            self._body_rest = None
        if owner is not None:
            owner.on_closed(error)
