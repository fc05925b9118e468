"""How long a link may have deliveries (RabbitMQ's consumer timeout): what is late is for others."""

import pytest

from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import SND_SETTLED, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, Rejected, TransactionalState
from flintmq.wire.amqp10.values import Int, UInt
from tests.unit.gateway.amqp10.pair import Client, Control, Receiver, Server, body_of

_TIMEOUT_MS = 5_000


@pytest.fixture
def server() -> Server:
    made = Server()
    made.broker.now_ms = 1_000
    made.queue("q", True, consumer_timeout=_TIMEOUT_MS)
    made.queue("patient")
    return made


def _receiver(client: Client, name: str, address: str = "/queues/q", **more: object) -> Receiver:
    properties = {f"rabbitmq:{key.replace('_', '-')}": value for key, value in more.items()}
    return client.receiver(address, attach=Attach(name=name, snd_settle_mode=SND_UNSETTLED, properties=properties))


def _pass(client: Client, ms: int) -> None:
    """Time goes by, and what is due in it is done."""
    client.server.broker.now_ms += ms
    client.tick()


def test_what_is_late_is_for_others(client: Client) -> None:
    """The first link hears that it was released, and gets no more before it has settled that."""
    client.sender().publish("one")
    first = _receiver(client, "first")
    ((delivery, payload),) = first.take()
    assert body_of(payload) == "one"
    _pass(client, _TIMEOUT_MS - 1)
    assert first.said == []
    _pass(client, 1)
    assert first.said == [(RELEASED, False)]
    assert first.take() == []
    second = _receiver(client, "second")
    assert second.bodies() == ["one"]
    client.sender(attach=Attach(name="more")).publish("two", "three")
    assert second.bodies() == ["two", "three"]
    first.settle(delivery, RELEASED)
    assert client.server.vhost.queues["q"].unacked == 3
    client.sender(attach=Attach(name="most")).publish("four", "five")
    assert sorted(first.bodies() + second.bodies()) == ["five", "four"]


def test_a_link_alone_gets_it_again_once_it_has_settled(client: Client) -> None:
    """What it says of a delivery that was released meanwhile counts for nothing else."""
    client.sender().publish("one")
    receiver = _receiver(client, "r")
    ((delivery, _),) = receiver.take()
    _pass(client, _TIMEOUT_MS)
    assert receiver.take() == []
    receiver.settle(delivery, ACCEPTED)
    assert receiver.bodies() == ["one"]
    assert client.server.vhost.queues["q"].unacked == 1


