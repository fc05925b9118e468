"""The receiving end of a link, without its socket: messages that wait to be taken, and their outcomes."""

from collections import deque
from typing import final

from mypy_extensions import i64

from flintmq.base.errors import FlintError, LocalProtocolError
from flintmq.client.amqp10 import message
from flintmq.client.amqp10.errors import LinkDetached, link_error
from flintmq.client.amqp10.message import Message
from flintmq.client.waitable import Waitable
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.session import Session
from flintmq.protocol.amqp10.states import Endpoint
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.received import bytes_before, received_state
from flintmq.wire.amqp10.states import DeliveryState, Outcome, Received, TransactionalState
from flintmq.wire.amqp10.termini import Source, Target


@final
class Delivery:
    """A received message.

    Attributes:
        tag: The tag of the delivery.
        payload: The encoded message.
        outcome: The outcome that the program gave it, or None.
        is_settled: Whether both sides have settled it.
    """

    def __init__(self, tag: bytes) -> None:
        self.tag = tag
        self.payload: bytes = b""
        self.outcome: DeliveryState | None = None
        self.is_settled = False
        self.incoming: IncomingDelivery | None = None
        self._message: Message | None = None
        # The parts that have arrived and their size; and how many bytes of the next parts are known from before.
        self.parts: list[bytes] | None = []
        self.size: i64 = 0
        self.known: i64 = 0

    @property
    def message(self) -> Message:
        """The decoded message. Raises DecodeError if the payload is not a message."""
        if self._message is None:
            self._message = message.decode(self.payload)
        return self._message

    @property
    def is_whole(self) -> bool:
        """Whether all parts of the message have arrived."""
        return self.parts is None

    def state(self) -> DeliveryState:
        """Return the state of the delivery for another attach after a lost connection (amqp-1.0 part 3 §3.4.6)."""
        if isinstance(self.outcome, Outcome):
            return self.outcome
        return received_state(self.so_far())

    def so_far(self) -> bytes:
        """Return the bytes that have arrived."""
        if self.parts is None:
            return self.payload
        self.parts = [b"".join(self.parts)]
        return self.parts[0]

    def take(self, part: bytes) -> None:
        """Add a part of the message, without the bytes that were received before."""
        if self.known > 0:
            skipped: i64 = min(self.known, len(part))
            self.known -= skipped
            part = part[skipped:]
        if part:
            if self.parts is None:
                raise LocalProtocolError("a complete message was continued")
            self.parts.append(part)
            self.size += len(part)

    def complete(self) -> None:
        """Handle the end of the message."""
        if self.parts is not None:
            self.payload = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
            self.parts = None


