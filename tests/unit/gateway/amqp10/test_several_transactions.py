"""Several transactions that a session has open at once: each is discharged for itself, in any order."""

import itertools

import pytest

from flintmq.base.limits import TRANSACTION_MAX_OPERATIONS
from flintmq.broker.queue.base import Queue
from flintmq.broker.transaction import StagedSettlement
from flintmq.protocol.amqp10.receiver import IncomingDelivery
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.sections import encode_amqp_value
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER, SND_SETTLED, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, DeliveryState, Rejected, TransactionalState
from flintmq.wire.amqp10.termini import Declare, Discharge, Source, Target
from tests.unit.gateway.amqp10.pair import Client, Control, Receiver, Sender, Server, body_of


@pytest.fixture
def server() -> Server:
    made = Server()
    made.queue("q")
    made.queue("out")
    return made


@pytest.fixture
def out(server: Server) -> Queue:
    return server.vhost.queues["out"]


def _bodies(queue: Queue, client: Client) -> list[str]:
    """What is ready on a queue, which is taken from it."""
    receiver = client.receiver(f"/queues/{queue.name}", attach=Attach(name="look", snd_settle_mode=SND_UNSETTLED))
    client.durable()
    found = receiver.take()
    for delivery, _ in found:
        receiver.settle(delivery, ACCEPTED)
    receiver.link.detach()
    client.durable()
    return [body_of(payload) for _, payload in found]


def _post(sender: Sender, txn_id: bytes, body: str) -> None:
    sender.send(body, state=TransactionalState(txn_id=txn_id))
    sender.client.tick()


def _retire(receiver: Receiver, delivery: IncomingDelivery | None, txn_id: bytes, settled: bool) -> None:
    assert delivery is not None
    state = TransactionalState(txn_id=txn_id, outcome=ACCEPTED)
    if settled:
        receiver.link.settle(delivery, state)
    else:
        receiver.link.update(delivery, state)
    receiver.client.tick()


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("last", [ACCEPTED, None])
def test_what_is_settled_once_a_transaction_has_it(
    client: Client, control: Control, queue: Queue, fail: bool, last: DeliveryState | None
) -> None:
    """The client has no say in it any more: with a rollback, the message goes back."""
    client.sender(attach=Attach(name="publisher")).publish("one")
    receiver = client.receiver()
    [(delivery, _)] = receiver.take()
    txn_id = control.declare()
    _retire(receiver, delivery, txn_id, settled=False)
    receiver.settle(delivery, last)
    client.tick()
    control.discharge(txn_id, fail)
    receiver.link.detach()
    client.durable()
    assert (queue.message_count, queue.unacked) == (int(fail), 0)


