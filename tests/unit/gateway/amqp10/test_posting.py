"""Posts in a transaction of AMQP 1.0: what was told of them holds, also for a link that is resumed."""

import pytest

from flintmq.broker.queue.base import Queue
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER, RCV_SECOND
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    DeliveryState,
    Rejected,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Target
from tests.unit.gateway.amqp10.pair import Client, Control, Sender, Server


@pytest.fixture
def server() -> Server:
    made = Server()
    made.queue("q")
    made.queue("p")
    return made


def _queue(server: Server, name: str = "q") -> Queue:
    return server.vhost.queues[name]


def _post(sender: Sender, txn_id: bytes, settled: bool = False) -> DeliveryState | None:
    """Post a message; returns what was said of it."""
    sender.send("m", settled, state=TransactionalState(txn_id=txn_id))
    sender.client.tick()
    return None if settled else sender.said[-1][1]


def _accepted(txn_id: bytes) -> TransactionalState:
    return TransactionalState(txn_id=txn_id, outcome=ACCEPTED)


def _refusal(state: DeliveryState | None) -> str:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.condition


# -- routes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settled", [False, True])
def test_a_queue_that_is_unbound_after_the_post_gets_the_message(
    client: Client, control: Control, server: Server, settled: bool
) -> None:
    """The way is that of the moment at which the outcome was told."""
    server.vhost.exchanges.bind_queue(_queue(server), "amq.fanout", "", {})
    txn_id = control.declare()
    _post(client.sender("/exchanges/amq.fanout"), txn_id, settled)
    server.vhost.exchanges.unbind_queue(_queue(server), "amq.fanout", "", {})
    server.vhost.exchanges.bind_queue(_queue(server, "p"), "amq.fanout", "", {})
    assert control.commit(txn_id) == ACCEPTED
    assert (_queue(server).message_count, _queue(server, "p").message_count) == (1, 0)


@pytest.mark.parametrize("address", ["/queues/q", "/exchanges/amq.fanout", None])
def test_a_discharge_fails_whose_message_has_no_queue_left(
    client: Client, control: Control, server: Server, address: str | None
) -> None:
    """Accepted was said of it, its queue is deleted: nothing of the transaction happens, and the client learns it."""
    server.vhost.exchanges.bind_queue(_queue(server), "amq.fanout", "", {})
    txn_id = control.declare()
    assert _post(client.sender("/queues/p", attach=Attach(name="other")), txn_id) == _accepted(txn_id)
    sender = client.sender(address, attach=Attach(name="link"))
    to = None if address is not None else "/queues/q"
    sender.send("m", properties=_to(to), state=TransactionalState(txn_id=txn_id))
    client.tick()
    assert sender.said[-1][1] == _accepted(txn_id)
    server.vhost.remove_queue(_queue(server))
    assert _refusal(control.commit(txn_id)) == "amqp:transaction:rollback"
    assert _queue(server, "p").message_count == 0


def _to(address: str | None) -> Properties | None:
    return None if address is None else Properties(to=address)


def test_a_queue_by_the_same_name_is_another_one(client: Client, control: Control, server: Server) -> None:
    """Deleted and declared again before the discharge, it is not where the message was to go."""
    txn_id = control.declare()
    _post(client.sender(), txn_id)
    server.vhost.remove_queue(_queue(server))
    server.queue("q")
    assert _refusal(control.commit(txn_id)) == "amqp:transaction:rollback"
    assert _queue(server).message_count == 0


def test_a_message_goes_to_those_of_its_queues_that_are_left(client: Client, control: Control, server: Server) -> None:
    """One queue that has it is what accepted means."""
    for name in ("q", "p"):
        server.vhost.exchanges.bind_queue(_queue(server, name), "amq.fanout", "", {})
    txn_id = control.declare()
    _post(client.sender("/exchanges/amq.fanout"), txn_id)
    server.vhost.remove_queue(_queue(server, "p"))
    assert control.commit(txn_id) == ACCEPTED
    assert _queue(server).message_count == 1


def test_a_settled_post_that_goes_nowhere_fails_its_transaction(
    client: Client, control: Control, server: Server
) -> None:
    """Nobody could be told of it otherwise (part 4 §4.4.4)."""
    txn_id = control.declare()
    _post(client.sender(), txn_id)
    _post(client.sender("/exchanges/amq.fanout"), txn_id, settled=True)
    assert _refusal(control.commit(txn_id)) == "amqp:transaction:rollback"
    assert _queue(server).message_count == 0


def test_a_post_counts_once(client: Client, control: Control, server: Server) -> None:
    """It is routed when it comes, and not again by the commit."""
    before = server.vhost.router.published
    txn_id = control.declare()
    _post(client.sender(), txn_id)
    assert control.commit(txn_id) == ACCEPTED
    assert server.vhost.router.published == before + 1


@pytest.mark.parametrize("what", ["unbound", "deleted"])
def test_a_letter_of_a_transaction_whose_way_went_before_the_discharge_is_kept(
    client: Client, control: Control, server: Server, what: str
) -> None:
    """A rejection says nothing of where the letter goes: at-least-once keeps it until there is a way again."""
    queue = _dead_lettering(server)
    client.sender("/queues/source", attach=Attach(name="publisher")).publish("m")
    receiver = client.receiver("/queues/source")
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    txn_id = control.declare()
    receiver.link.update(delivery, TransactionalState(txn_id=txn_id, outcome=Rejected()))
    client.tick()
    exchanges = server.vhost.exchanges
    if what == "unbound":
        exchanges.unbind_queue(queue, "amq.fanout", "", {})
    else:
        server.vhost.remove_queue(queue)
    assert control.commit(txn_id) == ACCEPTED
    exchanges.bind_queue(_queue(server, "p"), "amq.fanout", "", {})
    server.broker.now_ms += 10_000
    client.durable()
    assert _queue(server, "p").message_count == 1
    assert _queue(server, "source").is_idle


