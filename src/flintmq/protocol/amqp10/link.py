"""What both ends of a link have in common: its name, how far each side has taken it, attaching and detaching.

A link may be attached again under the same name, on this session or another: that is another `Link`, and what the two
have in common (the terminus, unsettled deliveries) is their owners' affair.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import Amqp10Error, AmqpError, FlintError, FrameSizeTooSmall, LocalProtocolError
from flintmq.protocol.amqp10.faults import to_wire
from flintmq.protocol.amqp10.states import Endpoint
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.performatives import Attach, Detach, Flow

if TYPE_CHECKING:
    from flintmq.protocol.amqp10.session import Session


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkOwner:
    """Who is told what happens on a link. Raise an AmqpError or Amqp10Error to end the link, or what it says."""

    def on_attached(self, attach: Attach) -> None:
        """The peer answered our attach. Where its terminus is missing, it refuses, and a detach follows."""
        return

    @abstractmethod
    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        """The peer detached the link, or the session is over; told once, and not where we detached it ourselves.

        `closed` says that it is the link's end; where it is False, the terminus may wait to be attached again. What is
        unsettled by then is in `link.live()`. Where the link is not closed and there is no error, dispositions for it
        may still come (part 2 §2.7.6), until `link.take_unsettled()`.
        """

    def on_released(self) -> None:
        """Behind a detach of ours: the peer answered, or is gone."""
        return


class Link:
    """One end of a link on one session. `handle` is what we call it, `remote_handle` what the peer does."""

    def __init__(self, session: "Session", name: str, is_receiver: bool) -> None:
        self.session = session
        self.name = name
        self.is_receiver = is_receiver
        self.handle: i64 = -1
        self.remote_handle: i64 = -1
        self.local: Endpoint = Endpoint.UNSENT
        self.remote: Endpoint = Endpoint.UNSENT
        # Whether transfers and flows may go.
        self.is_attached: bool = False
        # What the peer says of the link, from when it has attached it.
        self.peer: Attach | None = None
        # Before `accept`: what the peer asks for, and free to be changed. Afterwards what both agreed on.
        self.snd_settle_mode: i64 = 2
        self.rcv_settle_mode: i64 = 0
        # What the peer's flow said last beside its numbers.
        self.flow_properties: Fields | None = None
        # A flow is to be sent with the next `flush`.
        self.owes_flow = False
        # How many deliveries on it are not settled.
        self.unsettled: i64 = 0
        # We detached it for a fault of the peer: what it still sends on it, or says of its deliveries, ends the session
        # (part 2 §2.6.5).
        self.is_errant: bool = False

    # -- what the owner says ------------------------------------------------------------------------------------

    def accept(self, answer: Attach) -> None:
        """Answer the peer's attach, now or later.

        `answer` says source, target, unsettled maps, max-message-size, capabilities and properties; the name, the
        handle, the role, the settle modes of this link and the delivery count are filled in.
        """
        if self.local is not Endpoint.UNSENT or self.remote is not Endpoint.ACTIVE:
            return
        self.session.send_attach(self, answer)

    def refuse(self, error: AmqpError | Amqp10Error | None) -> None:
        """Answer the peer's attach with no terminus of ours, and detach (amqp-1.0 part 2 §2.6.3)."""
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
            # What the peer says of its own end may be larger than what it takes.
            self.session.send_attach(self, Attach())
        self._detach(error, True)

    def detach(self, error: AmqpError | Amqp10Error | None = None, closed: bool = True) -> None:
        """Send detach: nothing more goes out or comes in. `on_released` follows. Harmless when it was done already.

        Where it closes the link, or there is an error, what is unsettled is forgotten; `take_unsettled` comes before.
        Otherwise it can be settled still, until `take_unsettled`.
        With an error and not `closed`, the terminus may still be there to be resumed (part 2 §2.6.5).
        """
        if self.local is Endpoint.UNSENT:
            self.refuse(error)
        elif self.local is Endpoint.ACTIVE:
            self._detach(error, closed)
            if closed or error is not None:
                self.forget_all()

    def fail(self, error: AmqpError | Amqp10Error) -> None:
        """The peer did on this link what it may not."""
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
        """The peer said what it knows of the link."""
        raise LocalProtocolError("a link is a sender or a receiver")

    def flow(self) -> Flow:
        """What this end knows of the link."""
        raise LocalProtocolError("a link is a sender or a receiver")

    def forget_all(self) -> None:
        """The link is no more, and what is unsettled is not called by its number again."""
        raise LocalProtocolError("a link is a sender or a receiver")

    def announced(self, attach: Attach) -> None:
        """Our attach goes out."""
        raise LocalProtocolError("a link is a sender or a receiver")

    def _leave(self) -> None:
        """Detached by either side: what was begun is given up."""
        self.is_attached = False

    def attached(self, attach: Attach) -> None:
        """The peer's attach came."""
        self.peer = attach
        self.remote = Endpoint.ACTIVE
        self.remote_handle = attach.handle
        if self.local is Endpoint.UNSENT:
            self.snd_settle_mode = attach.snd_settle_mode
            self.rcv_settle_mode = attach.rcv_settle_mode
        elif self.is_receiver:
            # Each side says for itself how it will settle.
            self.snd_settle_mode = attach.snd_settle_mode
        else:
            self.rcv_settle_mode = attach.rcv_settle_mode
        self.is_attached = self.local is Endpoint.ACTIVE

    def detached(self, detach: Detach, error: FlintError | None) -> None:
        """The peer's detach came."""
        self.remote = Endpoint.CLOSED
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
        """The session is over, and this link with it."""
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
