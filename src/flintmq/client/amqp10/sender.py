"""The sending end of a link, without its socket: messages that wait for credit, or for an outcome."""

from collections import deque
from typing import Final, final

from flintmq.base.errors import FlintError
from flintmq.client.amqp10.errors import LinkDetached, SendFailed, link_error
from flintmq.client.waitable import Waitable
from flintmq.protocol.amqp10.delivery import tag_of
from flintmq.protocol.amqp10.resumption import Action, Plan
from flintmq.protocol.amqp10.resumption import plan as plan_for
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink, SenderOwner
from flintmq.protocol.amqp10.session import Session
from flintmq.protocol.amqp10.states import Endpoint
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.received import bytes_before
from flintmq.wire.amqp10.spec import SND_SETTLED
from flintmq.wire.amqp10.states import Accepted, DeliveryState, Outcome, Received, TransactionalState
from flintmq.wire.amqp10.termini import Coordinator, Source, Target

# The greatest number of encoded messages that wait for credit. Then, the program has to wait.
_WAITING_MAX: Final = 1000


@final
class Sent(Waitable):
    """A message that was sent. When it is ready, `outcome` has its outcome; None if the link sends settled messages."""

    def __init__(self, number: int, payload: bytes, txn_id: bytes, is_watched: bool) -> None:
        super().__init__()
        self.number = number
        # Whether a call waits for this outcome, so that `report` must not report it again.
        self.is_watched = is_watched
        self.payload = payload
        self.txn_id = txn_id
        self.outcome: DeliveryState | None = None
        # The action for the message after its link was lost.
        self.plan: Plan | None = None

    @property
    def tag(self) -> bytes:
        return tag_of(self.number)


