"""Transactions by AMQP 1.0: declared and discharged at the coordinator, atomic, and gone with it."""

import pytest

from flintmq.broker.queue.base import Queue
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.sections import encode_amqp_value
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER, SND_SETTLED, SND_UNSETTLED
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    Accepted,
    DeliveryState,
    Rejected,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Discharge, Source
from tests.unit.broker.memory import message
from tests.unit.gateway.amqp10.pair import Client, Control, Receiver, Sender, Server


def _send(sender: Sender, txn_id: bytes, *bodies: str) -> None:
    for body in bodies:
        sender.send(body, state=TransactionalState(txn_id=txn_id))
    sender.client.tick()


def test_a_discharge_is_accepted_once_it_is_on_the_disk(client: Client, control: Control, queue: Queue) -> None:
    """A commit that is told is safe."""
    txn_id = control.declare()
    _send(client.sender(), txn_id, "one")
    said = len(control.sender.said)
    control.sender.send_encoded(encode_amqp_value(Discharge(txn_id=txn_id)))
    client.tick()
    assert len(control.sender.said) == said
    client.durable()
    assert control.sender.said[-1][1] == ACCEPTED


def test_a_discharge_under_which_the_disk_fails_has_no_outcome(
    client: Client, control: Control, queue: Queue, server: Server
) -> None:
    """A restart may find the transaction or not: neither accepted nor rejected would be true."""
    txn_id = control.declare()
    _send(client.sender(), txn_id, "one")
    said = len(control.sender.said)
    control.sender.send_encoded(encode_amqp_value(Discharge(txn_id=txn_id, fail=False)))
    client.tick()
    server.storage.fence("no disk")
    client.tick()
    server.gateway.on_durable()
    client.connection.engine.flush()
    client.tick()
    assert len(control.sender.said) == said
    assert control.sender.refusal == (
        "amqp:resource-limit-exceeded",
        "nothing durable can be stored, the transaction may be there after a restart: no disk",
    )


def test_a_message_that_cannot_be_published_fails_the_transaction(
    client: Client, control: Control, queue: Queue
) -> None:
    """Nothing of a transaction happens where not all of it can."""
    txn_id = control.declare()
    _send(client.sender(), txn_id, "one")
    sender = client.sender(None, attach=Attach(name="anonymous"))
    _send(sender, txn_id, "two")
    ((_, state, _),) = sender.said
    assert isinstance(state, TransactionalState)
    assert isinstance(state.outcome, Rejected)
    answer = control.commit(txn_id)
    assert isinstance(answer, Rejected)
    assert answer.error is not None
    assert answer.error.condition == "amqp:transaction:rollback"
    assert queue.message_count == 0


def test_a_full_queue_fails_the_transaction(client: Client, control: Control, server: Server) -> None:
    """Room is looked for before anything is done."""
    server.queue("full", max_length=1, overflow="reject-publish")
    txn_id = control.declare()
    _send(client.sender("/queues/full"), txn_id, "one", "two")
    assert isinstance(control.commit(txn_id), Rejected)
    assert server.vhost.queues["full"].message_count == 0


def _received(client: Client, *bodies: str) -> Receiver:
    client.sender(attach=Attach(name="publisher")).publish(*bodies)
    return client.receiver()


def _retire(receiver: Receiver, txn_id: bytes, settled: bool) -> None:
    for delivery, _ in receiver.take():
        assert delivery is not None
        state = TransactionalState(txn_id=txn_id, outcome=Accepted())
        if settled:
            receiver.link.settle(delivery, state)
        else:
            receiver.link.update(delivery, state)
    receiver.client.tick()


@pytest.mark.parametrize("settled", [False, True])
def test_outcomes_hold_once_the_transaction_is_discharged(
    client: Client, control: Control, queue: Queue, settled: bool
) -> None:
    """Messages leave the queue with the commit, and the broker settles what the client did not."""
    receiver = _received(client, "one", "two")
    txn_id = control.declare()
    _retire(receiver, txn_id, settled)
    assert receiver.said == []
    assert control.commit(txn_id) == ACCEPTED
    assert receiver.said == ([] if settled else [(ACCEPTED, True), (ACCEPTED, True)])
    receiver.link.detach()
    client.tick()
    assert queue.message_count == 0


