"""Dispositions for deliveries of links that are detached, and neither closed nor in error (amqp-1.0 part 2 §2.7.6)."""

import pytest

from flintmq.broker.queue.base import Queue
from flintmq.protocol.amqp10.receiver import IncomingDelivery
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER, RCV_FIRST, RCV_SECOND, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, DeliveryState, TransactionalState
from flintmq.wire.amqp10.termini import Source, Target
from tests.unit.gateway.amqp10.pair import Client, Control, Receiver, Sender, Server

Map = dict[bytes, DeliveryState | None]


@pytest.fixture(params=[0, DURABLE_UNSETTLED_STATE])
def durable(request: pytest.FixtureRequest) -> int:
    found = request.param
    assert isinstance(found, int)
    return found


def _receiver(
    client: Client, durable: int, unsettled: Map | None = None, timeout: int = 0, expiry: str = ""
) -> Receiver:
    source = Source(
        address="/queues/q",
        durable=durable,
        expiry_policy=expiry or (EXPIRE_NEVER if durable else "session-end"),
        timeout=timeout,
    )
    attach = Attach(name="late", snd_settle_mode=SND_UNSETTLED, unsettled=unsettled)
    made = client.receiver(source=source, attach=attach)
    client.durable()
    client.durable()
    return made


def _suspended(
    client: Client, durable: int, *bodies: str, timeout: int = 0, expiry: str = ""
) -> list[IncomingDelivery]:
    """Deliveries of a link that is detached."""
    client.sender(attach=Attach(name="publisher")).publish(*bodies)
    receiver = _receiver(client, durable, None, timeout, expiry)
    found = [delivery for delivery, _ in receiver.take() if delivery is not None]
    assert len(found) == len(bodies)
    receiver.link.detach(closed=False)
    client.durable()
    return found


