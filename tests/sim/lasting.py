"""A client of AMQP 1.0 that outlives the node: its links are durable, and behind each end it goes on where it was.

Promised, beside what holds for all: what it sends is taken exactly once, and is there when its outcome says so; what it
receives stays in its hands until it has decided, and what it was told is settled never comes again.
"""

from typing import TYPE_CHECKING, Final, final

from flintmq.base.errors import FlintError
from flintmq.client.amqp10.errors import LinkDetached
from flintmq.client.amqp10.message import Data, Message
from flintmq.client.amqp10.receiver import ClientReceiver, Delivery
from flintmq.client.amqp10.sender import ClientSender
from flintmq.client.amqp10.sender import Sent as Command
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.properties import Header, Properties
from flintmq.wire.amqp10.received import received_state
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER, RCV_SECOND, SND_UNSETTLED
from flintmq.wire.amqp10.states import Accepted, DeliveryState, Outcome
from flintmq.wire.amqp10.termini import Source, Target
from tests.sim.ledger import REQUEUE, Ledger, Lost, Unexpected
from tests.sim.messages import NUMBER_BYTES, Copy, Sent
from tests.sim.outcomes import EXPECTED, outcome_of, target_of
from tests.sim.topology import Address, Line

if TYPE_CHECKING:
    from tests.sim.links import LinkClient

CONTAINER: Final = "lasting"


@final
class LastingSender:
    def __init__(self, ledger: Ledger, number: int, address: Address) -> None:
        self.number = number
        self.address = address
        self._ledger = ledger
        target = Target(target_of(address), DURABLE_UNSETTLED_STATE, EXPIRE_NEVER)
        self.core = ClientSender(f"s{number}", Source(), target, SND_UNSETTLED, RCV_SECOND)
        self._unconfirmed: dict[Command, Sent] = {}
        # The node's last answer, and whether it has said by now what it has of each message.
        self._heard: Attach | None = None
        self._is_taken_up = False

    @property
    def is_waiting(self) -> bool:
        return self.core.error is None and (not self._is_taken_up or bool(self._unconfirmed))

    def attach(self, client: "LinkClient") -> None:
        assert client.session is not None
        self._is_taken_up = False
        self.core.attach(client.session)

    def publish(self, sent: Sent) -> None:
        header = Header(durable=True, ttl=sent.ttl_ms)
        properties = Properties(message_id=str(sent.number) if sent.size < NUMBER_BYTES else None)
        self._ledger.published(sent)
        self._unconfirmed[self.core.send(Message(sent.body, properties, {}, header).encode())] = sent

    def look(self) -> None:
        peer = self.core.peer
        if self.core.error is None and self.core.opened.is_ready and peer is not None and peer is not self._heard:
            self._hear(peer)
        for command, sent in list(self._unconfirmed.items()):
            if command.is_ready and command.error is None:
                del self._unconfirmed[command]
                self._told(sent, command.outcome)

    def _hear(self, peer: Attach) -> None:
        self._heard = peer
        self._is_taken_up = not peer.incomplete_unsettled
        theirs = peer.unsettled or {}
        for command, sent in self._unconfirmed.items():
            # Of what a map that was cut does not speak of, a further one does: until then nothing is sent again.
            is_told = command.tag in theirs or self._is_taken_up
            if is_told and not isinstance(theirs.get(command.tag), Outcome):
                self._ledger.published_again(sent)

    def _told(self, sent: Sent, outcome: DeliveryState | None) -> None:
        if isinstance(outcome, Accepted):
            self._ledger.confirmed(sent)
        elif isinstance(outcome, Outcome):
            self._ledger.refused(sent)
        else:
            raise Unexpected(f"the outcome of {sent.number} is {outcome}")


@final
class _Held:
    """A delivery in hand. `how` is what was decided of it; `is_told`: the node may have heard that, in this life."""

    def __init__(self, copy: Copy) -> None:
        self.sent = copy.sent
        self.copy: Copy | None = copy
        self.how: int | None = None
        self.is_told = False
        # In this life or one before.
        self.was_told = False