def test_a_link_that_ends_leaves_its_outcomes_to_the_transaction(
    client: Client, control: Control, queue: Queue
) -> None:
    """A consumer may be gone before the commit."""
    receiver = _received(client, "one")
    txn_id = control.declare()
    _retire(receiver, txn_id, False)
    receiver.link.detach()
    client.tick()
    assert control.commit(txn_id) == ACCEPTED
    assert queue.message_count == 0


def _acquire(client: Client, txn_id: bytes, settled: bool) -> Receiver:
    client.sender(attach=Attach(name="publisher")).publish("one")
    mode = SND_SETTLED if settled else SND_UNSETTLED
    receiver = client.receiver(credit=0, attach=Attach(name="r", snd_settle_mode=mode))
    receiver.acquire_in(txn_id)
    return receiver


@pytest.mark.parametrize("fail", [False, True])
def test_a_settled_delivery_that_was_acquired_in_a_transaction(
    client: Client, control: Control, queue: Queue, fail: bool
) -> None:
    """It leaves the queue with the commit; a rollback gives it back (part 4 §4.4.3)."""
    txn_id = control.declare()
    receiver = _acquire(client, txn_id, True)
    assert receiver.bodies() == ["one"]
    receiver.link.detach()
    client.tick()
    assert queue.message_count == 0
    control.tell(Discharge(txn_id=txn_id, fail=fail))
    assert queue.message_count == (1 if fail else 0)


def test_a_rollback_acquires_nothing(client: Client, control: Control, server: Server) -> None:
    """What a full queue sends to make way for a message that comes back is not acquired in that transaction."""
    server.queue("short", max_length=1)
    queue = server.vhost.queues["short"]
    txn_id = control.declare()
    client.sender("/queues/short", attach=Attach(name="publisher")).publish("one")
    receiver = client.receiver("/queues/short", credit=0, attach=Attach(name="r"))
    receiver.acquire_in(txn_id)
    assert receiver.bodies() == ["one"]
    server.vhost.deliver(message("two", True), [queue])
    assert control.roll_back(txn_id) == ACCEPTED
    client.tick()
    assert sorted(receiver.bodies()) == ["one", "two"]
    assert (queue.message_count, queue.unacked) == (0, 2)


def test_what_goes_nowhere_is_released(client: Client, control: Control, queue: Queue, server: Server) -> None:
    """Told before the discharge, that is so whatever is bound by then."""
    sender = client.sender("/exchanges/amq.fanout")
    txn_id = control.declare()
    _send(sender, txn_id, "one")
    assert sender.said == [(1, TransactionalState(txn_id=txn_id, outcome=RELEASED), True)]
    server.vhost.exchanges.bind_queue(queue, "amq.fanout", "", {})
    assert control.commit(txn_id) == ACCEPTED
    assert queue.message_count == 0


# -- links that outlive their connection ------------------------------------------------------------------------------