def test_an_outcome_without_the_transaction_that_has_one(client: Client, control: Control, queue: Queue) -> None:
    """The broker settles with the discharge, and says what came of it: not what the client said meanwhile."""
    client.sender(attach=Attach(name="publisher")).publish("one")
    receiver = client.receiver()
    [(delivery, _)] = receiver.take()
    assert delivery is not None
    txn_id = control.declare()
    _retire(receiver, delivery, txn_id, settled=False)
    receiver.link.update(delivery, RELEASED)
    client.tick()
    assert receiver.said == []
    assert control.discharge(txn_id, False) == ACCEPTED
    assert receiver.said == [(ACCEPTED, True)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("failing", [set(), {0}, {1}, {2}, {0, 2}], ids=str)
def test_what_is_done_in_turn_is_done_by_the_discharge_of_each(
    client: Client, control: Control, queue: Queue, out: Queue, order: tuple[int, ...], failing: set[int]
) -> None:
    """Posts and outcomes of three transactions cross; each discharge does its own, and the commits say the order."""
    client.sender(attach=Attach(name="publisher")).publish("m0", "m1", "m2", "m3", "m4", "m5")
    receiver = client.receiver()
    deliveries = [delivery for delivery, _ in receiver.take()]
    sender = client.sender("/queues/out")
    ids = [control.declare() for _ in range(3)]
    for at, delivery in enumerate(deliveries):
        _post(sender, ids[at % 3], f"{at % 3}{at // 3}")
        _retire(receiver, delivery, ids[at % 3], at >= 3)
    assert [state for _, state, _ in sender.said] == [TransactionalState(ids[at % 3], ACCEPTED) for at in range(6)]
    for at in order:
        assert out.message_count == 2 * len([each for each in order[: order.index(at)] if each not in failing])
        assert control.discharge(ids[at], at in failing) == ACCEPTED
    receiver.link.detach()
    client.durable()
    assert _bodies(out, client) == [f"{at}{turn}" for at in order if at not in failing for turn in range(2)]
    assert sorted(_bodies(queue, client)) == sorted(f"m{at + more}" for at in failing for more in (0, 3))


def test_answers_come_in_the_order_of_the_discharges(client: Client, control: Control, out: Queue) -> None:
    """Discharges are sent one behind the other: a rollback needs no disk, the commits wait for it."""
    sender = client.sender("/queues/out")
    ids = [control.declare() for _ in range(3)]
    for at, txn_id in enumerate(ids):
        _post(sender, txn_id, str(at))
    said = len(control.sender.said)
    for txn_id, fail in ((ids[2], False), (ids[0], True), (ids[1], False)):
        control.sender.send_encoded(encode_amqp_value(Discharge(txn_id=txn_id, fail=fail)))
    client.tick()
    assert [state for _, state, _ in control.sender.said[said:]] == [ACCEPTED]
    client.durable()
    assert [state for _, state, _ in control.sender.said[said:]] == [ACCEPTED] * 3
    assert _bodies(out, client) == ["2", "1"]


def test_a_transaction_that_fails_leaves_the_others(client: Client, control: Control, server: Server) -> None:
    """What does not fit into a queue fails one of them, and its neighbour's messages find the room."""
    server.queue("full", max_length=1, overflow="reject-publish")
    sender = client.sender("/queues/full")
    first, second = control.declare(), control.declare()
    for txn_id, body in ((first, "a"), (second, "b"), (first, "c")):
        _post(sender, txn_id, body)
    assert isinstance(control.commit(first), Rejected)
    assert control.commit(second) == ACCEPTED
    assert _bodies(server.vhost.queues["full"], client) == ["b"]


def test_a_coordinators_link_takes_its_own_transactions_with_it(
    client: Client, control: Control, queue: Queue, out: Queue
) -> None:
    """Open ones are rolled back (part 4 §4.3); what was committed is, and those of another link are open still."""
    client.sender(attach=Attach(name="publisher")).publish("m0", "m1")
    receiver = client.receiver()
    (one, _), (two, _) = receiver.take()
    sender = client.sender("/queues/out")
    other = Control(client, "other")
    done, left, others = control.declare(), control.declare(), other.declare()
    for txn_id, body in ((done, "done"), (left, "left"), (others, "others")):
        _post(sender, txn_id, body)
    _retire(receiver, one, left, False)
    _retire(receiver, two, others, False)
    control.sender.send_encoded(encode_amqp_value(Discharge(txn_id=done)))
    control.sender.link.detach()
    client.durable()
    assert other.commit(others) == ACCEPTED
    assert _bodies(out, client) == ["done", "others"]
    receiver.link.detach()
    client.durable()
    assert _bodies(queue, client) == ["m0"]


def test_a_link_acquires_in_one_transaction_after_the_other(
    client: Client, control: Control, queue: Queue, server: Server
) -> None:
    """Each delivery is of the transaction that was named last when it was sent, and another's rollback keeps it."""
    client.sender(attach=Attach(name="publisher")).publish("a", "b", "c")
    first, second = control.declare(), control.declare()
    receiver = client.receiver(credit=0)
    for txn_id in (first, second, None):
        receiver.acquire_in(txn_id, 1)
    found = receiver.take()
    states = [delivery.state for delivery, _ in found if delivery is not None]
    assert states == [TransactionalState(first), TransactionalState(second), None]
    assert control.discharge(first, fail=True) == ACCEPTED
    assert _bodies(queue, client) == ["a"]
    assert control.commit(second) == ACCEPTED
    receiver.link.detach()
    client.durable()
    assert _bodies(queue, client) == ["b", "c"]


def test_a_discharge_leaves_a_link_that_acquires_in_another_transaction(client: Client, control: Control) -> None:
    """What comes behind the end of the first is in the second still."""
    first, second = control.declare(), control.declare()
    receiver = client.receiver(credit=0)
    receiver.acquire_in(first, 0)
    receiver.acquire_in(second, 1)
    assert control.commit(first) == ACCEPTED
    client.sender(attach=Attach(name="publisher")).publish("a")
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    assert delivery.state == TransactionalState(second)


class _Witness(Receiver):
    """Notes how many answers a sender had whenever something was said of a delivery."""

    watched: Sender

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        self.answers = len(self.watched.said)
        super().on_disposition(delivery, state, settled)


def test_what_was_acquired_is_given_up_before_the_discharge_is_answered(
    client: Client, control: Control, queue: Queue
) -> None:
    """Also where a declare follows at once, whose answer makes that of the discharge go out."""
    client.sender(attach=Attach(name="publisher")).publish("m")
    txn_id = control.declare()
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED, source=Source(address="/queues/q"), target=Target())
    receiver = _Witness(client, client.session, attach, 0)
    receiver.watched = control.sender
    receiver.acquire_in(txn_id, 1)
    said = len(control.sender.said)
    control.sender.send_encoded(encode_amqp_value(Discharge(txn_id=txn_id, fail=True)))
    control.sender.send_encoded(encode_amqp_value(Declare()))
    client.tick()
    assert len(control.sender.said) == said + 2
    assert (receiver.said, receiver.answers) == ([(RELEASED, True)], said)


