"""Part 4: transactions, as a controller finds the server."""

import pytest

from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    Accepted,
    Declared,
    DeliveryState,
    Error,
    Rejected,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Coordinator, Declare, Discharge, Source, Target
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import (
    annotations,
    application_properties,
    data_section,
    header,
    properties,
    text,
    value_body,
)
from tests.conformance.amqp10.links import Arrived, Receiver, Sender
from tests.conformance.amqp10.peer import Peer, fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session
from tests.servers import BrokerProcess

ALL = [f"amqp:{name}:list" for name in ("accepted", "rejected", "released", "modified")]
UNKNOWN = "amqp:transaction:unknown-id"
ROLLED_BACK = "amqp:transaction:rollback"


class Controller:
    """A control link."""

    def __init__(self, session: Session, outcomes: list[str] | None = None) -> None:
        self.session = session
        source = Source(outcomes=[*ALL, "amqp:declared:list"] if outcomes is None else outcomes)
        self.link = session.sender(Coordinator(["amqp:local-transactions"]), source=source)

    def declare(self) -> bytes:
        outcome = self.link.outcome(value_body(Declare()))
        assert isinstance(outcome, Declared), outcome
        return outcome.txn_id

    def discharge(self, txn_id: bytes, fail: bool = False) -> DeliveryState | None:
        return self.link.outcome(value_body(Discharge(txn_id, fail)))

    def commit(self, txn_id: bytes) -> None:
        assert self.discharge(txn_id) == ACCEPTED

    def roll_back(self, txn_id: bytes) -> None:
        assert self.discharge(txn_id, fail=True) == ACCEPTED


@pytest.fixture
def controller(session: Session) -> Controller:
    return Controller(session)


def _post(sender: Sender, txn_id: bytes, message: bytes, settled: bool | None = None) -> int:
    """Post in a transaction; returns the delivery id."""
    return sender.send(message, settled, state=TransactionalState(txn_id))


def _posted(sender: Sender, txn_id: bytes, message: bytes) -> DeliveryState | None:
    """Post in a transaction, and wait for what the server says of it."""
    return sender.session.outcome(_post(sender, txn_id, message))


def _retire(receiver: Receiver, found: Arrived, txn_id: bytes, settled: bool = False) -> None:
    receiver.settle(found, TransactionalState(txn_id, ACCEPTED), settled)


def _filled(session: Session, queues: Queues, *values: object, **fields: object) -> tuple[Receiver, list[Arrived]]:
    """A receiver that got these messages, none of them settled."""
    address = queues.address()
    session.sender(address).accepted(*map(text, values))
    receiver = session.receiver(address, credit=len(values), **fields)
    return receiver, receiver.take(len(values))


def _address(receiver: Receiver) -> str:
    source = receiver.answer.source
    assert source is not None
    assert source.address is not None
    return source.address


def _error(outcome: DeliveryState | None) -> str:
    assert isinstance(outcome, Rejected), outcome
    assert outcome.error is not None
    return outcome.error.condition


# -- §4.1 -------------------------------------------------------------------------------------------------------------


@clause("4.1.commit")
def test_4_1_commit(controller: Controller, session: Session, queues: Queues) -> None:
    """Two queues and an acknowledgement of a third: not before, and at once."""
    addresses = [queues.address(), queues.address()]
    receiver, (found,) = _filled(session, queues, "m")
    txn_id = controller.declare()
    for address in addresses:
        assert _posted(session.sender(address), txn_id, text()) == TransactionalState(txn_id, ACCEPTED)
    _retire(receiver, found, txn_id)
    session.sync()
    assert [queues.count(address) for address in addresses] == [0, 0]
    controller.commit(txn_id)
    assert [queues.count(address) for address in addresses] == [1, 1]
    receiver.detach()
    assert queues.count(_address(receiver)) == 0


@clause("4.1.rollback")
def test_4_1_rollback(controller: Controller, session: Session, queues: Queues) -> None:
    """The post is not there, and the other message is still the receiver's, to be settled."""
    address = queues.address()
    receiver, (found,) = _filled(session, queues, "m")
    txn_id = controller.declare()
    _posted(session.sender(address), txn_id, text())
    _retire(receiver, found, txn_id)
    controller.roll_back(txn_id)
    assert queues.count(address) == 0
    receiver.settle(found, RELEASED)
    session.sync()
    assert queues.count(_address(receiver)) == 1


