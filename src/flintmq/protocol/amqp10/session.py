"""A session: it begins and ends, attaches links to handles, and finds the link of a frame (amqp-1.0 part 2 §2.5, §2.6).

The windows and the unsettled deliveries of a session are in `transfers.py`; the links put messages together.
"""

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import (
    SCOPE_SESSION,
    Amqp10Error,
    AmqpError,
    ErrantLink,
    FlintError,
    FrameSizeTooSmall,
    FramingError,
    HandleInUse,
    IllegalState,
    InvalidField,
    LocalProtocolError,
    PreconditionFailed,
    ResourceLimitExceeded,
    UnattachedHandle,
    WindowViolation,
)
from flintmq.base.limits import SESSION_WINDOW_TRANSFERS, UNACKED_TAGS_PER_UNIT
from flintmq.base.rotation import behind
from flintmq.protocol.amqp10.delivery import Delivery
from flintmq.protocol.amqp10.errant_deliveries import ErrantDeliveries
from flintmq.protocol.amqp10.faults import from_wire, to_wire
from flintmq.protocol.amqp10.frame_writer import encode
from flintmq.protocol.amqp10.link import Link, LinkSession
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink, SenderOwner
from flintmq.protocol.amqp10.serial import distance
from flintmq.protocol.amqp10.states import LINK, SESSION, Endpoint
from flintmq.protocol.amqp10.transfers import SessionConnection
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.frames import FRAME_HEAD_BYTES
from flintmq.wire.amqp10.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Performative,
    Transfer,
)
from flintmq.wire.amqp10.states import DeliveryState

