"""Deliveries of a suspended link, taken up again on the next one (amqp-1.0 part 2 §2.6.13, part 3 §3.4.6)."""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from flintmq.base.errors import InvalidField
from flintmq.broker.terminus.terminus import SentDelivery, SourceTerminus
from flintmq.gateway.amqp10.message_encoder import MessageEncoder
from flintmq.gateway.amqp10.outcomes import settlement_of
from flintmq.gateway.durability import PendingReply
from flintmq.protocol.amqp10.resuming import Action, Plan, Unsettled, plan
from flintmq.protocol.amqp10.sender import SenderLink
from flintmq.wire.amqp10.received import bytes_before
from flintmq.wire.amqp10.spec import MESSAGE_FORMAT
from flintmq.wire.amqp10.states import Received

if TYPE_CHECKING:
    from flintmq.gateway.amqp10.outgoing import OutgoingLink

# The actions for a delivery that the client has an outcome for.
_OUTCOMES: Final = (Action.SETTLE, Action.RESTATE)


@final
class Resumption:
    """The deliveries that are still to be resumed, in the order they were sent; each takes credit."""

    def __init__(
        self,
        owner: "OutgoingLink",
        terminus: SourceTerminus,
        encoder: MessageEncoder,
        theirs: Unsettled,
        is_complete: bool,
    ) -> None:
        """Both sides have said what they hold for unsettled: `theirs` is what the client said."""
        self._owner = owner
        self._terminus = terminus
        self._encoder = encoder
        # A message is here whole as long as it is not settled: it can be sent from any place on.
        self._todo: deque[tuple[SentDelivery, Plan]] = deque(
            [(held, plan(tag, None, theirs, is_complete)) for tag, held in terminus.unsettled.items()]
        )
        # Deliveries that the client has, and that are settled here.
        self._settled_tags = [tag for tag in theirs if tag not in terminus.unsettled]
        # The part of these deliveries that is aborted, because the map of unsettled deliveries was sent incomplete.
        self._to_abort: deque[bytes] = deque()
        self._has_settled = False
        # For the outcomes that the client had to be on the disk: it is told then that they count.
        self._is_waiting = False

    def told_in_part(self) -> None:
        """Our map did not fit into a frame: that it does not speak of a delivery does not say that it is settled here.

        While the client holds more than a frame has room for, no attach of ours would ever say it. So each is aborted,
        as what cannot be resumed is.
        """
        self._to_abort.extend(self._settled_tags)

    def go_on(self) -> bool:
        """Do what there is credit for. True when nothing is left."""
        if not self._has_settled:
            self._settle()
        if self._is_waiting:
            return False
        todo = self._todo
        link = self._owner.link
        while self._to_abort:
            if not link.can_resume:
                return False
            link.abort_resumed(self._to_abort.popleft())
        while todo:
            held, planned = todo[0]
            is_over = held.tag not in self._terminus.unsettled and planned.action not in _OUTCOMES
            if is_over or planned.action is Action.WAIT:
                todo.popleft()
                continue
            if not link.can_resume:
                return False
            todo.popleft()
            self._take_up(link, held, planned)
        return True

    def _settle(self) -> None:
        """Apply the outcomes that the client came back with."""
        self._has_settled = True
        for held, planned in self._todo:
            if planned.action in _OUTCOMES:
                outcome = settlement_of(planned.state, self._owner.session.vhost.dialect)
                assert outcome is not None
                self._is_waiting |= held.note is not None
                self._owner.settle_held(held.tag, outcome)
        if self._is_waiting:
            self._owner.session.connection.confirms.add(_Settled(self))

    def settled(self) -> None:
        self._is_waiting = False
        if not self._owner.is_over:
            self._owner.on_room(self._owner.link)

    def _take_up(self, link: SenderLink, held: SentDelivery, planned: Plan) -> None:
        action = planned.action
        if action in _OUTCOMES:
            link.resume(held.tag, [], planned.state, True)
            return
        head = self._encoder.head(held.queue, held.entry)
        body = self._encoder.body
        if action is Action.RESUME:
            rest = _rest(head, body, planned.state)
            if rest is not None:
                link.resume(held.tag, rest, planned.state, False, MESSAGE_FORMAT, held.entry)
                return
        if action is not Action.SEND:
            # The client has a part of another message: then this is a delivery like others.
            link.abort_resumed(held.tag)
            self._todo.appendleft((held, Plan(Action.SEND)))
            return
        link.send_tagged(held.tag, [head, body], False, MESSAGE_FORMAT, None, held.entry)


@final
class _Settled(PendingReply):
    """The outcomes that a client came back with are safe."""

    def __init__(self, resumption: Resumption) -> None:
        self._resumption = resumption

    def send(self) -> None:
        self._resumption.settled()

    def fail(self, reason: str) -> None:
        """After a restart the deliveries may be there again, for the client to say what became of them."""


def _rest(head: bytes, body: bytes, state: object) -> list[bytes] | None:
    """A message from a place on; None where the receiver has another message for that.

    Within the header, which is the broker's own, nothing is as it was: time went by, and the message was acquired.
    """
    if not isinstance(state, Received) or (state.section_number == 0 and state.section_offset == 0):
        return [head, body]
    if state.section_number == 0:
        return None
    try:
        position = bytes_before(head + body, state)
    except InvalidField:
        return None
    if position < len(head):
        return [head[position:], body]
    return [body[position - len(head) :]]
