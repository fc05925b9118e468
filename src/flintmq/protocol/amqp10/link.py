"""The common part of senders and receivers: the name, the state of each side, attaching and detaching.

A link can be attached again under its name, on this session or another. That makes another `Link` object; the owners
keep what the two have in common (the terminus, the unsettled deliveries).
"""

from abc import abstractmethod

from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import Amqp10Error, AmqpError, FlintError, FrameSizeTooSmall, LocalProtocolError
from flintmq.protocol.amqp10.faults import to_wire
from flintmq.protocol.amqp10.serial import after
from flintmq.protocol.amqp10.states import LINK, Endpoint
from flintmq.protocol.amqp10.transfers import SessionConnection, SessionTransfers
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.performatives import Attach, Detach, Flow


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkOwner:
    """Receives the events of a link. Raises an AmqpError or Amqp10Error to end the link, or what its scope says."""

    def on_attached(self, attach: Attach) -> None:
        """Handle the peer's answer to our attach. Without a terminus it is a refusal, and a detach follows."""
        return

    @abstractmethod
    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        """Handle a detach by the peer, or the end of the session. Called once; not called if this side detached.

        If `closed` is False, the terminus may wait for another attach. `link.live()` has the unsettled deliveries. If
        the link is not closed and there is no error, dispositions for them may still arrive (part 2 §2.7.6), until
        `link.take_unsettled()`.
        """

    def on_released(self) -> None:
        """Handle the answer to our detach, or the end of the connection or session in place of it."""
        return