def _dead_lettering(server: Server) -> Queue:
    """The queue `source` with its dead letters' exchange, and the queue bound to that."""
    server.queue(
        "source",
        queue_type="quorum",
        dead_letter_exchange="amq.fanout",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    server.vhost.exchanges.bind_queue(_queue(server), "amq.fanout", "", {})
    return _queue(server)


# -- links that are resumed -------------------------------------------------------------------------------------------


def _sender(
    client: Client,
    durable: int,
    address: str = "/queues/q",
    unsettled: dict[bytes, DeliveryState | None] | None = None,
) -> Sender:
    """A link on which the broker settles behind the client."""
    attach = Attach(name="posting", rcv_settle_mode=RCV_SECOND, unsettled=unsettled)
    target = Target(address=address, durable=durable, expiry_policy=EXPIRE_NEVER if durable else "session-end")
    made = client.sender(target=target, attach=attach)
    client.durable()
    return made


@pytest.fixture(params=[0, DURABLE_UNSETTLED_STATE])
def durable(request: pytest.FixtureRequest) -> int:
    found = request.param
    assert isinstance(found, int)
    return found


def _suspend(sender: Sender) -> None:
    sender.link.detach(closed=False)
    sender.client.tick()


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_resumed_link_knows_what_a_discharge_came_to(
    client: Client, control: Control, server: Server, durable: int, when: str
) -> None:
    """Committed before the link is suspended or behind that: the map has the outcome, so that nothing is sent twice."""
    sender = _sender(client, durable)
    txn_id = control.declare()
    assert _post(sender, txn_id) == _accepted(txn_id)
    if when == "before":
        assert control.commit(txn_id) == ACCEPTED
    _suspend(sender)
    if when == "behind":
        assert control.commit(txn_id) == ACCEPTED
    assert _sender(client, durable, unsettled={b"1": None}).answer.unsettled == {b"1": ACCEPTED}
    assert _queue(server).message_count == 1


def test_a_resumed_link_knows_what_goes_nowhere(client: Client, control: Control, durable: int) -> None:
    """Released is an outcome like others."""
    sender = _sender(client, durable, "/exchanges/amq.fanout")
    txn_id = control.declare()
    assert _post(sender, txn_id) == TransactionalState(txn_id=txn_id, outcome=RELEASED)
    assert control.commit(txn_id) == ACCEPTED
    _suspend(sender)
    again = _sender(client, durable, "/exchanges/amq.fanout", unsettled={b"1": None})
    assert again.answer.unsettled == {b"1": RELEASED}


def test_a_link_that_is_resumed_before_the_discharge(
    client: Client, control: Control, server: Server, durable: int
) -> None:
    """The map has the outcome as of the transaction; resumed and settled, the message is still posted once."""
    sender = _sender(client, durable)
    txn_id = control.declare()
    _post(sender, txn_id)
    _suspend(sender)
    again = _sender(client, durable, unsettled={b"1": None})
    assert again.answer.unsettled == {b"1": _accepted(txn_id)}
    again.link.resume(b"1", [], mark=1)
    client.tick()
    assert again.said[-1][1:] == (_accepted(txn_id), True)
    assert control.commit(txn_id) == ACCEPTED
    assert _queue(server).message_count == 1
    _suspend(again)
    assert not _sender(client, durable, unsettled={}).answer.unsettled


def test_what_was_rolled_back_has_no_outcome(client: Client, control: Control, server: Server, durable: int) -> None:
    """The client sends it anew, and it is there once."""
    sender = _sender(client, durable)
    txn_id = control.declare()
    _post(sender, txn_id)
    _suspend(sender)
    assert control.roll_back(txn_id) == ACCEPTED
    again = _sender(client, durable, unsettled={b"1": None})
    assert not again.answer.unsettled
    assert again.publish("m") == [ACCEPTED]
    assert _queue(server).message_count == 1


def test_a_lost_connection_rolls_back_and_leaves_no_outcome(client: Client, control: Control, server: Server) -> None:
    """What its transaction would have come to is not told to the next link."""
    sender = _sender(client, DURABLE_UNSETTLED_STATE)
    txn_id = control.declare()
    _post(sender, txn_id)
    client.connection.engine.lost(None)
    assert not _sender(Client(server), DURABLE_UNSETTLED_STATE, unsettled={b"1": None}).answer.unsettled


def test_a_post_that_the_client_settled_is_forgotten(
    client: Client, control: Control, server: Server, durable: int
) -> None:
    """Before the discharge, which still takes place."""
    sender = _sender(client, durable)
    txn_id = control.declare()
    sender.send("m", state=TransactionalState(txn_id=txn_id))
    client.tick()
    (delivery,) = sender.link.take_unsettled()
    client.session.add_disposition(False, delivery.id, None, True)
    client.tick()
    assert control.commit(txn_id) == ACCEPTED
    _suspend(sender)
    assert not _sender(client, durable, unsettled={}).answer.unsettled
    assert _queue(server).message_count == 1


def test_a_committed_post_and_its_outcome_are_one_group(client: Client, control: Control, server: Server) -> None:
    """A crash behind the commit leaves the message and what a resumed link is told of it, or nothing of both."""
    sender = _sender(client, DURABLE_UNSETTLED_STATE)
    txn_id = control.declare()
    _post(sender, txn_id)
    journal = server.storage.memory_journal
    before = len(journal.append_groups)
    assert control.commit(txn_id) == ACCEPTED
    first, second = journal.append_groups[before:]
    assert first == second != 0