_SIZE_MAX: Final = 2**63 - 1


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionOwner:
    """Receives the events of a session. Raises an AmqpError or Amqp10Error to end what the error's scope says."""

    def on_begun(self, begin: Begin) -> None:
        """Handle the peer's answer to our begin."""
        return

    @abstractmethod
    def on_sender(self, link: SenderLink, attach: Attach) -> SenderOwner:
        """Handle an attach of the peer as receiver, and return the owner of our sending end.

        The owner calls `link.accept` or `link.refuse`, now or later; raising an error refuses, too.
        """

    @abstractmethod
    def on_receiver(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        """Handle an attach of the peer as sender, and return the owner of our receiving end.

        The owner calls `link.accept` or `link.refuse`, now or later; raising an error refuses, too.
        """

    @abstractmethod
    def on_ended(self, error: FlintError | None) -> None:
        """Handle the end of the session, whichever side ended it. Called once, after the links ended."""


@final
class Session(LinkSession):
    """A session. It begins and ends, and attaches links; what these need of it is in `LinkSession`."""

    def __init__(self, connection: SessionConnection, number: i64) -> None:
        super().__init__(connection, number)
        self.owner: SessionOwner | None = None
        self.peer: Begin | None = None
        # The deliveries that were unsettled on links detached for a fault of the peer.
        self._errant_outgoing = ErrantDeliveries()
        self._errant_incoming = ErrantDeliveries()
        # Whether both sides have sent begin, and this side has not sent end.
        self.is_listening: bool = False
        # The link of the current frame, to which an error belongs.
        self.at: Link | None = None
        self._by_handle: list[Link | None] = []
        self._by_remote_handle: list[Link | None] = []
        # The links that this side has attached and the peer has not, by our role and the link's name.
        self._expected: dict[str, Link] = {}
        # The links whose flows `flush` has to write.
        self._owing: list[Link] = []

    @property
    def is_open(self) -> bool:
        return self.local is Endpoint.ACTIVE and self.remote is Endpoint.ACTIVE

    @property
    def links(self) -> list[Link]:
        """The links that have a handle of this side."""
        return [link for link in self._by_handle if link is not None]

    # -- calls by the owner -------------------------------------------------------------------------------------

    def attach_sender(self, owner: SenderOwner, attach: Attach) -> SenderLink:
        """Attach a link to send on.

        `attach` says the name, settle modes, termini, capabilities and properties; the other fields are set here.
        Raises LocalProtocolError if the session is not open or the link is being attached already, FrameSizeTooSmall if
        the attach is too large for the peer, ResourceLimitExceeded if the peer allows no more links.
        """
        link = SenderLink(self, attach.name)
        link.owner = owner
        self._attach(link, attach)
        return link

    def attach_receiver(self, owner: ReceiverOwner, attach: Attach) -> ReceiverLink:
        """Attach a link to receive on. Credit can be granted at once.

        `attach` and the errors are those of `attach_sender`.
        """
        link = ReceiverLink(self, attach.name)
        link.owner = owner
        self._attach(link, attach)
        return link

    def _attach(self, link: Link, attach: Attach) -> None:
        if self.local is not Endpoint.ACTIVE:
            raise LocalProtocolError(f"the session is {self.local.value}")
        key = _key(link.is_receiver, link.name)
        if key in self._expected:
            raise LocalProtocolError(f"link '{link.name}' is being attached already")
        link.snd_settle_mode = attach.snd_settle_mode
        link.rcv_settle_mode = attach.rcv_settle_mode
        self._expected[key] = link
        try:
            self.send_attach(link, attach)
        except (AmqpError, Amqp10Error):
            del self._expected[key]
            raise

    def end(self, error: AmqpError | Amqp10Error | None = None) -> None:
        if self.local is not Endpoint.ACTIVE:
            return
        self.flush()
        self._over(error, End(error=to_wire(error)))
        if self.remote is Endpoint.CLOSED:
            self.connection.release(self)

    def flush(self) -> None:
        self._is_dirty = False
        if self.local is not Endpoint.ACTIVE:
            return
        self.flush_dispositions()
        owing = self._owing
        if owing:
            self._owing = []
            for link in owing:
                link.owes_flow = False
                if link.is_attached:
                    self.send_flow(link.flow())
        if self._owes_window:
            self.send_flow(Flow())

    # -- for links ----------------------------------------------------------------------------------------------

    def owe_flow(self, link: Link) -> None:
        if not link.owes_flow and link.is_attached:
            link.owes_flow = True
            self._owing.append(link)
            if not self._is_dirty:
                self._mark_dirty()

    def send_attach(self, link: Link, attach: Attach) -> None:
        handles = self._by_handle
        handle: i64 = 0
        while handle < len(handles) and handles[handle] is not None:
            handle += 1
        if self.peer is not None and handle > self.peer.handle_max:
            raise ResourceLimitExceeded(
                f"all {self.peer.handle_max + 1} links that the peer allows are in use", SCOPE_SESSION
            )
        attach.name = link.name
        attach.handle = handle
        attach.role = link.is_receiver
        attach.snd_settle_mode = link.snd_settle_mode
        attach.rcv_settle_mode = link.rcv_settle_mode
        if isinstance(link, SenderLink):
            attach.initial_delivery_count = link.delivery_count
            attach.max_message_size = None
        else:
            assert isinstance(link, ReceiverLink)
            attach.initial_delivery_count = None
            if attach.max_message_size is not None:
                link.message_max = min(attach.max_message_size, _SIZE_MAX)
            attach.max_message_size = link.message_max or None
        self._fit(attach)
        if handle == len(handles):
            handles.append(link)
        else:
            handles[handle] = link
        link.handle = handle
        if isinstance(link, SenderLink):
            link.compose(self.number)
        link.announced(attach)
        link.local = Endpoint.ACTIVE
        link.is_attached = link.remote is Endpoint.ACTIVE
        self.frames.send(self.number, attach)
        if isinstance(link, ReceiverLink) and link.credit > 0:
            self.owe_flow(link)

    def _fit(self, attach: Attach) -> None:
        """Make an attach fit a frame: shorten its unsettled map (part 2 §2.7.3), and then drop its properties.

        Raises FrameSizeTooSmall if it still does not fit.
        """
        while len(encode(attach)) + FRAME_HEAD_BYTES > self.frame_max:
            unsettled = attach.unsettled
            if not unsettled and attach.properties:
                attach.properties = {}
                continue
            if not unsettled:
                raise FrameSizeTooSmall(
                    f"the attach of link '{attach.name}' needs more than {self.frame_max} bytes, which the peer takes",
                    SCOPE_SESSION,
                )
            tags = list(unsettled)
            attach.unsettled = {tag: unsettled[tag] for tag in tags[: len(tags) // 2]}
            attach.incomplete_unsettled = True

    def send_detach(self, link: Link, detach: Detach) -> None:
        self.flush()
        detach.handle = link.handle
        self.frames.send(self.number, detach)
        self._free(link)

    def _free(self, link: Link) -> None:
        """Free the handle of a link if both sides have detached it (part 2 §2.6.2)."""
        if link.local is Endpoint.CLOSED and link.remote is Endpoint.CLOSED and link.handle >= 0:
            self._by_handle[link.handle] = None
            link.handle = -1

    def pump(self) -> None:
        if not self._is_starved or self.local is not Endpoint.ACTIVE:
            return
        self._is_starved = False
        for link in list(self.stalled):
            if isinstance(link, SenderLink):
                link.go_on()
            if self._is_starved:
                return
        for each in behind(self.links, self._last):
            if isinstance(each, SenderLink) and each.can_resume:
                owner = each.owner
                if owner is not None:
                    owner.on_room(each)

    def note_errant(self, link: Link) -> None:
        if isinstance(link, SenderLink):
            self._errant_outgoing.add(link.live())
        elif isinstance(link, ReceiverLink):
            self._errant_incoming.add(link.live())

    # -- input from the peer ------------------------------------------------------------------------------------

    def begun(self, begin: Begin, remote_number: i64) -> None:
        """Handle the peer's begin on channel `remote_number`."""
        self.remote_number = remote_number
        self.remote = SESSION[self.remote][spec.BEGIN]
        self.peer = begin
        self.is_listening = self.local is Endpoint.ACTIVE
        self._next_incoming_id = begin.next_outgoing_id
        # The transfers sent before the peer's begin count against its window.
        self._remote_window = begin.incoming_window - self._next_outgoing_id

    def begin(self, begin: Begin) -> None:
        """Send begin, either to open a session or to answer the peer's begin."""
        begin.remote_channel = self.remote_number if self.remote_number >= 0 else None
        begin.next_outgoing_id = self._next_outgoing_id
        begin.incoming_window = SESSION_WINDOW_TRANSFERS
        begin.outgoing_window = spec.UINT_MAX >> 1
        begin.handle_max = self.connection.handle_max
        self.local = Endpoint.ACTIVE
        self.is_listening = self.remote is Endpoint.ACTIVE
        self.frames.send(self.number, begin)

    def receive_settled(self, handle: i64, data: bytes, start: i64, stop: i64) -> bool:
        """Handle a settled transfer of the fast path. Returns False, with nothing done, if it needs
        `receive_transfer`.
        """
        link = self._receiver_at(handle)
        if link is None or self._incoming_left <= 0:
            return False
        self._count_incoming()
        self.at = link
        if link.receive_settled(data, start, stop):
            return True
        self._uncount_incoming()
        return False

    def receive_unsettled(
        self, handle: i64, delivery_id: i64, tag: bytes, data: bytes, start: i64, stop: i64, message_format: i64
    ) -> bool:
        """Handle an unsettled transfer of the fast path. Returns False, with nothing done, if it needs
        `receive_transfer`.
        """
        link = self._receiver_at(handle)
        if link is None or self._incoming_left <= 0:
            return False
        self._count_incoming()
        self.at = link
        if link.receive_unsettled(delivery_id, tag, data, start, stop, message_format):
            return True
        self._uncount_incoming()
        return False

    def _receiver_at(self, handle: i64) -> ReceiverLink | None:
        """Return the link that receives on the peer's `handle`, if it is attached."""
        if handle >= len(self._by_remote_handle):
            return None
        link = self._by_remote_handle[handle]
        if isinstance(link, ReceiverLink) and link.is_attached:
            return link
        return None

    def receive_transfer(self, transfer: Transfer, data: bytes, start: i64, stop: i64) -> None:
        """Handle any transfer; its payload is data[start:stop]. Raises an Amqp10Error if it is not legal."""
        if self._incoming_left <= 0:
            raise WindowViolation(f"a transfer beyond the window of {SESSION_WINDOW_TRANSFERS}")
        self._count_incoming()
        link = self._link_of(transfer.handle, transfer)
        if link is None:
            return
        if not isinstance(link, ReceiverLink):
            raise IllegalState(f"a transfer on link '{link.name}', on which this side sends", SCOPE_SESSION)
        if not link.is_attached:
            raise IllegalState(f"a transfer on link '{link.name}', which is not attached yet", SCOPE_SESSION)
        self.at = link
        link.receive(transfer, data, start, stop)

    def receive_disposition(self, disposition: Disposition) -> None:
        """Handle a disposition (part 2 §2.7.6): remove the deliveries that the peer settles, and tell their owners.

        Raises ErrantLink for a delivery whose link was detached with an error, InvalidField for a wrong range.
        """
        first: i64 = disposition.first
        last: i64 = first if disposition.last is None else disposition.last
        state = disposition.state
        settled = disposition.settled
        # If the peer is the receiver, its disposition refers to deliveries that this side sent.
        unsettled = self.outgoing if disposition.role else self.incoming
        errant = self._errant_outgoing if disposition.role else self._errant_incoming
        if first == last:
            only = unsettled.get(first)
            if only is not None:
                self._dispose(only, state, settled)
            elif errant.overlaps(first, first):
                raise ErrantLink(f"a disposition of delivery {first}, whose link was detached with an error")
            return
        if distance(first, last) < 0:
            raise InvalidField(f"a disposition of deliveries {first} to {last}")
        if errant.overlaps(first, last):
            raise ErrantLink(
                f"a disposition of deliveries {first} to {last}: a link of theirs was detached with an error"
            )
        found = unsettled.between(first, last)
        self.connection.spend(len(found) + unsettled.looked_at // UNACKED_TAGS_PER_UNIT)
        for delivery in found:
            if not self.is_listening:
                return
            self._dispose(delivery, state, settled)

    def _dispose(self, delivery: Delivery, state: DeliveryState | None, settled: bool) -> None:
        if delivery.is_settled:
            return
        if state is not None:
            delivery.state = state
        if isinstance(delivery, OutgoingDelivery):
            sender = delivery.link
            self.at = sender
            if settled:
                sender.forget(delivery)
            if sender.owner is not None:
                sender.owner.on_disposition(delivery, state, settled)
        else:
            assert isinstance(delivery, IncomingDelivery)
            receiver = delivery.link
            self.at = receiver
            if settled:
                receiver.forget(delivery)
            if receiver.owner is not None:
                receiver.owner.on_disposition(delivery, state, settled)

    def receive_flow(self, flow: Flow) -> None:
        """Handle a flow: the peer's state of the session, and, with a handle, of a link (part 2 §2.5.6, §2.7.4).

        Raises InvalidField if it has fields of a link without a handle, and the errors of a wrong handle.
        """
        self._next_incoming_id = flow.next_outgoing_id
        expected: i64 = 0 if flow.next_incoming_id is None else flow.next_incoming_id
        window: i64 = flow.incoming_window + distance(self._next_outgoing_id, expected)
        self._remote_window = max(0, window)
        if flow.handle is not None:
            link = self._link_of(flow.handle, flow)
            if link is not None:
                self.at = link
                link.receive_flow(flow)
                self.at = None
        elif not self.connection.is_lenient and (
            flow.delivery_count is not None or flow.link_credit is not None or flow.available is not None or flow.drain
        ):
            raise InvalidField("a flow without a handle that speaks of a link")
        elif flow.echo:
            self._owe_window()
        if self._is_starved:
            self.pump()

    def receive(self, performative: Performative) -> None:
        """Handle an attach, a detach or an end."""
        if isinstance(performative, Attach):
            self._receive_attach(performative)
        elif isinstance(performative, Detach):
            self._receive_detach(performative)
        else:
            assert isinstance(performative, End)
            self._receive_end(performative)

    def _at_handle(self, handle: i64, performative: Performative) -> Link | None:
        """Return the link of the peer's `handle`; None if it has none.

        Raises UnattachedHandle or HandleInUse if the performative is not legal there.
        """
        link = self._by_remote_handle[handle] if handle < len(self._by_remote_handle) else None
        if performative.descriptor not in LINK[Endpoint.UNSENT if link is None else link.remote]:
            if link is not None:
                raise HandleInUse(f"handle {handle} is that of another link")
            if not isinstance(performative, Detach) or not self.connection.is_lenient:
                raise UnattachedHandle(f"{performative.type_name} on handle {handle}, to which no link is attached")
        return link

    def _link_of(self, handle: i64, performative: Performative) -> Link | None:
        """Return the link of a flow or transfer; None if it is to be dropped, since this side has detached the link.

        Raises UnattachedHandle if the handle has no link, ErrantLink if its link was detached with an error.
        """
        link = self._at_handle(handle, performative)
        if link is not None and link.local is Endpoint.CLOSED:
            if link.is_errant:
                raise ErrantLink(f"{performative.type_name} on link '{link.name}', which was detached with an error")
            return None
        return link

    def _receive_attach(self, attach: Attach) -> None:
        handle: i64 = attach.handle
        handle_max = self.connection.handle_max
        if handle > handle_max:
            raise FramingError(f"handle {handle} is above the handle-max of this session ({handle_max})")
        self._at_handle(handle, attach)
        if not attach.role and attach.initial_delivery_count is None:
            raise InvalidField("a sender's attach needs initial-delivery-count")
        # Our role is the opposite of the peer's.
        we_receive = not attach.role
        self._check_name(attach, we_receive)
        handles = self._by_remote_handle
        while len(handles) <= handle:
            handles.append(None)
        link = self._expected.pop(_key(we_receive, attach.name), None)
        is_answer = link is not None
        if link is None:
            link = ReceiverLink(self, attach.name) if we_receive else SenderLink(self, attach.name)
        handles[handle] = link
        self.at = link
        link.attached(attach)
        if isinstance(link, SenderLink):
            self._pair_with_receiver(link, attach, is_answer)
        else:
            assert isinstance(link, ReceiverLink)
            self._pair_with_sender(link, attach, is_answer)

    def _check_name(self, attach: Attach, we_receive: bool) -> None:
        """Check that no link of this direction on the session has the name (part 2 §2.6.1).

        A second attach does not take the link over from the first: some clients would take its answer for the answer
        to the first. Raises PreconditionFailed, or ErrantLink if the link was detached with an error.
        """
        for link in self._by_remote_handle:
            if link is None or link.name != attach.name or link.is_receiver != we_receive:
                continue
            if link.local is not Endpoint.CLOSED:
                raise PreconditionFailed(f"link '{link.name}' is attached to this session already")
            if link.is_errant and attach.unsettled is None:
                # It can be resumed, but not attached again (part 2 §2.6.5).
                raise ErrantLink(f"attach of link '{link.name}', which was detached with an error")

    def _pair_with_receiver(self, link: SenderLink, attach: Attach, is_answer: bool) -> None:
        # A ulong, limited to half of its range, so that it fits an i64: no message is that large.
        link.message_max = min(attach.max_message_size or 0, _SIZE_MAX)
        if attach.incomplete_unsettled:
            link.only_resumes = True
        if is_answer:
            assert link.owner is not None
            link.owner.on_attached(attach)
            return
        owner = self.owner
        assert owner is not None
        link.owner = owner.on_sender(link, attach)

    def _pair_with_sender(self, link: ReceiverLink, attach: Attach, is_answer: bool) -> None:
        link.starts_at(attach.initial_delivery_count or 0)
        if is_answer:
            assert link.owner is not None
            link.owner.on_attached(attach)
            if link.credit > 0:
                self.owe_flow(link)
            return
        owner = self.owner
        assert owner is not None
        link.owner = owner.on_receiver(link, attach)

    def _receive_detach(self, detach: Detach) -> None:
        handle: i64 = detach.handle
        link = self._at_handle(handle, detach)
        if link is None:
            return
        self._by_remote_handle[handle] = None
        link.detached(detach, from_wire(detach.error))
        self._free(link)

    def _receive_end(self, end: End) -> None:
        self.remote = SESSION[self.remote][spec.END]
        if self.local is Endpoint.ACTIVE:
            self.flush()
            self._over(from_wire(end.error), End())
        self.connection.release(self)

    def abandon(self, error: FlintError | None) -> None:
        """End the session because its connection has ended."""
        self.remote = Endpoint.CLOSED
        if self.local is Endpoint.ACTIVE:
            self._over(error, None)

    def _over(self, error: FlintError | None, end: End | None) -> None:
        self.local = Endpoint.CLOSED
        self.is_listening = False
        if end is not None:
            self.frames.send(self.number, end)
        # A link has a handle of only one side while the other has not attached it, or has detached it.
        known = dict.fromkeys([*self._by_handle, *self._by_remote_handle])
        for link in known:
            if link is not None:
                link.abandon(error)
        self._by_handle = []
        self._by_remote_handle = []
        self._expected = {}
        self.stalled = {}
        owner = self.owner
        if owner is not None:
            owner.on_ended(error)
        self.outgoing.clear()
        self.incoming.clear()


def _key(is_receiver: bool, name: str) -> str:
    return f"{'<' if is_receiver else '>'}{name}"