class Link:
    """One end of a link on one session. `handle` is the handle of this side, `remote_handle` that of the peer."""

    def __init__(self, session: "LinkSession", name: str, is_receiver: bool) -> None:
        self.session = session
        self.name = name
        self.is_receiver = is_receiver
        self.handle: i64 = -1
        self.remote_handle: i64 = -1
        self.local: Endpoint = Endpoint.UNSENT
        self.remote: Endpoint = Endpoint.UNSENT
        # Whether transfers and flows may be sent.
        self.is_attached: bool = False
        # The peer's attach, once it has arrived.
        self.peer: Attach | None = None
        # The settle modes: before `accept` those that the peer asks for, which the owner may change; then those agreed.
        self.snd_settle_mode: i64 = 2
        self.rcv_settle_mode: i64 = 0
        # The properties of the peer's last flow.
        self.flow_properties: Fields | None = None
        # Whether the next `flush` has to send a flow.
        self.owes_flow = False
        # The number of unsettled deliveries of the link.
        self.unsettled: i64 = 0
        # Whether this side detached the link for a fault of the peer. A later frame on the link, or a disposition of
        # its deliveries, ends the session (part 2 §2.6.5).
        self.is_errant: bool = False

    # -- calls by the owner -------------------------------------------------------------------------------------

    def accept(self, answer: Attach) -> None:
        """Answer the peer's attach, now or later.

        `answer` says source, target, unsettled map, max-message-size, capabilities and properties; the name, the
        handle, the role, the settle modes of this link and the delivery count are set here.
        """
        if self.local is not Endpoint.UNSENT or self.remote is not Endpoint.ACTIVE:
            return
        self.session.send_attach(self, answer)

    def refuse(self, error: AmqpError | Amqp10Error | None) -> None:
        """Answer the peer's attach without a terminus of this side, and detach (amqp-1.0 part 2 §2.6.3)."""
        if self.local is not Endpoint.UNSENT or self.remote is Endpoint.UNSENT:
            return
        peer = self.peer
        assert peer is not None
        answer = Attach()
        if self.is_receiver:
            answer.source = peer.source
        else:
            answer.target = peer.target
        try:
            self.session.send_attach(self, answer)
        except FrameSizeTooSmall:
            # The peer's own terminus may be larger than the frames that it accepts.
            self.session.send_attach(self, Attach())
        self._detach(error, True)

    def detach(self, error: AmqpError | Amqp10Error | None = None, closed: bool = True) -> None:
        """Send detach. The link sends and accepts nothing more; `on_released` follows. Does nothing a second time.

        If `closed`, or with an error, the unsettled deliveries are forgotten, so call `take_unsettled` before if they
        are needed. Otherwise they can still be settled, until `take_unsettled`. With an error and not `closed`, the
        terminus may still be resumed (part 2 §2.6.5).
        """
        if self.local is Endpoint.UNSENT:
            self.refuse(error)
        elif self.local is Endpoint.ACTIVE:
            self._detach(error, closed)
            if closed or error is not None:
                self.forget_all()

    def fail(self, error: AmqpError | Amqp10Error) -> None:
        """Detach the link for a fault of the peer, or refuse its attach."""
        if self.local is Endpoint.CLOSED:
            return
        if self.local is Endpoint.UNSENT:
            self.refuse(error)
            return
        self.is_errant = True
        self.session.note_errant(self)
        self._detach(error, True)
        owner = self.link_owner()
        if owner is not None:
            owner.on_detached(error, True)
        self.forget_all()

    def _detach(self, error: AmqpError | Amqp10Error | None, closed: bool) -> None:
        self._leave()
        self.local = Endpoint.CLOSED
        self.session.send_detach(self, Detach(closed=closed, error=to_wire(error)))

    # -- for the session ----------------------------------------------------------------------------------------

    def link_owner(self) -> LinkOwner | None:
        raise LocalProtocolError("a link is a sender or a receiver")

    def receive_flow(self, flow: Flow) -> None:
        """Handle a flow with the peer's state of the link."""
        raise LocalProtocolError("a link is a sender or a receiver")

    def flow(self) -> Flow:
        """Return a flow with this side's state of the link."""
        raise LocalProtocolError("a link is a sender or a receiver")

    def forget_all(self) -> None:
        """Forget all unsettled deliveries, since the link has ended and no disposition may refer to them."""
        raise LocalProtocolError("a link is a sender or a receiver")

    def announced(self, attach: Attach) -> None:
        """Note the fields of our attach, which is about to be sent."""
        raise LocalProtocolError("a link is a sender or a receiver")

    def _leave(self) -> None:
        """Note a detach by either side, and give up a message that was sent or received in part."""
        self.is_attached = False

    def attached(self, attach: Attach) -> None:
        """Handle the peer's attach."""
        self.peer = attach
        self.remote = LINK[self.remote][spec.ATTACH]
        self.remote_handle = attach.handle
        if self.local is Endpoint.UNSENT:
            self.snd_settle_mode = attach.snd_settle_mode
            self.rcv_settle_mode = attach.rcv_settle_mode
        elif self.is_receiver:
            # Each side decides its own settle mode.
            self.snd_settle_mode = attach.snd_settle_mode
        else:
            self.rcv_settle_mode = attach.rcv_settle_mode
        self.is_attached = self.local is Endpoint.ACTIVE

    def detached(self, detach: Detach, error: FlintError | None) -> None:
        """Handle the peer's detach; `error` is the error in it."""
        self.remote = LINK[self.remote][spec.DETACH]
        owner = self.link_owner()
        if self.local is Endpoint.CLOSED:
            if owner is not None:
                owner.on_released()
            return
        self._leave()
        if self.local is Endpoint.UNSENT:
            self.session.send_attach(self, Attach())
        self.local = Endpoint.CLOSED
        self.session.send_detach(self, Detach(closed=detach.closed))
        if owner is not None:
            owner.on_detached(error, detach.closed)
        if detach.closed or error is not None:
            self.forget_all()

    def abandon(self, error: FlintError | None) -> None:
        """End the link because its session has ended."""
        owner = self.link_owner()
        was = self.local
        self._leave()
        self.local = Endpoint.CLOSED
        self.remote = Endpoint.CLOSED
        if owner is None:
            return
        if was is Endpoint.CLOSED:
            owner.on_released()
        else:
            owner.on_detached(error, False)


class LinkSession(SessionTransfers):
    """A session as its links use it."""

    def __init__(self, connection: SessionConnection, number: i64) -> None:
        super().__init__(connection, number)
        # The links whose message was sent in part. A dict keeps the order in which they continue.
        self.stalled: dict[Link, None] = {}
        # The link that began a delivery last. It is the last to continue when there is room again.
        self._last: Link | None = None

    def take_delivery_id(self, link: Link) -> i64:
        """Return the id of a new delivery of `link`. The other links come first the next time that there is room."""
        self._last = link
        self.connection.last = self
        delivery_id = self._next_delivery_id
        self._next_delivery_id = after(delivery_id, 1)
        return delivery_id

    @abstractmethod
    def send_attach(self, link: Link, attach: Attach) -> None:
        """Attach a link with the lowest free handle (part 2 §2.6.3).

        Raises, with nothing done, FrameSizeTooSmall if the attach is too large for the peer, and ResourceLimitExceeded
        if the peer allows no more links.
        """

    @abstractmethod
    def send_detach(self, link: Link, detach: Detach) -> None:
        """Send a detach after everything that was gathered, and free the handle if the peer has detached, too."""

    @abstractmethod
    def note_errant(self, link: Link) -> None:
        """Note the deliveries of a link that is about to be detached for a fault of the peer."""

    @abstractmethod
    def owe_flow(self, link: Link) -> None:
        """Send a flow with the state of a link at the next `flush`."""