@final
class ClientReceiver(ReceiverOwner):
    """The receiving end of a link. `inbox` is ready when there is a message to take, or when there will not be another.

    The link outlives its connection: unsettled messages stay here until it is attached to another one.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        target: Target,
        modes: tuple[int, int],
        window: int,
        properties: Fields | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.target = target
        self.snd_settle_mode: int = modes[0]
        self.rcv_settle_mode: int = modes[1]
        self.properties: Fields = properties or {}
        self.opened: Waitable = Waitable()
        self.ended: Waitable = Waitable()
        self.inbox: Waitable = Waitable()
        # Ready when the credit is used up or given back, after `drain`.
        self.drained: Waitable = Waitable()
        self.error: FlintError | None = None
        self.peer: Attach | None = None
        # The bytes of all messages, without those that were sent again.
        self.arrived: i64 = 0
        self._window = window
        self._link: ReceiverLink | None = None
        self._session: Session | None = None
        # The link of the lost connection, until another one is attached.
        self._former: ReceiverLink | None = None
        self._messages: deque[Delivery] = deque()
        self._unsettled: dict[bytes, Delivery] = {}
        # If the attach had no room for all unsettled messages: the tags in it, those of them that have an outcome, and
        # the number of other messages that have an outcome.
        self._told: set[bytes] = set()
        self._owed: set[bytes] = set()
        self._decided_untold: i64 = 0
        self._is_partial = False
        # The link is detached to be attached again; and the argument of `close`, if it was called meanwhile.
        self._comes_again = False
        self._close_wanted: bool | None = None

    @property
    def unsettled(self) -> int:
        """How many messages, or parts of one, are not settled by both sides yet."""
        return len(self._unsettled)

    # -- the link -----------------------------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Attach the link. After a lost connection, unsettled messages are resumed."""
        self.opened = Waitable()
        self.ended = Waitable()
        self.drained = Waitable()
        self.inbox.error = None
        self.inbox.is_ready = bool(self._messages)
        self.error = None
        for delivery in self._unsettled.values():
            delivery.incoming = None
            if isinstance(delivery.outcome, TransactionalState):
                # A lost connection has rolled back the transaction, so this outcome has no effect.
                delivery.outcome = None
        # Messages with an outcome come first, because an attach may not have room for all, and these can be settled.
        decided = [delivery for delivery in self._unsettled.values() if delivery.outcome is not None]
        undecided = [delivery for delivery in self._unsettled.values() if delivery.outcome is None]
        unsettled: dict[bytes, DeliveryState | None] = {each.tag: each.state() for each in (*decided, *undecided)}
        attach = Attach(
            name=self.name,
            source=self.source,
            target=self.target,
            snd_settle_mode=self.snd_settle_mode,
            rcv_settle_mode=self.rcv_settle_mode,
            # An attach without a map makes a new link. An empty map resumes a link that has nothing unsettled.
            unsettled=None if self.peer is None else dict(unsettled),
            properties=self.properties,
        )
        former = self._link or self._former
        if former is not None:
            # The link may still be attached on the former connection, whose events must be ignored from now on.
            former.owner = _Left()
            former.take_unsettled()
        self._session = session
        link = session.attach_receiver(self, attach)
        link.wants_parts = True
        self._link = link
        self._told = set(attach.unsettled or ()) if attach.incomplete_unsettled else set()
        self._is_partial = bool(self._told)
        self._owed = {each.tag for each in decided if each.tag in self._told}
        self._decided_untold = len(decided) - len(self._owed)
        # Resumed deliveries use credit, too.
        if self._window or unsettled:
            link.grant(max(self._window - len(self._messages), 0) + len(unsettled))

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

    # -- credit -------------------------------------------------------------------------------------------------

    def grant(self, count: int) -> None:
        """Allow the server to send `count` more messages."""
        self.check()
        link = self._link
        if link is not None:
            link.grant(link.credit + count)

    def drain(self) -> None:
        """Ask the server for the messages that are ready, as far as there is credit, and to give back the rest of the
        credit.
        """
        self.check()
        self.drained = Waitable()
        if self._link is not None:
            self._link.drain_credit()

    def take(self, count: int) -> list[Delivery]:
        """Remove up to `count` messages from the inbox. If there are none, raises what ended the link."""
        messages = self._messages
        if not messages:
            self.check()
        taken = [messages.popleft() for _ in range(min(count, len(messages)))]
        if not messages and self.error is None:
            self.inbox.is_ready = False
        self._refill()
        return taken

    def _refill(self) -> None:
        link = self._link
        if link is not None and self._window:
            credit = self._window - len(self._messages)
            # Credit is granted for many messages at once, because a flow frame costs as much as a message.
            if 2 * link.credit <= credit:
                link.grant(credit)

    # -- outcomes -----------------------------------------------------------------------------------------------

    def settle(self, delivery: Delivery, outcome: Outcome, txn_id: bytes = b"") -> None:
        """Give a message its outcome. After a lost connection, the next attach tells the server."""
        if delivery.is_settled:
            return
        if isinstance(delivery.outcome, Outcome):
            raise LocalProtocolError(f"the message was {delivery.outcome.type_name} already")
        state: DeliveryState = TransactionalState(txn_id, outcome) if txn_id else outcome
        if self._is_partial:
            self._decide(delivery, txn_id)
        delivery.outcome = state
        incoming = delivery.incoming
        link = self._link
        if link is None or incoming is None or self.error is not None:
            return
        link.settle(incoming, state)
        if incoming.is_settled:
            self._done(delivery)

    def _done(self, delivery: Delivery) -> None:
        delivery.is_settled = True
        delivery.incoming = None
        self._unsettled.pop(delivery.tag, None)
        if self._is_partial:
            self._told.discard(delivery.tag)
            self._owed.discard(delivery.tag)
            self._come_again()

    def _decide(self, delivery: Delivery, txn_id: bytes) -> None:
        """Note the outcome of a message, on a link whose attach had only a part of its unsettled messages."""
        if delivery.tag in self._told:
            self._owed.add(delivery.tag)
            return
        if txn_id:
            raise LocalProtocolError(
                "the link has more messages than it could tell the server of, and this is one of the others: settle it "
                "without a transaction"
            )
        self._decided_untold += 1
        self._come_again()

    def _come_again(self) -> None:
        """Detach to send the next part of the unsettled messages, once those in the last attach that have an outcome
        are settled.
        """
        link = self._link
        if self._owed or (self._told and self._decided_untold == 0) or link is None or not link.is_attached:
            return
        self._comes_again = True
        link.detach(None, closed=False)

    # -- events of the engine -----------------------------------------------------------------------------------

    def on_attached(self, attach: Attach) -> None:
        if attach.source is None:
            # The server refuses the link; its detach, which follows, has the reason.
            return
        self.peer = attach
        if not attach.incomplete_unsettled:
            remote = attach.unsettled or {}
            for delivery in list(self._unsettled.values()):
                if delivery.tag not in remote:
                    # The sender has settled the message, or forgotten the link.
                    self._give_up(delivery)
        self.opened.ready()
        if self._close_wanted is not None:
            self.close(self._close_wanted)
        elif self._is_partial:
            self._come_again()

    def _give_up(self, delivery: Delivery) -> None:
        """Forget a message that the sender may send again. If it was not taken, it leaves the inbox: the program must
        not get it twice.
        """
        self._done(delivery)
        if delivery.outcome is None and delivery in self._messages:
            self._messages.remove(delivery)
            if not self._messages:
                self.inbox.is_ready = False
            self._refill()

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        if delivery is None:
            whole = Delivery(b"")
            whole.payload = payload
            whole.parts = None
            whole.is_settled = True
            self.arrived += len(payload)
            self._deliver(whole)
        else:
            self.on_part(link, delivery, payload, False)

    def on_part(self, link: ReceiverLink, delivery: IncomingDelivery, payload: bytes, more: bool) -> None:
        held = delivery.mark
        if not isinstance(held, Delivery):
            held = self._begin(link, delivery)
            if held is None:
                return
        before = held.size
        held.take(payload)
        self.arrived += held.size - before
        if more:
            return
        was_whole = held.is_whole
        held.complete()
        if delivery.sent_settled:
            self._done(held)
        elif held.outcome is not None:
            # The program gave the outcome after the link was attached again, and before the server resumed the message.
            link.settle(delivery, held.outcome)
            if delivery.is_settled:
                self._done(held)
        if not was_whole:
            self._deliver(held)

    def _begin(self, link: ReceiverLink, incoming: IncomingDelivery) -> Delivery | None:
        """Handle the first transfer of a delivery. None if the delivery was resumed only to be settled."""
        held = self._unsettled.get(incoming.tag) if incoming.is_resumed else None
        if held is None:
            held = Delivery(incoming.tag)
            if not incoming.sent_settled:
                self._unsettled[incoming.tag] = held
        state = incoming.state
        if isinstance(state, Outcome) or (held.is_whole and incoming.sent_settled):
            # The sender's outcome is final (part 3 §3.4.6, cases 3, 8, 12 and 13).
            if isinstance(state, Outcome):
                held.outcome = state
            link.settle(incoming, state)
            self._done(held)
            return None
        held.incoming = incoming
        incoming.mark = held
        if incoming.is_resumed:
            begins = bytes_before(held.so_far(), state) if isinstance(state, Received) else 0
            held.known = len(held.so_far()) - begins
        return held

    def on_aborted(self, link: ReceiverLink, delivery: IncomingDelivery) -> None:
        held = self._unsettled.get(delivery.tag)
        if held is not None:
            self._give_up(held)

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        held = delivery.mark
        if settled and isinstance(held, Delivery):
            if isinstance(state, Outcome):
                held.outcome = state
            self._done(held)

    def on_flow(self, link: ReceiverLink) -> None:
        if link.credit == 0 and not self.drained.is_ready:
            self.drained.ready()

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

    def _deliver(self, delivery: Delivery) -> None:
        self._messages.append(delivery)
        if not self.inbox.is_ready:
            self.inbox.ready()

    def _end(self, error: FlintError) -> None:
        if self.ended.is_ready:
            return
        # The server may still settle deliveries of a link that was detached without an error (part 2 §2.7.6).
        self._former = self._link
        self._link = None
        self.error = error
        self._is_partial = False
        self._comes_again = False
        self._close_wanted = None
        for delivery in self._unsettled.values():
            delivery.incoming = None
        if not self.opened.is_ready:
            self.opened.fail(error)
        if not self.drained.is_ready:
            self.drained.fail(error)
        self.inbox.fail(error)
        self.ended.ready()


@final
class _Left(ReceiverOwner):
    """The owner of a link that was attached elsewhere, while its connection still exists. It ignores all events."""

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        return None

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        return None

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        return None
