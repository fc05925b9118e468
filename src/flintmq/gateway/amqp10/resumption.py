"""Resumption of the deliveries of a suspended link on the next one (amqp-1.0 part 2 §2.6.13, part 3 §3.4.6)."""

from collections import deque
from typing import Final, final

from flintmq.base.errors import InvalidField
from flintmq.broker.terminus.terminus import SentDelivery, SourceTerminus
from flintmq.gateway.amqp10.message_encoder import MessageEncoder
from flintmq.protocol.amqp10.resumption import Action, Plan, Unsettled, plan
from flintmq.protocol.amqp10.sender import SenderLink
from flintmq.wire.amqp10.received import bytes_before
from flintmq.wire.amqp10.spec import MESSAGE_FORMAT
from flintmq.wire.amqp10.states import DeliveryState, Received

# The actions for a delivery to which the client gave an outcome.
_OUTCOMES: Final = (Action.SETTLE, Action.RESTATE)


@final
class Resumption:
    """Resumes the deliveries of a terminus, in the order in which they were sent; each takes credit."""

    def __init__(
        self,
        link: SenderLink,
        terminus: SourceTerminus,
        encoder: MessageEncoder,
        theirs: Unsettled,
        is_complete: bool,
    ) -> None:
        """Plan the resumption. `theirs` is the client's map of unsettled deliveries; `is_complete`: it lists all."""
        self._link = link
        self._terminus = terminus
        self._encoder = encoder
        # The queue has the whole message until it is settled, so sending can go on from any byte.
        self._todo: deque[tuple[SentDelivery, Plan]] = deque(
            [(held, plan(tag, None, theirs, is_complete)) for tag, held in terminus.unsettled.items()]
        )
        # Deliveries that the client holds as unsettled, and that are settled here.
        self._settled_tags = [tag for tag in theirs if tag not in terminus.unsettled]
        # Those of `_settled_tags` that are still to be aborted, because our unsettled map was sent incomplete.
        self._to_abort: deque[bytes] = deque()
        # Whether outcomes of the client are being written to the disk: they are confirmed after that.
        self.is_waiting = False

    def abort_settled(self) -> None:
        """Abort the deliveries that are settled here: our unsettled map did not fit into a frame, and was incomplete.

        A delivery missing in an incomplete map need not be settled, so the client would keep it. No later attach would
        help either, while the map is too large. An abort tells the client that the delivery is over.
        """
        self._to_abort.extend(self._settled_tags)

    def outcomes(self) -> list[tuple[SentDelivery, DeliveryState | None]]:
        """The deliveries that have an outcome in the client's unsettled map, which the link applies before `go_on`."""
        return [(held, planned.state) for held, planned in self._todo if planned.action in _OUTCOMES]

    def go_on(self) -> bool:
        """Resume as many deliveries as there is credit for. Returns whether all are done."""
        if self.is_waiting:
            return False
        todo = self._todo
        link = self._link
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
            self._take_up(held, planned)
        return True

    def _take_up(self, held: SentDelivery, planned: Plan) -> None:
        link = self._link
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
            # The client holds a part of different content: abort that, and send the message as a new delivery.
            link.abort_resumed(held.tag)
            self._todo.appendleft((held, Plan(Action.SEND)))
            return
        link.send_tagged(held.tag, [head, body], False, MESSAGE_FORMAT, None, held.entry)


def _rest(head: bytes, body: bytes, state: object) -> list[bytes] | None:
    """The rest of a message from the position in `state` on; None if it cannot be continued there.

    A position within the header cannot be continued: the broker rewrites ttl and first-acquirer for each delivery.
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
