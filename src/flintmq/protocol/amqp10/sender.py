"""The sending end of a link: credit, and deliveries to the peer.

The owner checks `can_send` before each `send`. Of a message that is larger than a frame or than the session's window,
as much as possible is sent; the rest follows when there is room, and `can_send` is False until then.
"""

from abc import abstractmethod
from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, mypyc_attr

from flintmq.base.errors import SCOPE_SESSION, FrameSizeTooSmall, LocalProtocolError
from flintmq.base.limits import UNACKED_TAGS_PER_UNIT
from flintmq.protocol.amqp10.delivery import Delivery, tag_of
from flintmq.protocol.amqp10.frame_writer import encode
from flintmq.protocol.amqp10.link import Link, LinkOwner, LinkSession
from flintmq.protocol.amqp10.serial import after, distance
from flintmq.protocol.output import LARGE_BODY_BYTES
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.frames import FRAME_HEAD_BYTES
from flintmq.wire.amqp10.performatives import Attach, Flow, Transfer
from flintmq.wire.amqp10.spec import UINT_MAX
from flintmq.wire.amqp10.states import DeliveryState

_UINT: Final = 0x70
_BINARY8: Final = 0xA0
_UINT0: Final = 0x43
_TRUE: Final = 0x41
_FALSE: Final = 0x42


@final
class OutgoingDelivery(Delivery):
    """A delivery that this side sent. `number` is the one that `SenderLink.send` made the tag of, if it did."""

    def __init__(self, link: "SenderLink", delivery_id: i64, number: i64, tag: bytes, mark: object) -> None:
        super().__init__(delivery_id, mark)
        self.link = link
        self.number: i64 = number
        self._tag = tag

    @property
    def tag(self) -> bytes:
        return self._tag or tag_of(self.number)


@mypyc_attr(allow_interpreted_subclasses=True)
class SenderOwner(LinkOwner):
    """Receives the events of a link on which this side sends. It may send in its methods, or later."""

    @abstractmethod
    def on_flow(self, link: "SenderLink") -> None:
        """Handle a flow: `credit`, `drain` or `flow_properties` may have changed.

        If `drain` is set, the owner sends all available messages and then calls `drained`.
        """

    @abstractmethod
    def on_room(self, link: "SenderLink") -> None:
        """The link has credit, and there is room again in the session's window and the output."""

    @abstractmethod
    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """Handle a disposition of the receiver. If `settled`, the link has forgotten the delivery.

        If it is not settled and `state` is final, the owner applies the state and calls `settle`.
        """