def _say(client: Client, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
    client.session.add_disposition(True, delivery.id, state, settled)
    client.durable()
    client.durable()


def test_what_is_accepted_behind_the_detach_does_not_come_again(client: Client, queue: Queue, durable: int) -> None:
    """The delivery is live, so the message leaves its queue, and the link that is resumed knows nothing of it."""
    (delivery,) = _suspended(client, durable, "one")
    _say(client, delivery, ACCEPTED, True)
    again = _receiver(client, durable, {})
    assert not again.answer.unsettled
    assert again.take() == []
    assert queue.is_idle


def test_what_is_released_behind_the_detach_goes_to_others(client: Client, queue: Queue, durable: int) -> None:
    """At once, without waiting for the link."""
    (delivery,) = _suspended(client, durable, "one")
    assert queue.message_count == 0
    _say(client, delivery, RELEASED, True)
    assert queue.message_count == 1


def test_an_outcome_behind_the_detach_is_settled_by_the_broker(client: Client, queue: Queue, durable: int) -> None:
    """The client said what became of it, and waits for the sender to settle."""
    receiver = _receiver(client, durable)
    client.sender(attach=Attach(name="publisher")).publish("one")
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    receiver.link.detach(closed=False)
    client.tick()
    _say(client, delivery, ACCEPTED, False)
    assert receiver.said == [(ACCEPTED, True)]
    assert queue.is_idle


def test_several_are_settled_by_one_range(client: Client, queue: Queue, durable: int) -> None:
    """As those of links that are attached."""
    first, second, third = _suspended(client, durable, "one", "two", "three")
    for delivery in (first, second):
        client.session.add_disposition(True, delivery.id, ACCEPTED, True)
    client.durable()
    assert _receiver(client, durable, {third.tag: None}).answer.unsettled == {third.tag: None}
    assert queue.unacked == 1


def test_a_transaction_takes_an_outcome_behind_the_detach(client: Client, queue: Queue, durable: int) -> None:
    """A state of any kind is applied."""
    control = Control(client)
    (delivery,) = _suspended(client, durable, "one")
    txn_id = control.declare()
    _say(client, delivery, TransactionalState(txn_id=txn_id, outcome=ACCEPTED), True)
    assert queue.unacked == 1
    assert control.commit(txn_id) == ACCEPTED
    assert queue.is_idle


def test_a_link_that_is_resumed_has_deliveries_of_its_own(client: Client, queue: Queue, durable: int) -> None:
    """By its old number nobody means a delivery any more that was resumed under another one."""
    (delivery,) = _suspended(client, durable, "one")
    again = _receiver(client, durable, {delivery.tag: None})
    ((resumed, _),) = again.take()
    assert resumed is not None
    assert resumed.id != delivery.id
    _say(client, delivery, ACCEPTED, True)
    assert queue.unacked == 1
    again.settle(resumed, ACCEPTED)
    assert queue.is_idle


def test_nothing_is_kept_of_deliveries_whose_link_was_resumed(client: Client, durable: int) -> None:
    """A client that comes and goes does not fill its session."""
    (delivery,) = _suspended(client, durable, "one")
    (session,) = client.connection.engine.sessions
    for _ in range(5):
        again = _receiver(client, durable, {delivery.tag: None})
        assert len(session.outgoing) == 1
        again.link.detach(closed=False)
        client.tick()
    assert len(session.outgoing) == 1


@pytest.mark.parametrize("timeout", [0, 5])
def test_nothing_is_kept_of_deliveries_whose_terminus_has_expired(
    client: Client, queue: Queue, server: Server, timeout: int
) -> None:
    """They went back to the queue, and what is said of them says nothing."""
    (delivery,) = _suspended(client, 0, "one", timeout=timeout, expiry="link-detach")
    server.broker.now_ms += 1000 * timeout
    client.durable()
    (session,) = client.connection.engine.sessions
    assert len(session.outgoing) == 0
    _say(client, delivery, ACCEPTED, True)
    assert queue.message_count == 1


def test_nothing_is_said_of_a_delivery_whose_link_was_closed(client: Client, queue: Queue) -> None:
    """Its outcome was the default one."""
    client.sender(attach=Attach(name="publisher")).publish("one")
    receiver = _receiver(client, 0)
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    receiver.link.detach()
    client.tick()
    _say(client, delivery, ACCEPTED, True)
    assert queue.message_count == 1


def test_a_queue_that_is_deleted_takes_the_deliveries_along(client: Client, server: Server, durable: int) -> None:
    """What is said of them later does no harm."""
    (delivery,) = _suspended(client, durable, "one")
    server.vhost.remove_queue(server.vhost.queues["q"])
    _say(client, delivery, ACCEPTED, True)
    (session,) = client.connection.engine.sessions
    assert len(session.outgoing) == 0
    assert client.ended == []


# -- the client sends -------------------------------------------------------------------------------------------------


def _sender(client: Client, durable: int, mode: int, unsettled: Map | None = None) -> Sender:
    attach = Attach(name="late", rcv_settle_mode=mode, unsettled=unsettled)
    target = Target(address="/queues/q", durable=durable, expiry_policy=EXPIRE_NEVER if durable else "session-end")
    made = client.sender(target=target, attach=attach)
    client.durable()
    return made


def test_what_the_client_settles_behind_the_detach_is_forgotten(client: Client, queue: Queue, durable: int) -> None:
    """The broker has told its outcome, and needs not remember it for the next link."""
    sender = _sender(client, durable, RCV_SECOND)
    delivery = sender.send("m")
    assert delivery is not None
    client.durable()
    assert sender.said == [(1, ACCEPTED, False)]
    sender.link.detach(closed=False)
    client.tick()
    client.session.add_disposition(False, delivery.id, None, True)
    client.durable()
    assert not _sender(client, durable, RCV_SECOND, {delivery.tag: None}).answer.unsettled
    assert queue.message_count == 1


def test_nothing_is_kept_of_what_came_by_a_link_that_was_resumed(client: Client, durable: int) -> None:
    """A client that comes and goes does not fill its session."""
    sender = _sender(client, durable, RCV_SECOND)
    delivery = sender.send("m")
    assert delivery is not None
    client.durable()
    (session,) = client.connection.engine.sessions
    for _ in range(3):
        sender.link.detach(closed=False)
        client.durable()
        assert len(session.incoming) == 1
        sender = _sender(client, durable, RCV_SECOND, {delivery.tag: None})
        assert sender.answer.unsettled == {delivery.tag: ACCEPTED}
        assert len(session.incoming) == 0
        sender.link.resume(delivery.tag, [], mark=1)
        client.durable()
        delivery = sender.send("m")
        assert delivery is not None
        client.durable()


def test_an_outcome_that_was_not_told_is_told_to_the_next_link(client: Client, queue: Queue, durable: int) -> None:
    """Detached while the message is on its way to the disk: the map of the next link has it."""
    sender = _sender(client, durable, RCV_FIRST)
    delivery = sender.send("m")
    assert delivery is not None
    client.tick()
    sender.link.detach(closed=False)
    client.durable()
    assert _sender(client, durable, RCV_FIRST, {delivery.tag: None}).answer.unsettled == {delivery.tag: ACCEPTED}