def _lasting(client: Client, unsettled: dict[bytes, DeliveryState | None] | None = None) -> Receiver:
    source = Source(address="/queues/q", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    attach = Attach(name="lasting", snd_settle_mode=SND_UNSETTLED, unsettled=unsettled)
    receiver = client.receiver(source=source, attach=attach)
    client.durable()
    client.durable()
    return receiver


def _staged(client: Client, txn_id: bytes) -> tuple[Receiver, bytes]:
    """A durable link with one delivery, which is accepted in a transaction; and the delivery's tag."""
    client.sender(attach=Attach(name="publisher")).publish("one")
    receiver = _lasting(client)
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    receiver.link.update(delivery, TransactionalState(txn_id=txn_id, outcome=ACCEPTED))
    client.tick()
    return receiver, delivery.tag


def _other(client: Client) -> Receiver:
    receiver = client.receiver(attach=Attach(name="other", snd_settle_mode=SND_UNSETTLED))
    client.durable()
    return receiver


def test_nobody_else_gets_what_a_closed_link_accepted_in_a_transaction(
    client: Client, control: Control, server: Server
) -> None:
    """The end of the link gives back what it held, but of this the transaction decides."""
    txn_id = control.declare()
    receiver, _ = _staged(client, txn_id)
    receiver.link.detach()
    client.durable()
    assert _other(client).bodies() == []
    assert control.commit(txn_id) == ACCEPTED
    assert server.storage.memory_journal.kept == {}


def test_a_rollback_gives_back_what_a_closed_link_had_accepted(client: Client, control: Control) -> None:
    """Its end had the say, until the transaction had none any more (part 4 §4.4.4)."""
    txn_id = control.declare()
    receiver, _ = _staged(client, txn_id)
    receiver.link.detach()
    client.durable()
    control.roll_back(txn_id)
    assert _other(client).bodies() == ["one"]


def test_a_resumed_link_has_no_say_in_what_a_transaction_decides(
    client: Client, control: Control, server: Server
) -> None:
    """Whatever the client says of the delivery when it attaches again, it was accepted in the transaction."""
    txn_id = control.declare()
    receiver, tag = _staged(client, txn_id)
    receiver.link.detach(closed=False)
    client.durable()
    again = _lasting(client, {tag: RELEASED})
    assert again.answer.unsettled == {}
    assert again.take() == []
    client.sender(attach=Attach(name="publisher 2")).publish("two")
    client.durable()
    ((delivery, _),) = again.take()
    assert delivery is not None
    # The first one's note is there still.
    assert delivery.tag != tag
    assert control.commit(txn_id) == ACCEPTED
    again.settle(delivery, ACCEPTED)
    client.durable()
    assert server.storage.memory_journal.kept == {}


def test_a_durable_link_hears_of_what_a_transaction_settled_once_that_is_safe(client: Client, control: Control) -> None:
    """A crash before that has neither the transaction nor the settlement."""
    txn_id = control.declare()
    receiver, _ = _staged(client, txn_id)
    control.sender.send_encoded(encode_amqp_value(Discharge(txn_id=txn_id, fail=False)))
    client.tick()
    assert receiver.said == []
    client.durable()
    assert receiver.said == [(ACCEPTED, True)]


def test_a_rollback_leaves_a_delivery_with_its_durable_link(client: Client, control: Control, server: Server) -> None:
    """It is unsettled as before, and is known when the link comes back."""
    txn_id = control.declare()
    receiver, tag = _staged(client, txn_id)
    control.roll_back(txn_id)
    receiver.link.detach(closed=False)
    client.durable()
    assert server.vhost.queues["q"].message_count == 0
    assert _lasting(client, {tag: None}).answer.unsettled == {tag: None}


def test_a_queue_may_go_before_what_is_staged_of_it(client: Client, control: Control, server: Server) -> None:
    """The transaction is committed all the same, and nothing is left of either."""
    txn_id = control.declare()
    _staged(client, txn_id)
    server.vhost.delete_queue("q", False, False, None)
    client.durable()
    assert control.commit(txn_id) == ACCEPTED
    assert client.closed == []


@pytest.mark.parametrize("way", ["commit", "roll back", "detach", "lost"])
def test_what_a_transaction_holds_is_accounted_for(client: Client, control: Control, server: Server, way: str) -> None:
    """However it ends, the node's account of all transactions has nothing of it any more."""
    staged = server.gateway.tick.staged
    txn_id = control.declare()
    _send(client.sender(), txn_id, "one")
    assert staged.held > 0
    if way == "commit":
        control.commit(txn_id)
    elif way == "roll back":
        control.roll_back(txn_id)
    elif way == "detach":
        control.sender.link.detach()
        client.tick()
    else:
        client.connection.engine.lost(None)
    assert staged.held == 0