@clause("4.1.control-link-closed")
def test_4_1_control_link_closed(controller: Controller, session: Session, queues: Queues) -> None:
    """Two of its transactions: both are rolled back, and cannot be used any more."""
    address = queues.address()
    sender = session.sender(address)
    ids = [controller.declare() for _ in range(2)]
    for txn_id in ids:
        _posted(sender, txn_id, text())
    controller.link.detach()
    assert queues.count(address) == 0
    assert _error(Controller(session).discharge(ids[0])) == UNKNOWN


@clause("4.1.connection-lost")
def test_4_1_connection_lost(connect: Connect, queues: Queues) -> None:
    """Nothing of it is there, and what was to be retired is available."""
    peer = connect()
    session = peer.session()
    controller = Controller(session)
    address = queues.address()
    receiver, (found,) = _filled(session, queues, "m")
    txn_id = controller.declare()
    _posted(session.sender(address), txn_id, text())
    _retire(receiver, found, txn_id)
    session.sync()
    peer.close()
    assert connect().session().receiver(_address(receiver), credit=1).bodies(1) == ["m"]
    assert queues.count(address) == 0


@clause("4.1.survives-a-kill")
def test_4_1_survives_a_kill(mortal: BrokerProcess) -> None:
    """Two posts and an acknowledgement were committed, two posts were not."""
    with Queues(mortal.port) as queues, Peer(mortal.port) as peer:
        session = peer.start().session()
        controller = Controller(session)
        durable = text(durable=True)
        one, two, retired = (queues.address() for _ in range(3))
        session.sender(retired).accepted(durable)
        receiver = session.receiver(retired, credit=1)
        committed, open_one = controller.declare(), controller.declare()
        for txn_id in (committed, open_one):
            for address in (one, two):
                _posted(session.sender(address), txn_id, durable)
        _retire(receiver, receiver.get(), committed)
        controller.commit(committed)
    mortal.kill()
    mortal.start()
    with Queues(mortal.port) as queues:
        assert [queues.count(address) for address in (one, two, retired)] == [1, 1, 0]


# -- §4.2 declare -----------------------------------------------------------------------------------------------------