@final
class SenderLink(Link):
    """The sending end of a link. `credit` is how many deliveries the receiver accepts now.

    The owner sets `available`, the number of deliveries that it could send; flows tell it to the receiver.
    """

    def __init__(self, session: LinkSession, name: str) -> None:
        super().__init__(session, name, False)
        self.owner: SenderOwner | None = None
        self.credit: i64 = 0
        self.delivery_count: i64 = 0
        self.initial_delivery_count: i64 = 0
        self.available: i64 = 0
        # `drain`: the receiver asks to use up its credit or give it back. `_owes_drain`: the answer is still due.
        self.drain: bool = False
        self._owes_drain = False
        # The size of the largest message that the receiver accepts, in bytes; 0 for no limit.
        self.message_max: i64 = 0
        # Whether the peer's unsettled map was incomplete: only resumed deliveries may be sent then (part 2 §2.7.3).
        self.only_resumes = False
        # The bytes between the frame size and the delivery id in the transfers of `send`.
        self._prefix = b""
        self._overhead: i64 = 0
        self._rest: _Rest | None = None

    # -- state for the owner ------------------------------------------------------------------------------------

    @property
    def can_send(self) -> bool:
        """Whether `send` may be called now. If only the session's window or the output is full, `on_room` follows."""
        return (
            self.credit > 0
            and self._rest is None
            and self.is_attached
            and not self.only_resumes
            and self.session.has_room()
        )

    @property
    def can_resume(self) -> bool:
        """Whether `resume` may be called now: like `can_send`, but also while only resumed deliveries are allowed."""
        return self.credit > 0 and self._rest is None and self.is_attached and self.session.has_room()

    # -- calls by the owner -------------------------------------------------------------------------------------

    def send(
        self, number: i64, head: bytes, body: bytes, settled: bool, mark: object = None
    ) -> OutgoingDelivery | None:
        """Send a delivery whose tag is `number`, with the payload `head` and `body`. Returns None if `settled`.

        Must be called only while `can_send`.
        """
        session = self.session
        size: i64 = len(head) + len(body)
        if size + self._overhead > session.frame_max or size >= LARGE_BODY_BYTES:
            return self._send_long(number, b"", [head, body], settled, 0, None, False, mark)
        if session.has_dispositions:
            session.flush_dispositions()
        delivery_id = session.take_delivery_id(self)
        self.delivery_count = after(self.delivery_count, 1)
        self.credit -= 1
        output = session.output
        w = output.writer
        write_i32_be(w, i32(size + self._overhead))
        w.write(self._prefix)
        write_i32_be(w, i32(_signed(delivery_id)))
        w.append(_BINARY8)
        w.append(8)
        write_i64_be(w, number)
        w.append(_UINT0)
        w.append(_TRUE if settled else _FALSE)
        w.write(head)
        w.write(body)
        output.charge(size)
        output.touch()
        session.sent_transfer()
        if settled:
            return None
        delivery = OutgoingDelivery(self, delivery_id, number, b"", mark)
        session.outgoing.add(delivery)
        self.unsettled += 1
        return delivery

    def send_tagged(
        self,
        tag: bytes,
        payload: list[bytes],
        settled: bool = False,
        message_format: int = 0,
        state: DeliveryState | None = None,
        mark: object = None,
    ) -> OutgoingDelivery | None:
        """Send a delivery with a tag that the owner chooses. Returns None if `settled`.

        Must be called only while `can_send`.
        """
        return self._send_long(0, tag, payload, settled, message_format, state, False, mark)

    def resume(
        self,
        tag: bytes,
        payload: list[bytes],
        state: DeliveryState | None = None,
        settled: bool = False,
        message_format: int = 0,
        mark: object = None,
    ) -> OutgoingDelivery | None:
        """Resume a delivery that was unsettled when the link was suspended (amqp-1.0 part 2 §2.6.13, part 3 §3.4.6).

        `state` is the sender's: a Received says where the payload begins; an outcome needs no payload. Returns None if
        `settled`. Raises LocalProtocolError if the link has no credit, is not attached, or has sent a message only in
        part.
        """
        self._check_free()
        return self._send_long(0, tag, payload, settled, message_format, state, True, mark)

    def abort_resumed(self, tag: bytes) -> None:
        """Tell the receiver to forget a delivery that cannot be resumed. Needs credit, like any delivery.

        Raises LocalProtocolError if the link has no credit, is not attached, or has sent a message only in part.
        """
        session = self.session
        self._check_free()
        self.delivery_count = after(self.delivery_count, 1)
        self.credit -= 1
        session.send_transfer(
            Transfer(
                handle=self.handle,
                delivery_id=session.take_delivery_id(self),
                delivery_tag=tag,
                message_format=0,
                settled=True,
                resume=True,
                aborted=True,
            )
        )

    def abort(self, delivery: OutgoingDelivery) -> bool:
        """Abort a delivery of which a part was sent. Returns False, with nothing done, if all of it was sent.

        The receiver is told at once, or when there is room again; until then `is_aborting` is True.
        """
        rest = self._rest
        if rest is None or rest.delivery is not delivery or rest.is_aborted:
            return False
        self.forget(delivery)
        rest.give_up()
        self.go_on()
        return True

    @property
    def is_aborting(self) -> bool:
        """Whether the receiver still has to be told that a delivery was aborted."""
        return self._rest is not None and self._rest.is_aborted

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None = None) -> None:
        """Settle a delivery. The next `flush` tells the receiver, together with others of the same state."""
        if not delivery.is_settled:
            self.forget(delivery)
            self.session.add_disposition(False, delivery.id, state, True)

    def update(self, delivery: OutgoingDelivery, state: DeliveryState) -> None:
        """Tell the receiver the state of a delivery at the sender, without settling it."""
        if not delivery.is_settled:
            self.session.add_disposition(False, delivery.id, state, False)

    def drained(self) -> None:
        """Give back all credit in answer to `drain`, since there is nothing to send (part 2 §2.6.7)."""
        if not self._owes_drain or self._rest is not None:
            return
        self._owes_drain = False
        self.delivery_count = after(self.delivery_count, self.credit)
        self.credit = 0
        self.session.owe_flow(self)

    def send_flow(self, properties: dict[str, object] | None = None) -> None:
        """Send a flow with this side's state of the link, such as `available`, and with properties, if any."""
        self.session.send_flow(self._flow(properties))

    def live(self) -> list[OutgoingDelivery]:
        """Return the unsettled deliveries, the oldest first.

        A detach leaves them, unless it closed the link or had an error (part 2 §2.7.6).
        """
        if self.unsettled == 0:
            return []
        outgoing = self.session.outgoing.all()
        self.session.connection.spend(len(outgoing) // UNACKED_TAGS_PER_UNIT)
        return [each for each in outgoing if isinstance(each, OutgoingDelivery) and each.link is self]

    def take_unsettled(self) -> list[OutgoingDelivery]:
        """Remove all unsettled deliveries from the link, and return them. Dispositions no longer reach them."""
        taken = self.live()
        for delivery in taken:
            self.forget(delivery)
        return taken

    def _check_free(self) -> None:
        if self.credit <= 0 or self._rest is not None or not self.is_attached:
            raise LocalProtocolError(f"link '{self.name}' cannot send now")

    # -- for the session ----------------------------------------------------------------------------------------

    def forget(self, delivery: OutgoingDelivery) -> None:
        """Remove a delivery that either side has settled, without a disposition."""
        if not delivery.is_settled:
            delivery.is_settled = True
            self.unsettled -= 1
            self.session.outgoing.remove(delivery)

    def forget_all(self) -> None:
        self.take_unsettled()

    def announced(self, attach: Attach) -> None:
        self.initial_delivery_count = self.delivery_count

    def link_owner(self) -> LinkOwner | None:
        return self.owner

    def compose(self, channel: i64) -> None:
        """Encode the beginning of all transfers of `send`, once the handle is known (part 2 §2.3, §2.7.5)."""
        w = BytesWriter()
        w.append(2)
        w.append(0)
        w.append(channel >> 8)
        w.append(channel & 0xFF)
        for each in (0x00, 0x53, spec.TRANSFER):
            w.append(each)
        handle = BytesWriter()
        if self.handle == 0:
            handle.append(0x43)
        elif self.handle < 256:
            handle.append(0x52)
            handle.append(self.handle)
        else:
            handle.append(_UINT)
            write_i32_be(handle, i32(self.handle))
        # A list of five fields: handle, delivery-id, a tag of eight bytes, message-format, settled.
        w.append(0xC0)
        w.append(1 + len(handle) + 5 + 10 + 1 + 1)
        w.append(5)
        w.write(handle.getvalue())
        w.append(_UINT)
        self._prefix = w.getvalue()
        self._overhead = 4 + len(self._prefix) + 4 + 10 + 1 + 1

    def receive_flow(self, flow: Flow) -> None:
        """Handle a flow with the receiver's state of the link (part 2 §2.6.7)."""
        had = self.credit
        if flow.link_credit is not None:
            count: i64 = self.initial_delivery_count if flow.delivery_count is None else flow.delivery_count
            credit: i64 = flow.link_credit + distance(self.delivery_count, count)
            # If the receiver's delivery count is ahead of ours, the credit could exceed a uint, which our flows carry.
            self.credit = min(max(0, credit), UINT_MAX)
        self.drain = flow.drain
        self._owes_drain = flow.drain
        self.flow_properties = flow.properties
        owner = self.owner
        if owner is None or not self.is_attached:
            # The owner has not accepted the link yet, and will find the credit when it does.
            return
        owner.on_flow(self)
        if flow.echo and self.is_attached:
            self.session.owe_flow(self)
        if had <= 0 and self.credit > 0 and self._rest is not None:
            self.session.pump()

    def flow(self) -> Flow:
        return self._flow(None)

    def _flow(self, properties: dict[str, object] | None) -> Flow:
        return Flow(
            handle=self.handle,
            delivery_count=self.delivery_count,
            link_credit=self.credit,
            available=self.available,
            drain=self.drain,
            properties=properties,
        )

    def _leave(self) -> None:
        super()._leave()
        self.credit = 0
        if self._rest is not None:
            self._rest = None
            self.session.stalled.pop(self, None)

    # -- messages of several transfers --------------------------------------------------------------------------

    def _send_long(
        self,
        number: i64,
        tag: bytes,
        payload: list[bytes],
        settled: bool,
        message_format: int,
        state: DeliveryState | None,
        resume: bool,
        mark: object,
    ) -> OutgoingDelivery | None:
        session = self.session
        delivery = OutgoingDelivery(self, session.take_delivery_id(self), number, tag, mark)
        self.delivery_count = after(self.delivery_count, 1)
        self.credit -= 1
        if settled:
            delivery.is_settled = True
        else:
            session.outgoing.add(delivery)
            self.unsettled += 1
        first = Transfer(
            handle=self.handle,
            delivery_id=delivery.id,
            delivery_tag=delivery.tag,
            message_format=message_format,
            settled=settled,
            state=state,
            resume=resume,
        )
        self._rest = _Rest(delivery, first, [part for part in payload if part])
        self.go_on()
        return None if settled else delivery

    def go_on(self) -> None:
        """Send as much of the rest of a message as there is room for."""
        rest = self._rest
        if rest is None:
            return
        session = self.session
        while session.has_room():
            try:
                is_last = rest.send_frame(session)
            except FrameSizeTooSmall as error:
                session.end(error)
                return
            if is_last:
                self._rest = None
                session.stalled.pop(self, None)
                return
        session.stalled[self] = None


@final
class _Rest:
    """The part of a message that is still to be sent: `parts`, with `transfer` as the next performative."""

    def __init__(self, delivery: OutgoingDelivery, transfer: Transfer, parts: list[bytes]) -> None:
        self.delivery = delivery
        self.is_aborted = False
        self._transfer = transfer
        self._parts = parts
        self._at: i64 = 0
        self._start: i64 = 0
        self._left: i64 = 0
        for part in parts:
            self._left += len(part)

    def give_up(self) -> None:
        """Abort: only one more transfer follows, with `aborted` set. It may also be the first transfer."""
        self.is_aborted = True
        self._transfer.aborted = True
        self._transfer.settled = True
        self._transfer.state = None
        self._parts = []
        self._left = 0

    def send_frame(self, session: LinkSession) -> bool:
        """Send one transfer, as large as the frame allows. Returns True if it was the last.

        Raises FrameSizeTooSmall if the performative alone does not fit a frame.
        """
        transfer = self._transfer
        left: i64 = self._left
        encoded = encode(transfer)
        room = session.frame_max - FRAME_HEAD_BYTES - len(encoded)
        if left > room:
            transfer.more = True
            encoded = encode(transfer)
            left = session.frame_max - FRAME_HEAD_BYTES - len(encoded)
        if left < 0 or (room < 0 and self._left == 0):
            raise FrameSizeTooSmall("a delivery state does not fit into the peer's frames", SCOPE_SESSION)
        self._left -= left
        session.begin_transfer(encoded, left)
        while left > 0:
            part = self._parts[self._at]
            step: i64 = len(part) - self._start
            if step > left:
                step = left
            session.write_payload(part, self._start, self._start + step)
            left -= step
            self._start += step
            if self._start == len(part):
                self._at += 1
                self._start = 0
        session.sent_transfer()
        if not transfer.more:
            return True
        # Further transfers need no delivery-id and tag: they belong to the delivery before (part 2 §2.7.5).
        self._transfer = Transfer(handle=transfer.handle, settled=transfer.settled)
        return False


def _signed(number: i64) -> i64:
    return number - 0x1_0000_0000 if number >= 0x8000_0000 else number