@final
class LastingReceiver:
    def __init__(self, ledger: Ledger, number: int, line: Line, credit: int) -> None:
        self.line = line
        self._ledger = ledger
        source = Source(f"/queues/{line.name}", DURABLE_UNSETTLED_STATE, EXPIRE_NEVER)
        self.core = ClientReceiver(f"r{number}", source, Target(), (SND_UNSETTLED, RCV_SECOND), credit)
        self._held: dict[Delivery, _Held] = {}
        # Of deliveries whose header came in a life before, and not all that follows: how many starts there were since.
        self._cut_off: dict[Delivery, int] = {}
        self._latest: dict[object, int] = {}
        self._is_taken_up = False

    @property
    def may_be_over(self) -> bool:
        return False

    @property
    def is_waiting(self) -> bool:
        is_owed = any(held.how is not None for held in self._held.values())
        return self.core.error is None and (not self._is_taken_up or is_owed)

    @property
    def undecided(self) -> list[Delivery]:
        return [delivery for delivery, held in self._held.items() if held.how is None]

    def attach(self, client: "LinkClient") -> None:
        assert client.session is not None
        self._is_taken_up = False
        self._latest = {}
        self.core.attach(client.session)
        for held in self._held.values():
            if held.how is not None:
                self._tell(held, held.how)

    def decide(self, deliveries: list[Delivery], how: int, chosen: int, is_attached: bool) -> None:
        for delivery in deliveries:
            held = self._held[delivery]
            held.how = how
            self.core.settle(delivery, outcome_of(how, chosen))
            if is_attached:
                self._tell(held, how)

    def _tell(self, held: _Held, how: int) -> None:
        if held.copy is not None and not held.is_told:
            self._ledger.settled(held.copy, how)
        held.is_told = held.was_told = True

    def look(self) -> None:
        if self.core.error is None and self.core.opened.is_ready and not self._is_taken_up:
            self._is_taken_up = True
            self._check_known()
        for delivery, held in list(self._held.items()):
            if delivery.is_settled:
                del self._held[delivery]
                if held.copy is not None and held.how is None:
                    raise Lost(f"{self.line} has settled {held.sent.number}, which a link has in hand")
                # The node has told it, or knows nothing of it any more: that is durable then.
                if held.copy is not None and held.how != REQUEUE:
                    self._ledger.settlement_arrived(held.copy, 0)
        if self.core.inbox.is_ready:
            # Also what came together with the end of the link: taken only on the next one, it would not say that there
            # was a start since.
            for delivery in self._arrived():
                self._take(delivery)

    def _arrived(self) -> list[Delivery]:
        try:
            return self.core.take(1_000)
        except FlintError:
            # The link has ended, and all that came by it was taken.
            return []

    def _check_known(self) -> None:
        peer = self.core.peer
        assert peer is not None
        if peer.incomplete_unsettled:
            # It says the rest when the link is attached again.
            return
        theirs = peer.unsettled or {}
        for delivery, held in self._held.items():
            if held.how is None and held.copy is not None and delivery.tag not in theirs:
                raise Lost(
                    f"the link from {self.line} has {held.sent.number} in hand, and the node has forgotten of it"
                )

    def _take(self, delivery: Delivery) -> None:
        message = delivery.message
        body = message.body
        if isinstance(body, Data):
            body = b"".join(body.parts)
        if delivery.is_settled or not isinstance(body, bytes):
            raise Unexpected(f"{self.line} delivered {body!r}, settled: {delivery.is_settled}")
        digits = body[:NUMBER_BYTES].decode() or str(message.properties.message_id)
        again = not message.header.first_acquirer
        starts = self._cut_off.pop(delivery, 0)
        copy = self._ledger.delivered(self.line, int(digits), body, again, self, self._latest, starts)
        # The note of it is on the disk, and so is the message.
        copy.is_sure |= copy.sent.persistent
        self._held[delivery] = _Held(copy)

    def started(self) -> None:
        """There is a node again, which has been looked at: what is in hand is nobody else's."""
        begun = [delivery for delivery in self.core._unsettled.values() if not delivery.is_whole]
        self._cut_off = {
            delivery: self._cut_off.get(delivery, 0) + 1
            for delivery in begun
            if received_state(delivery.so_far()).section_number > 0
        }
        for held in self._held.values():
            was_here = held.copy is not None
            held.copy = self.line.copies.get(held.sent.number)
            held.is_told = False
            if held.copy is None:
                if was_here and held.how is None and held.sent.persistent:
                    raise Lost(f"{self.line} has lost {held.sent.number}, which a link has in hand")
            elif held.how != REQUEUE or not held.was_told:
                held.copy.holder = self


@final
class Lasting:
    """The client: `is_attached` while it has a connection that it has not given up."""

    def __init__(self, ledger: Ledger) -> None:
        self.senders: list[LastingSender] = []
        self.receivers: list[LastingReceiver] = []
        self.is_attached = False
        self._ledger = ledger

    @property
    def _links(self) -> "list[LastingSender | LastingReceiver]":
        return [*self.senders, *self.receivers]

    def attach(self, client: "LinkClient") -> None:
        self.is_attached = True
        for link in self._links:
            link.attach(client)

    def add_sender(self, client: "LinkClient", number: int, address: Address) -> None:
        sender = LastingSender(self._ledger, number, address)
        self.senders.append(sender)
        sender.attach(client)

    def add_receiver(self, client: "LinkClient", number: int, line: Line, credit: int) -> None:
        receiver = LastingReceiver(self._ledger, number, line, credit)
        self.receivers.append(receiver)
        receiver.attach(client)

    def look(self) -> None:
        for link in self._links:
            error = link.core.error
            if self.is_attached and isinstance(error, LinkDetached) and error.condition not in EXPECTED:
                raise Unexpected(f"link {link.core.name} was ended: {error}")
            link.look()

    def started(self) -> None:
        self.is_attached = False
        for receiver in self.receivers:
            receiver.started()

    def check_answered(self, failure: str) -> None:
        if self.is_attached and not failure:
            for link in self._links:
                if link.is_waiting:
                    raise Unexpected(f"link {link.core.name} waits for ever")
