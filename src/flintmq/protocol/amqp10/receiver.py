"""The receiving end of a link: granting credit, reassembling deliveries, and settling them."""

from abc import abstractmethod
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from flintmq.base.errors import (
    SCOPE_LINK,
    IllegalState,
    InvalidField,
    MessageSizeExceeded,
    TransferLimitExceeded,
)
from flintmq.base.limits import UNACKED_TAGS_PER_UNIT
from flintmq.protocol.amqp10.delivery import Delivery, tag_of
from flintmq.protocol.amqp10.link import Link, LinkOwner, LinkSession
from flintmq.protocol.amqp10.serial import after, distance
from flintmq.wire.amqp10.performatives import Attach, Flow, Transfer
from flintmq.wire.amqp10.spec import RCV_FIRST, RCV_SECOND, SND_SETTLED, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, DeliveryState, TransactionalState

# The largest delivery tag (amqp-1.0 part 2 §2.8.7).
_TAG_MAX_BYTES: Final = 32


@final
class IncomingDelivery(Delivery):
    """A delivery that the peer sent, `sent_settled` or not. `size` is the bytes of its message received so far."""

    def __init__(self, link: "ReceiverLink", delivery_id: i64, tag: bytes, message_format: i64) -> None:
        super().__init__(delivery_id, None)
        self.link = link
        self.tag = tag
        self.message_format: i64 = message_format
        self.size: i64 = 0
        self.sent_settled = False
        # Whether the peer resumed it after the link was suspended (amqp-1.0 part 2 §2.6.13).
        self.is_resumed = False
        # Whether we settle only after the peer (receiver-settle-mode second).
        self.settles_second = False


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceiverOwner(LinkOwner):
    """Receives the events of a link on which this side receives."""

    @abstractmethod
    def on_message(self, link: "ReceiverLink", delivery: IncomingDelivery | None, payload: bytes) -> None:
        """Handle a complete message.

        `delivery` is None if the message was sent settled, with message format 0 and no state: nothing can be said
        about it. For a resumed delivery, `payload` is the part sent this time, and `delivery.state` its beginning.
        """

    def on_fast_path(
        self, link: "ReceiverLink", delivery: IncomingDelivery | None, data: bytes, start: i64, stop: i64
    ) -> None:
        """Handle a complete message data[start:stop] that is not resumed and has no state, like nearly all messages."""
        self.on_message(link, delivery, data[start:stop])

    def on_part(self, link: "ReceiverLink", delivery: IncomingDelivery, payload: bytes, more: bool) -> None:
        """Handle a part of a message of several transfers, on a link that `wants_parts`. The last has `more` False."""
        return

    def on_aborted(self, link: "ReceiverLink", delivery: IncomingDelivery) -> None:
        """Handle a delivery that the sender aborted and settled. The sender may have resumed it only to abort it."""
        return

    @abstractmethod
    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """Handle a disposition of the sender. If `settled`, the link has forgotten the delivery."""

    def on_flow(self, link: "ReceiverLink") -> None:
        """Handle a flow: `available` or `flow_properties` may have changed, or draining has used up `credit`."""
        return