@final
class ClientSender(SenderOwner):
    """The sending end of a link. `opened` becomes ready when the server has attached it.

    `idle` is ready while every message has an outcome. The link outlives its connection: unsettled messages stay here
    until it is attached to another one.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        target: Target | Coordinator,
        snd_settle_mode: int,
        rcv_settle_mode: int,
        properties: Fields | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.snd_settle_mode = snd_settle_mode
        self.rcv_settle_mode = rcv_settle_mode
        self.properties: Fields = properties or {}
        self.opened: Waitable = Waitable()
        self.ended: Waitable = Waitable()
        self.idle: Waitable = Waitable()
        # Not ready while `_WAITING_MAX` messages wait for credit.
        self.room: Waitable = Waitable()
        self.room.ready()
        self.idle.ready()
        # The error that ended the link; None while it is attached.
        self.error: FlintError | None = None
        # The server's attach frame.
        self.peer: Attach | None = None
        self._link: SenderLink | None = None
        self._session: Session | None = None
        # The link of the lost connection, until another one is attached.
        self._former: SenderLink | None = None
        self._count = 0
        # Messages without an outcome are in `_unsettled` (sent, by number, in order) or `_waiting` (for credit).
        # The messages of `_unsettled` that are to be resumed are also in `_resuming`.
        self._resuming: deque[Sent] = deque()
        # If the server could send only a part of its unsettled map: its deliveries that this side does not know, and
        # aborts. When all of the part are settled, another attach gets the next part.
        self._strange: deque[bytes] = deque()
        self._is_partial = False
        # The link is detached to be attached again; and the argument of `close`, if it was called meanwhile.
        self._comes_again = False
        self._close_wanted: bool | None = None
        self._waiting: deque[Sent] = deque()
        self._unsettled: dict[int, Sent] = {}
        # The number of the first message since the last report, and the messages that were not accepted since then.
        self._first = 0
        self._refused: list[tuple[int, DeliveryState | None]] = []

    @property
    def unsettled(self) -> int:
        """How many messages have no outcome yet."""
        return len(self._waiting) + len(self._unsettled)

    # -- the link -----------------------------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Attach the link. After a lost connection, unsettled messages are resumed."""
        self.opened = Waitable()
        self.ended = Waitable()
        self.error = None
        for sent in [sent for sent in self._unsettled.values() if sent.txn_id]:
            # A lost connection has rolled back the transaction of this message.
            del self._unsettled[sent.number]
        for sent in (*self._unsettled.values(), *self._waiting):
            sent.renew()
        self._see_to_idle()
        self.room.error = None
        self.room.is_ready = len(self._waiting) < _WAITING_MAX
        unsettled: dict[bytes, DeliveryState | None] = {sent.tag: None for sent in self._unsettled.values()}
        # An attach without a map makes a new link. An empty map resumes a link that has nothing unsettled.
        is_another = self.peer is None
        attach = Attach(
            name=self.name,
            source=self.source,
            target=self.target,
            snd_settle_mode=self.snd_settle_mode,
            rcv_settle_mode=self.rcv_settle_mode,
            unsettled=None if is_another else unsettled,
            properties=self.properties,
        )
        former = self._link or self._former
        if former is not None:
            # The link may still be attached on the former connection, whose events must be ignored from now on.
            former.owner = _Left()
            former.take_unsettled()
        self._session = session
        self._link = session.attach_sender(self, attach)

    def close(self, closed: bool) -> None:
        """Detach the link; `ended` becomes ready when the server agrees."""
        if self._comes_again:
            self._close_wanted = closed
        elif self._link is not None and self.error is None:
            self._link.detach(None, closed)

    def check(self) -> None:
        """Raise what ended the link, if it has ended."""
        if self.error is not None:
            raise self.error.with_traceback(None)

    # -- messages -----------------------------------------------------------------------------------------------

    def send(self, payload: bytes, txn_id: bytes = b"", is_watched: bool = False) -> Sent:
        """Send a message as soon as there is credit. Wait for `room` before each of many messages."""
        self.check()
        sent = Sent(self._count, payload, txn_id, is_watched)
        self._count += 1
        self._waiting.append(sent)
        self.idle.is_ready = False
        if len(self._waiting) >= _WAITING_MAX:
            self.room.is_ready = False
        self._pump()
        return sent

    def say_first(self) -> None:
        """Send the pending dispositions of this connection before the next message."""
        if self._link is not None:
            self._link.session.flush()

    def report(self) -> None:
        """Raise SendFailed for messages that were refused since the last report, and what ended the link."""
        self.check()
        refused = self._refused
        first = self._first
        self._first = self._count
        self._refused = []
        if refused:
            raise SendFailed([(number - first, state) for number, state in refused])

    def _pump(self) -> None:
        link = self._link
        waiting = self._waiting
        if link is None:
            return
        while self._strange and link.can_resume:
            link.abort_resumed(self._strange.popleft())
        while self._resuming and link.can_resume:
            self._resume(link, self._resuming.popleft())
        if self._resuming or self._strange:
            return
        if self._is_partial:
            self._come_again(link)
            return
        settled = link.snd_settle_mode == SND_SETTLED
        while waiting and link.can_send:
            sent = waiting.popleft()
            if sent.txn_id:
                state = TransactionalState(sent.txn_id)
                link.send_tagged(sent.tag, [sent.payload], settled, state=state, mark=sent)
            else:
                link.send(sent.number, b"", sent.payload, settled, sent)
            if settled:
                sent.ready()
            else:
                self._unsettled[sent.number] = sent
        if not self.room.is_ready and len(waiting) < _WAITING_MAX:
            self.room.ready()
        if link.drain and not waiting:
            link.drained()
        if settled:
            self._see_to_idle()

    def _come_again(self, link: SenderLink) -> None:
        """Detach when all of the server's partial map is settled, because the next attach gets the next part."""
        if link.unsettled == 0 and not self._comes_again:
            self._comes_again = True
            link.detach(None, closed=False)

    def _resume(self, link: SenderLink, sent: Sent) -> None:
        """Continue a message that the receiver knows, where it stopped; or accept what it decided (§3.4.6, cases 2 to
        4).
        """
        plan = sent.plan
        assert plan is not None
        if plan.action is Action.SETTLE:
            link.resume(sent.tag, [], plan.state, settled=True)
            self._settle(sent, plan.state)
        else:
            assert isinstance(plan.state, Received)
            rest = sent.payload[bytes_before(sent.payload, plan.state) :]
            link.resume(sent.tag, [rest], plan.state, mark=sent)

    def _settle(self, sent: Sent, state: DeliveryState | None) -> None:
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        self._unsettled.pop(sent.number, None)
        sent.outcome = outcome
        if not isinstance(outcome, Accepted) and not sent.is_watched:
            self._refused.append((sent.number, outcome))
        sent.ready()
        self._see_to_idle()

    def _see_to_idle(self) -> None:
        if not self._waiting and not self._unsettled:
            if not self.idle.is_ready:
                self.idle.ready()
        else:
            self.idle.error = None
            self.idle.is_ready = False

    # -- events of the engine -----------------------------------------------------------------------------------

    def on_attached(self, attach: Attach) -> None:
        if attach.target is None:
            # The server refuses the link; its detach, which follows, has the reason.
            return
        self.peer = attach
        self._take_up(attach)
        self.opened.ready()
        if self._close_wanted is None:
            self._pump()
        else:
            self.close(self._close_wanted)

    def _take_up(self, attach: Attach) -> None:
        """Compare the unsettled messages of both sides: each is resumed if the receiver knows it, or sent again."""
        lost: list[Sent] = []
        theirs = attach.unsettled or {}
        self._is_partial = attach.incomplete_unsettled
        if self._is_partial:
            ours = {sent.tag for sent in self._unsettled.values()}
            self._strange.extend(tag for tag in theirs if tag not in ours)
        for sent in self._unsettled.values():
            plan = plan_for(sent.tag, None, theirs, not self._is_partial)
            if plan.action is Action.SEND:
                lost.append(sent)
            elif plan.action is not Action.WAIT:
                sent.plan = plan
                self._resuming.append(sent)
        for sent in lost:
            del self._unsettled[sent.number]
        self._waiting.extendleft(reversed(lost))

    def on_flow(self, link: SenderLink) -> None:
        self._pump()

    def on_room(self, link: SenderLink) -> None:
        self._pump()

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        sent = delivery.mark
        assert isinstance(sent, Sent)
        is_final = isinstance(state, (Outcome, TransactionalState))
        if not settled and not is_final:
            return
        if not settled:
            delivery.link.settle(delivery)
        self._settle(sent, state)
        if self._is_partial:
            self._pump()

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._end(link_error(error))

    def on_released(self) -> None:
        session = self._session
        if self._comes_again and session is not None and session.local is Endpoint.ACTIVE:
            self._comes_again = False
            self.attach(session)
        else:
            self._end(LinkDetached("detached", "by this client"))

    def lost(self, error: FlintError) -> None:
        """Handle the end of the connection."""
        self._end(error)

    def _end(self, error: FlintError) -> None:
        if self.ended.is_ready:
            return
        # The server may still settle deliveries of a link that was detached without an error (part 2 §2.7.6).
        self._former = self._link
        self._link = None
        self._resuming.clear()
        self._strange.clear()
        self._is_partial = False
        self._comes_again = False
        self._close_wanted = None
        self.error = error
        for sent in (*self._unsettled.values(), *self._waiting):
            sent.fail(error)
        if not self.opened.is_ready:
            self.opened.fail(error)
        self.idle.fail(error)
        self.room.fail(error)
        self.ended.ready()


@final
class _Left(SenderOwner):
    """The owner of a link that was attached elsewhere, while its connection still exists. It ignores all events."""

    def on_flow(self, link: SenderLink) -> None:
        return None

    def on_room(self, link: SenderLink) -> None:
        return None

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        return None

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        return None