# -- what must not be out of everybody's reach -----------------------------------------------------------------------


def test_an_outcome_for_no_transaction_gives_the_message_back(client: Client, queue: Queue) -> None:
    """The client has settled the delivery, and the link ends: nobody else would ever get the message."""
    client.sender(attach=Attach(name="publisher")).publish("m")
    receiver = client.receiver()
    ((delivery, _),) = receiver.take()
    _retire(receiver, delivery, b"nope", True)
    assert receiver.refusal[0] == "amqp:transaction:unknown-id"
    assert queue.message_count == 1


def test_what_is_settled_in_another_coordinators_transaction_comes_back(
    client: Client, control: Control, queue: Queue
) -> None:
    """It was acquired in one and settled in another, whose link goes: committing the first does not bury it."""
    client.sender(attach=Attach(name="publisher")).publish("m")
    other = Control(client, "other")
    first, second = control.declare(), other.declare()
    receiver = client.receiver(credit=0)
    receiver.acquire_in(first, 1)
    ((delivery, _),) = receiver.take()
    _retire(receiver, delivery, second, True)
    client.durable()
    assert other.sender.refusal[0] == "amqp:transaction:rollback"
    assert control.commit(first) == ACCEPTED
    receiver.link.detach()
    client.durable()
    assert _bodies(queue, client) == ["m"]


@pytest.mark.parametrize("then", ["another", "none"])
def test_a_durable_link_sends_by_the_transaction_it_acquired_in(
    client: Client, control: Control, queue: Queue, then: str
) -> None:
    """While the note of a delivery is written, another transaction is named: the delivery is the first one's."""
    source = Source(address="/queues/q", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    receiver = client.receiver(credit=0, source=source, attach=Attach(name="lasting", snd_settle_mode=SND_UNSETTLED))
    client.durable()
    client.durable()
    client.sender(attach=Attach(name="publisher")).publish("m")
    first, second = control.declare(), control.declare()
    receiver.acquire_in(first, 1)
    assert receiver.take() == []
    receiver.acquire_in(second if then == "another" else None, 1)
    client.durable()
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    assert delivery.state == TransactionalState(first)
    assert control.discharge(second, fail=True) == ACCEPTED
    assert queue.message_count == 0
    assert control.discharge(first, fail=True) == ACCEPTED
    assert delivery.is_settled


def test_what_is_sent_behind_its_transactions_end_is_in_none(client: Client, control: Control, queue: Queue) -> None:
    """The note of a delivery was not written when its transaction was discharged: it is the client's like any other."""
    source = Source(address="/queues/q", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    receiver = client.receiver(credit=0, source=source, attach=Attach(name="lasting", snd_settle_mode=SND_UNSETTLED))
    client.durable()
    client.durable()
    client.sender(attach=Attach(name="publisher")).publish("m")
    txn_id = control.declare()
    receiver.acquire_in(txn_id, 1)
    control.commit(txn_id)
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    assert delivery.state is None
    receiver.settle(delivery, ACCEPTED)
    client.durable()
    assert queue.message_count == 0


class _Nothing(StagedSettlement):
    """So many of them fill a transaction."""

    @property
    def dead_letter_bytes(self) -> int:
        return 0

    def stage(self) -> None:
        """Nothing is staged."""

    def take(self) -> None:
        """Nothing is taken."""

    def apply(self) -> None:
        """Nothing is settled."""

    def undo(self) -> None:
        """Nothing was staged."""


def _fill(client: Client, txn_id: bytes) -> None:
    (session,) = client.connection.sessions
    for _ in range(TRANSACTION_MAX_OPERATIONS):
        session.transactions.find(txn_id).work.settle(_Nothing())


def test_what_a_transaction_has_no_room_for_comes_back(client: Client, control: Control, queue: Queue) -> None:
    """The client has settled it, and the discharge, which is refused, does not know of it."""
    receiver = client.receiver()
    client.sender(attach=Attach(name="publisher")).publish("m")
    ((delivery, _),) = receiver.take()
    txn_id = control.declare()
    _fill(client, txn_id)
    _retire(receiver, delivery, txn_id, True)
    assert isinstance(control.commit(txn_id), Rejected)
    receiver.link.detach()
    client.durable()
    assert _bodies(queue, client) == ["m"]


def test_a_link_that_acquires_more_than_its_transaction_holds_ends(
    client: Client, control: Control, queue: Queue
) -> None:
    """The message goes back once, and is not sent again and again for as long as there is credit."""
    client.sender(attach=Attach(name="publisher")).publish("m")
    txn_id = control.declare()
    _fill(client, txn_id)
    receiver = client.receiver(credit=0, attach=Attach(name="settled", snd_settle_mode=SND_SETTLED))
    receiver.acquire_in(txn_id, 10)
    assert receiver.bodies() == ["m"]
    assert "commit more often" in receiver.refusal[1]
    assert isinstance(control.commit(txn_id), Rejected)
    assert _bodies(queue, client) == ["m"]