@final
class ReceiverLink(Link):
    """The receiving end of a link. `credit` is how many deliveries may still arrive."""

    def __init__(self, session: LinkSession, name: str) -> None:
        super().__init__(session, name, True)
        self.owner: ReceiverOwner | None = None
        self.credit: i64 = 0
        self.delivery_count: i64 = 0
        # The available deliveries in the sender's last flow, and the delivery count at that time.
        self.available: i64 = 0
        self._available_at: i64 = 0
        # Whether the sender was asked to use up its credit.
        self.drain: bool = False
        # The size of the largest message that is accepted, in bytes; 0 for no limit.
        self.message_max: i64 = session.connection.message_max
        # Whether the owner gets the parts of messages of several transfers when they arrive.
        self.wants_parts = False
        # Whether the owner gets the delivery also of a message that was sent settled, because it needs the tag.
        self.wants_tags = False
        # Whether our unsettled map was incomplete: new deliveries are an error until the next attach (part 2 §2.7.3).
        self.only_resumes: bool = False
        # The tags in our unsettled map. Only these deliveries can be resumed.
        self.resumable: dict[bytes, DeliveryState | None] = {}
        # The highest delivery count that any of our flows allowed.
        self._limit: i64 = 0
        self._current: IncomingDelivery | None = None
        self._is_ignored = False
        self._held: BytesWriter | None = None

    # -- calls by the owner -------------------------------------------------------------------------------------

    def grant(self, credit: i64) -> None:
        """Let `credit` more deliveries arrive from now on. The next `flush` tells the peer."""
        self.credit = credit
        limit = after(self.delivery_count, credit)
        if distance(self._limit, limit) > 0:
            self._limit = limit
        if self.is_attached:
            self.session.owe_flow(self)

    def drain_credit(self) -> None:
        """Ask the sender to use its credit now, or to give it back. At the `on_flow` after that, `credit` is 0."""
        self.drain = True
        self.session.owe_flow(self)

    def accept_delivery(self, delivery: IncomingDelivery) -> None:
        """Settle a delivery as accepted; see `settle`."""
        self.settle(delivery, ACCEPTED)

    def settle(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Settle a delivery with a state. The next `flush` sends it, together with others of the same state.

        In receiver-settle-mode second, the delivery is settled only when the sender has settled it, which
        `on_disposition` tells.
        """
        if delivery.is_settled:
            return
        if delivery.settles_second:
            self.session.add_disposition(True, delivery.id, state, False)
            return
        self.forget(delivery)
        self.session.add_disposition(True, delivery.id, state, True)

    def update(self, delivery: IncomingDelivery, state: DeliveryState) -> None:
        """Tell the sender how much of a delivery arrived (Received), or its outcome, without settling it."""
        if not delivery.is_settled:
            self.session.add_disposition(True, delivery.id, state, False)

    def forget(self, delivery: IncomingDelivery) -> None:
        """Settle a delivery without a disposition, because the peer has settled it or the link has ended."""
        if not delivery.is_settled:
            delivery.is_settled = True
            self.unsettled -= 1
            self.session.incoming.remove(delivery)

    def live(self) -> list[IncomingDelivery]:
        """Return the unsettled deliveries, the oldest first.

        A detach leaves them, unless it closed the link or had an error (part 2 §2.7.6).
        """
        if self.unsettled == 0:
            return []
        incoming = self.session.incoming.all()
        self.session.connection.spend(len(incoming) // UNACKED_TAGS_PER_UNIT)
        return [each for each in incoming if isinstance(each, IncomingDelivery) and each.link is self]

    def take_unsettled(self) -> list[IncomingDelivery]:
        """Remove all unsettled deliveries from the link, and return them. Dispositions no longer reach them."""
        taken = self.live()
        for delivery in taken:
            self.forget(delivery)
        return taken

    @property
    def begun(self) -> IncomingDelivery | None:
        """The delivery of which only a part has arrived, if any."""
        return self._current

    # -- for the session ----------------------------------------------------------------------------------------

    def link_owner(self) -> LinkOwner | None:
        return self.owner

    def forget_all(self) -> None:
        self.take_unsettled()

    def announced(self, attach: Attach) -> None:
        self.resumable = dict(attach.unsettled or {})
        self.only_resumes = attach.incomplete_unsettled

    def starts_at(self, delivery_count: i64) -> None:
        """Set the initial delivery count of the sender's attach. Credit granted before counts from there."""
        self.delivery_count = delivery_count
        self._limit = after(delivery_count, self.credit)

    def receive_flow(self, flow: Flow) -> None:
        """Handle a flow with the sender's state of the link (part 2 §2.6.7)."""
        if flow.delivery_count is not None:
            steps = distance(self.delivery_count, flow.delivery_count)
            if steps > 0:
                self.delivery_count = flow.delivery_count
                self.credit = self.credit - steps if self.credit > steps else 0
        if self.credit == 0:
            self.drain = False
        if flow.available is not None:
            self.available = flow.available
            self._available_at = self.delivery_count
        self.flow_properties = flow.properties
        owner = self.owner
        if owner is None or not self.is_attached:
            return
        owner.on_flow(self)
        if flow.echo and self.is_attached:
            self.session.owe_flow(self)

    def _left_available(self) -> i64:
        """Return the sender's available deliveries, less those that arrived since its flow (part 2 §2.6.7)."""
        return max(0, self.available - distance(self._available_at, self.delivery_count))

    def flow(self) -> Flow:
        return Flow(
            handle=self.handle,
            delivery_count=self.delivery_count,
            link_credit=self.credit,
            available=self._left_available(),
            drain=self.drain,
        )

    def receive_settled(self, data: bytes, start: i64, stop: i64) -> bool:
        """Handle a settled message of one transfer, with message format 0 and no state.

        Returns False, with nothing done, if the transfer needs `receive`.
        """
        if (
            self._current is not None
            or self.credit <= 0
            or self.snd_settle_mode == SND_UNSETTLED
            or self.only_resumes
            or self.wants_tags
            or (self.message_max != 0 and stop - start > self.message_max)
        ):
            return False
        self.delivery_count = after(self.delivery_count, 1)
        self.credit -= 1
        owner = self.owner
        assert owner is not None
        owner.on_fast_path(self, None, data, start, stop)
        return True

    def receive_unsettled(
        self, delivery_id: i64, tag: bytes, data: bytes, start: i64, stop: i64, message_format: i64
    ) -> bool:
        """Handle an unsettled message of one transfer without state.

        Returns False, with nothing done, if the transfer needs `receive`.
        """
        if (
            self._current is not None
            or self.credit <= 0
            or self.snd_settle_mode == SND_SETTLED
            or self.only_resumes
            or (self.message_max != 0 and stop - start > self.message_max)
        ):
            return False
        self.delivery_count = after(self.delivery_count, 1)
        self.credit -= 1
        delivery = IncomingDelivery(self, delivery_id, tag, message_format)
        delivery.settles_second = self.rcv_settle_mode == RCV_SECOND
        delivery.size = stop - start
        self.session.incoming.add(delivery)
        self.unsettled += 1
        owner = self.owner
        assert owner is not None
        owner.on_fast_path(self, delivery, data, start, stop)
        return True

    def receive(self, transfer: Transfer, data: bytes, start: i64, stop: i64) -> None:
        """Handle any transfer; its payload is data[start:stop] (part 2 §2.7.5). Raises an Amqp10Error if not legal."""
        delivery = self._current
        if delivery is None:
            delivery = self._begin(transfer)
        else:
            _check_same(delivery, transfer)
        if transfer.settled:
            delivery.sent_settled = True
        if transfer.state is not None:
            delivery.state = transfer.state
        if transfer.aborted:
            self._abort(delivery)
            return
        if self._is_ignored:
            self._current = delivery if transfer.more else None
            return
        self._check_modes(transfer, delivery)
        size = stop - start
        delivery.size += size
        if self.message_max != 0 and delivery.size > self.message_max:
            raise MessageSizeExceeded(f"message size is larger than configured max size {self.message_max}")
        owner = self.owner
        assert owner is not None
        is_whole = self._current is None and not transfer.more
        if transfer.more:
            self._current = delivery
        else:
            self._current = None
            if delivery.sent_settled:
                # The sender has settled it, perhaps only with this last transfer.
                self.forget(delivery)
        if is_whole:
            owner.on_message(self, self._for_owner(delivery), data[start:stop])
        elif self.wants_parts:
            owner.on_part(self, delivery, data[start:stop], transfer.more)
        elif transfer.more:
            self._hold(data[start:stop])
        else:
            held = self._held
            payload = data[start:stop]
            if held is not None:
                self.session.reassembly.release(len(held))
                self._held = None
                held.write(payload)
                payload = held.getvalue()
            owner.on_message(self, self._for_owner(delivery), payload)

    def _for_owner(self, delivery: IncomingDelivery) -> IncomingDelivery | None:
        """Return the delivery for the owner; None if it was sent settled, with message format 0 and no state."""
        is_plain = delivery.sent_settled and delivery.message_format == 0 and delivery.state is None
        return None if is_plain and not delivery.is_resumed and not self.wants_tags else delivery

    def _begin(self, transfer: Transfer) -> IncomingDelivery:
        delivery_id = transfer.delivery_id
        tag = transfer.delivery_tag
        if tag is None and delivery_id is not None and self.session.connection.is_lenient:
            # The delivery id serves as the tag: no two unsettled deliveries of the session have the same.
            tag = tag_of(delivery_id)
        if delivery_id is None or tag is None:
            raise InvalidField("the first transfer of a delivery needs delivery-id and delivery-tag")
        if len(tag) > _TAG_MAX_BYTES:
            raise InvalidField(f"a delivery-tag of {len(tag)} bytes, {_TAG_MAX_BYTES} are allowed", SCOPE_LINK)
        if distance(self.delivery_count, self._limit) <= 0:
            raise TransferLimitExceeded(f"link '{self.name}' has no credit left")
        self._is_ignored = transfer.resume and tag not in self.resumable
        if transfer.resume and not self._is_ignored:
            del self.resumable[tag]
        if self.only_resumes and not transfer.resume:
            raise InvalidField(
                f"link '{self.name}' was attached with an incomplete map of unsettled deliveries: new ones are for "
                "when it is attached with a complete one",
                SCOPE_LINK,
            )
        self.delivery_count = after(self.delivery_count, 1)
        if self.credit > 0:
            self.credit -= 1
        delivery = IncomingDelivery(self, delivery_id, tag, transfer.message_format or 0)
        delivery.is_resumed = transfer.resume
        delivery.settles_second = (
            self.rcv_settle_mode == RCV_SECOND
            if transfer.rcv_settle_mode is None
            else transfer.rcv_settle_mode == RCV_SECOND
        )
        if transfer.settled or self._is_ignored:
            delivery.is_settled = True
        else:
            self.session.incoming.add(delivery)
            self.unsettled += 1
        return delivery

    def _check_modes(self, transfer: Transfer, delivery: IncomingDelivery) -> None:
        if transfer.rcv_settle_mode == RCV_SECOND and self.rcv_settle_mode == RCV_FIRST and not delivery.sent_settled:
            raise InvalidField(f"link '{self.name}' was attached with receiver settle mode first", SCOPE_LINK)
        if delivery.sent_settled:
            if self.snd_settle_mode == SND_UNSETTLED and not delivery.is_resumed:
                raise InvalidField(f"link '{self.name}' was attached with sender settle mode unsettled", SCOPE_LINK)
        elif self.snd_settle_mode == SND_SETTLED and not transfer.more:
            raise InvalidField(f"link '{self.name}' was attached with sender settle mode settled", SCOPE_LINK)

    def _hold(self, part: bytes) -> None:
        held = self._held
        if held is None:
            held = BytesWriter()
            self._held = held
        held.write(part)
        self.session.reassembly.hold(len(part))

    def _drop_held(self) -> None:
        if self._held is not None:
            self.session.reassembly.release(len(self._held))
            self._held = None

    def _abort(self, delivery: IncomingDelivery) -> None:
        self._current = None
        self._drop_held()
        self.forget(delivery)
        owner = self.owner
        assert owner is not None
        if not self._is_ignored:
            owner.on_aborted(self, delivery)

    def _leave(self) -> None:
        super()._leave()
        current = self._current
        self._current = None
        self._drop_held()
        if current is not None and not self.wants_parts:
            # The owner was never told of this delivery.
            self.forget(current)


def _check_same(delivery: IncomingDelivery, transfer: Transfer) -> None:
    """Check that a further transfer has the id of the delivery and the transaction of its first (part 4 §4.4.1).

    Raises InvalidField for another id, IllegalState for another transaction.
    """
    if transfer.delivery_id is not None and transfer.delivery_id != delivery.id:
        raise InvalidField(f"delivery {transfer.delivery_id} begins before delivery {delivery.id} is complete")
    before = delivery.state
    now = transfer.state
    if isinstance(now, TransactionalState) and not (
        isinstance(before, TransactionalState) and before.txn_id == now.txn_id
    ):
        raise IllegalState(f"the transfers of delivery {delivery.id} are not of one transaction", SCOPE_LINK)