@clause("4.2.declared")
def test_4_2_declared(controller: Controller) -> None:
    """And another one for the next."""
    ids = [controller.declare() for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(1 <= len(each) <= 32 for each in ids)


@clause("4.2.several")
def test_4_2_several(controller: Controller, session: Session, queues: Queues) -> None:
    """Three in turn on one link: one committed, one rolled back, one left open."""
    address = queues.address()
    sender = session.sender(address)
    ids = [controller.declare() for _ in range(3)]
    for number in range(2):
        for name, txn_id in zip("abc", ids, strict=True):
            _posted(sender, txn_id, text(f"{name}{number}"))
    controller.roll_back(ids[1])
    controller.commit(ids[2])
    assert session.receiver(address, credit=5).bodies(2) == ["c0", "c1"]
    assert queues.count(address) == 0


@rule("4.2.other-sections")
def test_4_2_other_sections(controller: Controller) -> None:
    """Header, annotations, properties and application properties in front of it."""
    front = header(durable=True, ttl=1) + annotations({"x-opt-a": 1})
    front += properties(message_id="id", to="elsewhere") + application_properties({"k": 1})
    assert isinstance(controller.link.outcome(front + value_body(Declare())), Declared)


@rule("4.2.not-settled")
def test_4_2_not_settled(controller: Controller) -> None:
    """Detached, with an error that says why."""
    controller.link.send(value_body(Declare()), settled=True)
    controller.session.peer.wait(lambda: controller.link.detached is not None, controller.session.ill)
    assert controller.link.detached is not None
    assert controller.link.detached.error is not None


# A global transaction: nobody can do that here.
_IMPOSSIBLE = Declare(global_id=b"global")


@rule("4.2.error-conveyed")
def test_4_2_error_conveyed(controller: Controller) -> None:
    """A global transaction, and one more than a session may have; what is no declare is told so, too."""
    assert _error(controller.link.outcome(value_body(_IMPOSSIBLE))) == "amqp:not-implemented"
    assert _error(controller.link.outcome(text("no declare"))) == "amqp:invalid-field"
    for _ in range(256):
        controller.declare()
    assert _error(controller.link.outcome(value_body(Declare()))) == "amqp:invalid-field"


@rule("4.2.error-rejected")
def test_4_2_error_rejected(controller: Controller) -> None:
    """Rejected with a condition and words, and the next declare works."""
    outcome = controller.link.outcome(value_body(_IMPOSSIBLE))
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.description
    controller.declare()


@rule("4.2.error-detached")
def test_4_2_error_detached(session: Session) -> None:
    """A source that allows accepted only."""
    link = Controller(session, ["amqp:accepted:list", "amqp:declared:list"]).link
    link.send(value_body(_IMPOSSIBLE))
    session.peer.wait(lambda: link.detached is not None, session.ill)
    assert link.detached is not None
    assert link.detached.error is not None


@rule("4.5.2.global-id")
def test_4_5_2_global_id(controller: Controller) -> None:
    """No txn-id for one, that would be an ordinary transaction."""
    assert isinstance(controller.link.outcome(value_body(_IMPOSSIBLE)), Rejected)


@rule("4.5.2.global-id-unsupported")
def test_4_5_2_global_id_unsupported(controller: Controller) -> None:
    """The coordinator does not offer the capability, and the error is not-implemented."""
    target = controller.link.answer.target
    assert isinstance(target, Coordinator)
    assert "amqp:distributed-transactions" not in target.capabilities
    assert _error(controller.link.outcome(value_body(_IMPOSSIBLE))) == "amqp:not-implemented"


@clause("4.5.7.capabilities")
def test_4_5_7_capabilities(controller: Controller) -> None:
    """Local transactions, several of them per session."""
    target = controller.link.answer.target
    assert isinstance(target, Coordinator)
    assert {"amqp:local-transactions", "amqp:multi-txns-per-ssn"} <= set(target.capabilities)


# -- §4.3 discharge ---------------------------------------------------------------------------------------------------


@clause("4.3.unknown-id")
def test_4_3_unknown_id(controller: Controller, session: Session, queues: Queues) -> None:
    """In a discharge, and on a post, which ends its link and is not there."""
    for fail in (False, True):
        assert _error(controller.discharge(b"nobody's", fail)) == UNKNOWN
    address = queues.address()
    sender = session.sender(address)
    id = _post(sender, b"nobody's", text())
    assert sender.expect_detach(UNKNOWN)
    assert id not in session.outcomes
    assert queues.count(address) == 0


def _gone(controller: Controller) -> bytes:
    """A transaction that was discharged."""
    txn_id = controller.declare()
    controller.commit(txn_id)
    return txn_id


def _failing(controller: Controller, queues: Queues) -> bytes:
    """A transaction that cannot be committed: a message that nobody gets was posted settled."""
    txn_id = controller.declare()
    _post(controller.session.sender(f"/exchanges/{queues.exchange()}/key"), txn_id, text(), settled=True)
    return txn_id


@rule("4.3.error-conveyed")
def test_4_3_error_conveyed(controller: Controller, queues: Queues) -> None:
    """Discharged a second time, and one that cannot be committed."""
    assert _error(controller.discharge(_gone(controller))) == UNKNOWN
    assert _error(controller.discharge(_failing(controller, queues))) == ROLLED_BACK


@rule("4.3.error-rejected")
def test_4_3_error_rejected(controller: Controller, queues: Queues) -> None:
    """With words, and the link goes on."""
    for txn_id in (_gone(controller), _failing(controller, queues)):
        outcome = controller.discharge(txn_id)
        assert isinstance(outcome, Rejected)
        assert outcome.error is not None
        assert outcome.error.description
        controller.declare()


@pytest.mark.parametrize("why", ["unknown", "cannot be committed"])
@rule("4.3.error-detached")
def test_4_3_error_detached(session: Session, queues: Queues, why: str) -> None:
    """A source that allows accepted only."""
    controller = Controller(session, ["amqp:accepted:list", "amqp:declared:list"])
    txn_id = _gone(controller) if why == "unknown" else _failing(controller, queues)
    controller.link.send(value_body(Discharge(txn_id)))
    assert controller.link.expect_detach(UNKNOWN if why == "unknown" else ROLLED_BACK)


@rule("4.3.rollback-always")
def test_4_3_rollback_always(controller: Controller, session: Session, queues: Queues) -> None:
    """Though its queue has gone, and the receiver of what was to be retired; and where it could not be committed."""
    controller.roll_back(_failing(controller, queues))
    address = queues.address()
    receiver, (found,) = _filled(session, queues, "m")
    txn_id = controller.declare()
    _posted(session.sender(address), txn_id, text())
    _retire(receiver, found, txn_id)
    session.sync()
    queues.delete(address)
    receiver.detach()
    controller.roll_back(txn_id)


# -- §4.4 -------------------------------------------------------------------------------------------------------------


@rule("4.4.txn-id-correct")
def test_4_4_txn_id_correct(controller: Controller, session: Session, queues: Queues) -> None:
    """Two at once: each post is answered with its own; one outside has none."""
    sender = session.sender(queues.address())
    one, two = controller.declare(), controller.declare()
    ids = {txn_id: _post(sender, txn_id, text()) for txn_id in (one, two)}
    for txn_id, id in ids.items():
        assert session.outcome(id) == TransactionalState(txn_id, ACCEPTED)
    assert sender.outcome(text()) == ACCEPTED


@rule("4.4.1.all-frames")
def test_4_4_1_all_frames(controller: Controller, session: Session, queues: Queues) -> None:
    """The second transfer names another transaction than the first: the message is in neither, and that is told."""
    address = queues.address()
    sender = session.sender(address)
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    one, two = controller.declare(), controller.declare()
    message = data_section(bytes(100))
    id = sender.begin(message[:50], state=TransactionalState(one))
    sender.go_on(message[50:], state=TransactionalState(two))
    assert sender.expect_detach("amqp:illegal-state")
    assert id not in session.outcomes
    for txn_id in (one, two):
        controller.commit(txn_id)
    assert queues.count(address) == 0


@rule("4.4.1.partial-delivery")
def test_4_4_1_partial_delivery(controller: Controller, session: Session, queues: Queues) -> None:
    """Discharged with half a message posted: the link is detached, and nothing is there."""
    address = queues.address()
    sender = session.sender(address)
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    txn_id = controller.declare()
    sender.begin(data_section(bytes(100))[:50], state=TransactionalState(txn_id))
    controller.link.send(value_body(Discharge(txn_id)))
    assert controller.link.expect_detach(ROLLED_BACK)
    assert queues.count(address) == 0


def _crossed(controller: Controller, session: Session, queues: Queues) -> tuple[Receiver, bytes]:
    """A delivery that was acquired in one transaction is given an outcome in another."""
    address = queues.address()
    session.sender(address).accepted(text("m"))
    one, two = controller.declare(), controller.declare()
    receiver = session.receiver(address)
    receiver.credit(1, properties={"txn-id": one})
    found = receiver.get()
    _retire(receiver, found, two)
    return receiver, two


@rule("4.4.2.one-transaction")
def test_4_4_2_one_transaction(controller: Controller, session: Session, queues: Queues) -> None:
    """It is not retired, whatever becomes of the other transaction."""
    receiver, _ = _crossed(controller, session, queues)
    session.peer.wait(lambda: controller.link.detached is not None, session.ill)
    receiver.detach()
    assert queues.count(_address(receiver)) == 1


@rule("4.4.2.other-transaction")
def test_4_4_2_other_transaction(controller: Controller, session: Session, queues: Queues) -> None:
    """Detached, and the transactions are rolled back."""
    _crossed(controller, session, queues)
    assert controller.link.expect_detach(ROLLED_BACK)


@clause("4.4.2.retirement")
def test_4_4_2_retirement(controller: Controller, session: Session, queues: Queues) -> None:
    """Accepted and rejected: nothing before the discharge, both after it."""
    dead = queues.new()
    address = queues.address(dead_letter_exchange="", dead_letter_routing_key=dead)
    session.sender(address).accepted(text("one"), text("two"))
    receiver = session.receiver(address, credit=2)
    one, two = receiver.take(2)
    txn_id = controller.declare()
    _retire(receiver, one, txn_id)
    receiver.settle(two, TransactionalState(txn_id, Rejected(Error("amqp:internal-error"))), settled=False)
    session.sync()
    assert queues.count(dead) == 0
    controller.commit(txn_id)
    assert queues.count(dead) == 1
    receiver.detach()
    assert queues.count(address) == 0


@clause("4.4.2.retirement-rolled-back")
def test_4_4_2_retirement_rolled_back(controller: Controller, session: Session, queues: Queues) -> None:
    """Nobody else gets them, and the server has not settled them; they can be, in a transaction or not."""
    receiver, found = _filled(session, queues, "one", "two")
    txn_id = controller.declare()
    for each in found:
        _retire(receiver, each, txn_id)
    controller.roll_back(txn_id)
    other = session.receiver(_address(receiver), credit=2)
    assert other.is_silent()
    assert not [said for said in session.dispositions if not said.role and said.settled]
    again = controller.declare()
    _retire(receiver, found[1], again)
    controller.commit(again)
    receiver.settle(found[0], RELEASED)
    assert other.bodies(1) == ["one"]
    receiver.detach()
    assert other.is_silent()
    assert queues.count(_address(receiver)) == 0


# -- §4.4.3 acquisition -----------------------------------------------------------------------------------------------


def _acquired(
    controller: Controller, session: Session, queues: Queues, *messages: bytes, **arguments: object
) -> tuple[Receiver, bytes]:
    """A receiver whose link acquires in a transaction, with credit for all of these messages."""
    address = queues.address(**arguments)
    session.sender(address).accepted(*messages)
    txn_id = controller.declare()
    receiver = session.receiver(address)
    receiver.credit(len(messages), properties={"txn-id": txn_id})
    return receiver, txn_id


@clause("4.4.3.acquisition")
def test_4_4_3_acquisition(controller: Controller, session: Session, queues: Queues) -> None:
    """Its transfers say the transaction; rolled back, the message is available again."""
    receiver, txn_id = _acquired(controller, session, queues, text("m"))
    state = receiver.get().first.state
    assert isinstance(state, TransactionalState)
    assert state.txn_id == txn_id
    controller.roll_back(txn_id)
    assert session.receiver(_address(receiver), credit=1).bodies(1) == ["m"]


@rule("4.4.3.acquisition-unsupported")
def test_4_4_3_acquisition_unsupported(controller: Controller, session: Session, queues: Queues) -> None:
    """It is supported on a queue; with a transaction that nobody declared the link is detached."""
    receiver, _ = _acquired(controller, session, queues, text("m"))
    assert receiver.get().message.value == "m"
    wrong = session.receiver(queues.address())
    wrong.credit(1, properties={"txn-id": b"nobody's"})
    assert wrong.expect_detach(UNKNOWN)


@rule("4.4.3.no-credit-left")
def test_4_4_3_no_credit_left(controller: Controller, session: Session, queues: Queues) -> None:
    """Credit is left over at the discharge: the next message comes with no transaction."""
    receiver, txn_id = _acquired(controller, session, queues, text("one"))
    receiver.credit(3, properties={"txn-id": txn_id})
    _retire(receiver, receiver.get(), txn_id)
    controller.commit(txn_id)
    session.sender(_address(receiver)).accepted(text("two"))
    assert receiver.get().first.state is None


def _half_sent(session: Session, queues: Queues) -> tuple[Controller, Receiver, bytes]:
    """A message of several transfers, acquired in a transaction; the window lets only the first of them through."""
    controller = Controller(session)
    address = queues.address()
    session.sender(address).accepted(data_section(bytes(400_000)))
    txn_id = controller.declare()
    receiver = session.receiver(address)
    receiver.credit(1, properties={"txn-id": txn_id})
    session.peer.wait(lambda: receiver.partial is not None, receiver.ill)
    return controller, receiver, txn_id


@rule("4.4.3.half-sent")
def test_4_4_3_half_sent(connect: Connect, queues: Queues) -> None:
    """Committed while a part has been sent: the acquisition stands, and the rest follows to the receiver alone."""
    session = connect().session(incoming_window=1)
    controller, receiver, txn_id = _half_sent(session, queues)
    controller.commit(txn_id)
    assert receiver.partial is not None
    session.window = 100
    session.flow()
    assert receiver.get().message.bare == data_section(bytes(400_000))
    assert session.receiver(_address(receiver), credit=1).is_silent()


@rule("4.4.3.half-sent-failure")
@pytest.mark.parametrize("fail", [True, False], ids=["rolled back", "refused"])
def test_4_4_3_half_sent_failure(connect: Connect, queues: Queues, fail: bool) -> None:
    """When the failure is answered, the delivery is aborted or complete; the message is available again."""
    session = connect().session(incoming_window=1)
    controller, receiver, txn_id = _half_sent(session, queues)
    full = session.sender(queues.address(max_length=1, overflow="reject-publish"))
    for _ in range(2):
        _posted(full, txn_id, text())
    id = controller.link.send(value_body(Discharge(txn_id, fail)))
    session.window = 100
    session.flow()
    assert isinstance(session.outcome(id), Accepted if fail else Rejected)
    assert receiver.partial is None
    assert receiver.arrived
    found = session.receiver(_address(receiver), credit=1).get()
    assert found.message.bare == data_section(bytes(400_000))


# -- §4.4.4 settlement ------------------------------------------------------------------------------------------------


@rule("4.4.4.posting-fails")
def test_4_4_4_posting_fails(controller: Controller, session: Session, queues: Queues) -> None:
    """Sent settled to an exchange that goes away before the discharge: rejected, and its other post is not there."""
    exchange = queues.exchange()
    address = queues.address()
    txn_id = controller.declare()
    _post(session.sender(address), txn_id, text(), settled=True)
    gone = session.sender(f"/exchanges/{exchange}/key")
    _post(gone, txn_id, text(), settled=True)
    session.sync()
    queues.delete_exchange(exchange)
    assert _error(controller.discharge(txn_id)) == ROLLED_BACK
    assert queues.count(address) == 0


@rule("4.4.4.outcome-before-commit")
def test_4_4_4_outcome_before_commit(controller: Controller, session: Session, queues: Queues) -> None:
    """Posts and discharge in one batch: of each post something was said when the discharge is answered."""
    sender = session.sender(queues.address())
    txn_id = controller.declare()
    ids = [_post(sender, txn_id, text()) for _ in range(3)]
    controller.commit(txn_id)
    for id in ids:
        assert session.outcomes[id].state in (ACCEPTED, TransactionalState(txn_id, ACCEPTED))


@rule("4.4.4.outcome-same-transaction")
def test_4_4_4_outcome_same_transaction(controller: Controller, session: Session, queues: Queues) -> None:
    """An accepted one and an unroutable one, both with the txn-id."""
    txn_id = controller.declare()
    assert _posted(session.sender(queues.address()), txn_id, text()) == TransactionalState(txn_id, ACCEPTED)
    unbound = session.sender(f"/exchanges/{queues.exchange()}/key")
    assert _posted(unbound, txn_id, text()) == TransactionalState(txn_id, RELEASED)


@pytest.mark.parametrize("what", ["exchange", "queue", "binding"])
@rule("4.4.4.outcome-withdrawn")
def test_4_4_4_outcome_withdrawn(controller: Controller, session: Session, queues: Queues, what: str) -> None:
    """Accepted was said of the post, then its exchange, its queue or the binding went: it is there, or it fails."""
    exchange = queues.exchange("fanout")
    queue, other = queues.new(), queues.new()
    queues.bind(queue, exchange)
    txn_id = controller.declare()
    told = _posted(session.sender(f"/exchanges/{exchange}"), txn_id, text())
    assert told == TransactionalState(txn_id, ACCEPTED)
    assert _posted(session.sender(f"/queues/{other}"), txn_id, text()) == TransactionalState(txn_id, ACCEPTED)
    if what == "exchange":
        queues.delete_exchange(exchange)
    elif what == "queue":
        queues.delete(queue)
    else:
        queues.unbind(queue, exchange)
    link = controller.link
    id = link.send(value_body(Discharge(txn_id)))
    session.peer.wait(lambda: bool(link.detached) or id in session.outcomes, session.ill)
    is_done = not link.detached and session.outcomes[id].state == ACCEPTED
    assert queues.count(other) == int(is_done)
    if queues.exists(queue):
        assert queues.count(queue) == int(is_done)
    else:
        assert not is_done


@pytest.mark.parametrize("resumes", ["behind the discharge", "before the discharge"])
@rule("4.4.4.outcome-reflected")
def test_4_4_4_outcome_reflected(connect: Connect, session: Session, queues: Queues, resumes: str) -> None:
    """Mode second, the post still unsettled: on a resumed link it is accepted, and not before the discharge."""
    controller = Controller(session)
    address = queues.address()
    sender = session.sender(address, rcv_settle_mode=1)
    txn_id = controller.declare()
    session.outcome(_post(sender, txn_id, text()))
    tag = sender.tag
    if resumes == "behind the discharge":
        controller.commit(txn_id)
    assert not sender.detach(closed=False).closed
    if resumes == "before the discharge":
        early = session.sender(address, name=sender.name, rcv_settle_mode=1, unsettled={tag: None})
        assert (early.answer.unsettled or {}).get(tag) in (None, TransactionalState(txn_id, ACCEPTED))
        assert not early.detach(closed=False).closed
        controller.commit(txn_id)
    again = session.sender(address, name=sender.name, rcv_settle_mode=1, unsettled={tag: None})
    assert again.answer.unsettled == {tag: ACCEPTED}
    assert queues.count(address) == 1


@rule("4.4.4.controller-settles")
def test_4_4_4_controller_settles(controller: Controller, session: Session, queues: Queues) -> None:
    """Mode second: the server leaves it to the controller, which settles one of two after the discharge.

    What was posted is there, and the target of a link that is resumed knows of the other one.
    """
    target = Target(queues.address(), expiry_policy="never")
    sender = session.sender(target, name=fresh("posts"), rcv_settle_mode=1)
    txn_id = controller.declare()
    ids = [_post(sender, txn_id, text()) for _ in range(2)]
    controller.commit(txn_id)
    assert not any(session.outcomes[id].settled for id in ids)
    session.dispose(ids[0], state=ACCEPTED, role=False)
    session.sync()
    sender.detach(closed=False)
    tags = [b"%d" % id for id in ids]
    again = session.sender(target, name=sender.name, rcv_settle_mode=1, unsettled=dict.fromkeys(tags))
    assert again.answer.unsettled == {tags[1]: ACCEPTED}
    assert target.address is not None
    assert queues.count(target.address) == 2


@rule("4.4.4.settled-then-rolled-back")
def test_4_4_4_settled_then_rolled_back(controller: Controller, session: Session, queues: Queues) -> None:
    """The default outcome is rejected: it is among the dead letters."""
    dead = queues.new()
    address = queues.address(dead_letter_exchange="", dead_letter_routing_key=dead)
    session.sender(address).accepted(text())
    receiver = session.receiver(Source(address=address, default_outcome=Rejected()), credit=1)
    txn_id = controller.declare()
    _retire(receiver, receiver.get(), txn_id, settled=True)
    session.sync()
    assert queues.count(dead) == 0
    controller.roll_back(txn_id)
    assert queues.count(dead) == 1
    assert queues.count(address) == 0


@pytest.mark.parametrize("fail", [False, True])
@rule("4.4.4.acquired-outcome")
def test_4_4_4_acquired_outcome(controller: Controller, session: Session, queues: Queues, fail: bool) -> None:
    """Rejected with the same txn-id: no dead letter before the discharge, nor after a rollback, but available."""
    letters = queues.new()
    arguments = {"dead_letter_exchange": "", "dead_letter_routing_key": letters}
    receiver, txn_id = _acquired(controller, session, queues, text("m"), **arguments)
    receiver.settle(receiver.get(), TransactionalState(txn_id, Rejected()), settled=False)
    session.sync()
    assert queues.count(letters) == 0
    assert controller.discharge(txn_id, fail) == ACCEPTED
    receiver.detach()
    assert (queues.count(letters), queues.count(_address(receiver))) == ((0, 1) if fail else (1, 0))