def test_what_is_settled_in_time_is_done(client: Client) -> None:
    """Each delivery has its own time."""
    receiver = _receiver(client, "r")
    client.sender().publish("one", "two")
    (first, _), (second, _) = receiver.take()
    _pass(client, _TIMEOUT_MS // 2)
    receiver.settle(first, ACCEPTED)
    client.sender(attach=Attach(name="more")).publish("three")
    ((third, _),) = receiver.take()
    _pass(client, _TIMEOUT_MS // 2)
    assert receiver.said == [(RELEASED, False)]
    receiver.settle(third, ACCEPTED)
    receiver.settle(second, RELEASED)
    assert receiver.bodies() == ["two"]


def test_a_link_asks_for_its_own_time(client: Client) -> None:
    """The link property goes before the queue's argument; 0 is for ever."""
    client.sender("/queues/patient").publish("one")
    client.sender().publish("two")
    short = _receiver(client, "short", "/queues/patient", consumer_timeout=UInt(10))
    endless = _receiver(client, "endless", consumer_timeout=UInt(0))
    assert (short.bodies(), endless.bodies()) == (["one"], ["two"])
    _pass(client, _TIMEOUT_MS)
    assert (short.said, endless.said) == ([(RELEASED, False)], [])
    assert _receiver(client, "wrong", consumer_timeout=Int(10)).refusal[0] == "amqp:invalid-field"


def test_there_is_no_time_for_what_was_sent_settled(client: Client) -> None:
    """The client has it, and nobody waits."""
    client.sender().publish("one")
    receiver = client.receiver(attach=Attach(name="r", snd_settle_mode=SND_SETTLED))
    assert receiver.bodies() == ["one"]
    _pass(client, _TIMEOUT_MS)
    assert receiver.said == []


def test_a_link_that_ended_has_no_timer(client: Client) -> None:
    """What it had has gone back by then."""
    client.sender().publish("one")
    receiver = _receiver(client, "r")
    receiver.link.detach()
    client.tick()
    assert client.server.vhost.queues["q"].message_count == 1
    _pass(client, _TIMEOUT_MS)
    assert client.server.vhost.queues["q"].message_count == 1


def test_what_is_late_is_settled_by_the_broker_where_the_client_leaves_it_to_that(client: Client) -> None:
    """An outcome that does not settle is answered, whatever it is: the delivery is over, and the link goes on."""
    client.sender().publish("one")
    receiver = _receiver(client, "r")
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    _pass(client, _TIMEOUT_MS)
    receiver.link.update(delivery, ACCEPTED)
    client.tick()
    assert receiver.said[-1][1]
    assert receiver.link.unsettled == 1
    assert receiver.bodies() == ["one"]


def test_what_is_late_on_a_link_that_is_detached_is_for_others(client: Client) -> None:
    """It can be settled still, and the time for that is the same."""
    client.sender().publish("one")
    receiver = _receiver(client, "r")
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    receiver.link.detach(closed=False)
    client.tick()
    client.session.add_disposition(True, delivery.id, ACCEPTED, True)
    client.tick()
    _pass(client, _TIMEOUT_MS)
    assert client.server.vhost.queues["q"].is_idle


def test_a_client_that_is_late_does_not_keep_a_queue_from_going_over_to_another(server: Server, client: Client) -> None:
    """A single active consumer has nothing any more of what was released because of the time."""
    server.queue("single", True, queue_type="quorum", single_active_consumer=True, consumer_timeout=_TIMEOUT_MS)
    client.sender("/queues/single").publish("one")
    active = _receiver(client, "active", "/queues/single")
    assert active.bodies() == ["one"]
    higher = _receiver(client, "higher", "/queues/single", priority=Int(5))
    _pass(client, _TIMEOUT_MS)
    assert active.said == [(RELEASED, False)]
    assert higher.bodies() == ["one"]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("priority", [0, -5])
def test_a_single_active_consumer_that_is_late_makes_room(
    server: Server, client: Client, kind: str, priority: int
) -> None:
    """Whoever waits is the active one then, whatever its priority, and the late one waits once it has settled."""
    server.queue("single", True, queue_type=kind, single_active_consumer=True, consumer_timeout=_TIMEOUT_MS)
    sender = client.sender("/queues/single")
    sender.publish("one", "two")
    active = _receiver(client, "active", "/queues/single")
    (one, _), (two, _) = active.take()
    other = _receiver(client, "other", "/queues/single", priority=Int(priority))
    active.settle(one, ACCEPTED)
    _pass(client, _TIMEOUT_MS)
    assert active.said == [(RELEASED, False)]
    assert other.bodies() == ["two"]
    sender.publish("three")
    assert (active.bodies(), other.bodies()) == ([], ["three"])
    active.settle(two, RELEASED)
    sender.publish("four")
    assert (active.bodies(), other.bodies()) == ([], ["four"] if kind == "classic" or priority == 0 else [])


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_single_active_consumer_that_was_late_alone_makes_room_for_the_next(
    server: Server, client: Client, kind: str
) -> None:
    """Who comes when the active one is late already is active at once."""
    server.queue("single", True, queue_type=kind, single_active_consumer=True, consumer_timeout=_TIMEOUT_MS)
    client.sender("/queues/single").publish("one")
    active = _receiver(client, "active", "/queues/single")
    assert active.bodies() == ["one"]
    _pass(client, _TIMEOUT_MS)
    assert active.said == [(RELEASED, False)]
    other = _receiver(client, "other", "/queues/single")
    assert (active.bodies(), other.bodies()) == ([], ["one"])


def test_single_active_consumers_that_are_all_late(server: Server, client: Client) -> None:
    """The first of them that has settled is the active one."""
    server.queue("single", True, queue_type="quorum", single_active_consumer=True, consumer_timeout=_TIMEOUT_MS)
    client.sender("/queues/single").publish("one")
    receivers = [_receiver(client, name, "/queues/single", priority=Int(2 - at)) for at, name in enumerate("abc")]
    held = []
    for receiver in receivers:
        ((delivery, _),) = receiver.take()
        held.append(delivery)
        _pass(client, _TIMEOUT_MS)
    assert [receiver.bodies() for receiver in receivers] == [[], [], []]
    receivers[1].settle(held[1], RELEASED)
    assert [receiver.bodies() for receiver in receivers] == [[], ["one"], []]
    receivers[2].settle(held[2], RELEASED)
    receivers[0].settle(held[0], RELEASED)
    receivers[1].link.detach()
    client.tick()
    assert [receiver.bodies() for receiver in receivers] == [["one"], [], []]


@pytest.mark.parametrize("ms", [_TIMEOUT_MS - 1, _TIMEOUT_MS, 2 * _TIMEOUT_MS])
def test_the_time_begins_again_when_a_transaction_is_rolled_back(client: Client, ms: int) -> None:
    """However long the transaction took, the client has all of it: it thought that the delivery was done with."""
    client.sender().publish("one", "two")
    receiver = _receiver(client, "r")
    (first, _), (second, _) = receiver.take()
    assert first is not None
    control = Control(client)
    txn_id = control.declare()
    receiver.link.update(first, TransactionalState(txn_id=txn_id, outcome=ACCEPTED))
    receiver.settle(second, ACCEPTED)
    _pass(client, ms)
    assert receiver.said == []
    control.roll_back(txn_id)
    _pass(client, _TIMEOUT_MS - 1)
    assert receiver.said == []
    _pass(client, 1)
    assert receiver.said == [(RELEASED, False)]
    assert _receiver(client, "other").bodies() == ["one"]


def test_a_second_transaction_is_rolled_back_as_well(client: Client) -> None:
    """Each of them lets the time begin again, and only the last one counts."""
    client.sender().publish("one")
    receiver = _receiver(client, "r")
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    control = Control(client)
    for _ in range(3):
        txn_id = control.declare()
        receiver.link.update(delivery, TransactionalState(txn_id=txn_id, outcome=ACCEPTED))
        _pass(client, _TIMEOUT_MS // 2 + 1)
        control.roll_back(txn_id)
        _pass(client, _TIMEOUT_MS // 2)
        assert receiver.said == []
    _pass(client, _TIMEOUT_MS // 2)
    assert receiver.said == [(RELEASED, False)]


def test_what_was_acquired_in_a_transaction_has_its_time_from_the_discharge_on(client: Client) -> None:
    """Acquired by a transaction that is committed, and not settled in it, it is an ordinary delivery."""
    client.sender().publish("one")
    control = Control(client)
    txn_id = control.declare()
    receiver = client.receiver(credit=0, attach=Attach(name="r", snd_settle_mode=SND_UNSETTLED))
    receiver.acquire_in(txn_id)
    assert receiver.bodies() == ["one"]
    _pass(client, 2 * _TIMEOUT_MS)
    assert receiver.said == []
    assert control.commit(txn_id) == ACCEPTED
    _pass(client, _TIMEOUT_MS - 1)
    assert receiver.said == []
    _pass(client, 1)
    assert receiver.said == [(RELEASED, False)]


@pytest.mark.parametrize("settled", [True, False])
def test_what_is_late_is_not_retired_by_a_transaction(client: Client, settled: bool) -> None:
    """Its discharge fails: to accept it would say that the message is gone, and others get it."""
    client.sender().publish("one")
    receiver = _receiver(client, "r")
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    control = Control(client)
    txn_id = control.declare()
    _pass(client, _TIMEOUT_MS)
    state = TransactionalState(txn_id=txn_id, outcome=ACCEPTED)
    if settled:
        receiver.settle(delivery, state)
    else:
        receiver.link.update(delivery, state)
    client.tick()
    assert isinstance(control.commit(txn_id), Rejected)
    receiver.link.detach()
    assert _receiver(client, "other").bodies() == ["one"]
