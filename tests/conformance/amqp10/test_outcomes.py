"""Part 3 §3.3 to §3.4.5: the states of a message at a node, and what each outcome does to it."""

import pytest

from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, Declared, Error, Modified, Outcome, Received, Rejected
from flintmq.wire.amqp10.termini import Source
from flintmq.wire.amqp10.values import Described, Symbol, UInt, ULong
from flintmq.wire.amqp10.writer import encode_value
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import annotations, text
from tests.conformance.amqp10.links import Receiver, Sender
from tests.conformance.amqp10.peer import fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session

FAILED = Modified(delivery_failed=True)
NOT_HERE = Modified(undeliverable_here=True)


def _fill(session: Session, queues: Queues, *values: object, **arguments: object) -> str:
    """The address of a queue with these messages."""
    address = queues.address(**arguments)
    session.sender(address).accepted(*map(text, values))
    return address


def _again(receiver: Receiver, outcome: Outcome) -> int:
    """Get a message, say this of it, get it again: its delivery-count then."""
    receiver.credit(2)
    receiver.settle(receiver.get(), outcome)
    again = receiver.get()
    receiver.settle(again)
    return again.message.delivery_count


# -- §3.3 -------------------------------------------------------------------------------------------------------------


@clause("3.3.acquired-is-exclusive")
def test_3_3_acquired_is_exclusive(session: Session, queues: Queues) -> None:
    """While one link has it, another with credit gets nothing; also when the first said something of it unsettled."""
    address = _fill(session, queues, "m")
    first, other = session.receiver(address, credit=1), session.receiver(address)
    found = first.get()
    other.credit(1)
    assert other.is_silent()
    first.settle(found, ACCEPTED, settled=False)
    assert other.is_silent()


@clause("3.3.accepted-archives")
def test_3_3_accepted_archives(session: Session, queues: Queues) -> None:
    """Nobody gets it any more, not even when the link is gone."""
    address = _fill(session, queues, "m")
    receiver = session.receiver(address, credit=2)
    receiver.settle(receiver.get())
    assert receiver.is_silent()
    receiver.detach()
    assert queues.count(address) == 0


@clause("3.3.rejected-archives")
def test_3_3_rejected_archives(session: Session, queues: Queues) -> None:
    """It is among the dead letters, with its body as it was; without any for it, it is gone."""
    dead = queues.new()
    with_letters = _fill(session, queues, "m", dead_letter_exchange="", dead_letter_routing_key=dead)
    without = _fill(session, queues, "m")
    for address in (with_letters, without):
        receiver = session.receiver(address, credit=2)
        receiver.settle(receiver.get(), Rejected())
        assert receiver.is_silent()
        assert queues.count(address) == 0
    assert session.receiver(f"/queues/{dead}", credit=2).bodies(1) == ["m"]


@clause("3.3.released-makes-available")
def test_3_3_released_makes_available(session: Session, queues: Queues) -> None:
    """Before those that came after it, for whoever asks."""
    address = _fill(session, queues, "one", "two", "three")
    receiver = session.receiver(address, credit=2)
    for each in reversed(receiver.take(2)):
        receiver.settle(each, RELEASED)
    receiver.detach()
    assert session.receiver(address, credit=3).bodies(3) == ["one", "two", "three"]


@clause("3.3.modified-makes-available")
def test_3_3_modified_makes_available(session: Session, queues: Queues) -> None:
    """With no field set it is as released."""
    assert _again(session.receiver(_fill(session, queues, "m")), Modified()) == 0


@clause("3.3.settled-transfer")
def test_3_3_settled_transfer(session: Session, queues: Queues) -> None:
    """Sent settled, it is gone, however the link ends."""
    address = _fill(session, queues, "m")
    receiver = session.receiver(address, credit=1, snd_settle_mode=1)
    assert receiver.get().settled
    receiver.detach()
    assert queues.count(address) == 0


@clause("3.3.lost-receiver")
def test_3_3_lost_receiver(connect: Connect, session: Session, queues: Queues) -> None:
    """The connection hung up, the session ended, the link closed: each time it comes again."""
    address = _fill(session, queues, "m")
    lost = connect()
    lost.session().receiver(address, credit=1).get()
    lost.close()
    ended = session.peer.session()
    ended.receiver(address, credit=1).get()
    ended.end()
    receiver = session.receiver(address, credit=1)
    receiver.get()
    receiver.detach()
    assert session.receiver(address, credit=1).bodies(1) == ["m"]


# -- §3.4.1 to §3.4.5 -------------------------------------------------------------------------------------------------


@rule("3.4.1.received-only-on-resumption")
def test_3_4_1_received_only_on_resumption(session: Session, queues: Queues) -> None:
    """Not on the transfers of a message of many frames, and not in answer to the receiver's own received."""
    address = queues.address()
    session.sender(address).accepted(text("x" * 300_000))
    receiver = session.receiver(address, credit=1)
    found = receiver.get()
    assert len(found.transfers) > 1
    assert not any(isinstance(each.state, Received) for each in found.transfers)
    receiver.settle(found, Received(0, 10), settled=False)
    session.sync()
    assert not any(isinstance(each.state, Received) for each in session.dispositions)
    receiver.settle(found)


@rule("3.4.3.no-spontaneous-rejection")
def test_3_4_3_no_spontaneous_rejection(session: Session, queues: Queues) -> None:
    """Not even when the queue goes away with deliveries unsettled: what is said of them is not rejected."""
    address = _fill(session, queues, "m")
    receiver = session.receiver(address, credit=1)
    receiver.get()
    queues.delete(address)
    receiver.expect_detach("amqp:resource-deleted")
    session.sync()
    ours = [each for each in session.dispositions if not each.role]
    assert not any(isinstance(each.state, Rejected) for each in ours)


@clause("3.4.3.delivery-count")
def test_3_4_3_delivery_count(session: Session, queues: Queues) -> None:
    """The dead letter's header has one delivery more, and the rejecting receiver's error does no harm."""
    dead = queues.new()
    address = _fill(session, queues, "m", dead_letter_exchange="", dead_letter_routing_key=dead)
    receiver = session.receiver(address, credit=1)
    error = Error("amqp:decode-error", "not understood", {"line": 3})
    receiver.settle(receiver.get(), Rejected(error))
    letter = session.receiver(f"/queues/{dead}", credit=1).get().message
    assert letter.delivery_count == 1


@rule("3.4.4.delivery-count-kept")
def test_3_4_4_delivery_count_kept(session: Session, queues: Queues) -> None:
    """0 after a release, and 1 after one that followed a failure."""
    address = _fill(session, queues, "m", "m")
    receiver = session.receiver(address)
    assert _again(receiver, RELEASED) == 0
    receiver.credit(3)
    receiver.settle(receiver.get(), FAILED)
    receiver.settle(receiver.get(), RELEASED)
    assert receiver.get().message.delivery_count == 1


@rule("3.4.5.modified-applied")
def test_3_4_5_modified_applied(session: Session, queues: Queues) -> None:
    """A count and an annotation, both at once, also for another receiver; the bare message is as it was."""
    address = _fill(session, queues, "m")
    receiver = session.receiver(address, credit=1)
    receiver.settle(receiver.get(), Modified(True, False, {"x-opt-why": "busy"}))
    receiver.detach()
    message = session.receiver(address, credit=1).get().message
    assert (message.delivery_count, message.annotations["x-opt-why"]) == (1, "busy")
    assert message.bare == text("m")


@rule("3.4.5.delivery-failed")
def test_3_4_5_delivery_failed(session: Session, queues: Queues) -> None:
    """One more each time."""
    receiver = session.receiver(_fill(session, queues, "m"), credit=3)
    for count in range(3):
        found = receiver.get()
        assert found.message.delivery_count == count
        receiver.settle(found, FAILED)


@rule("3.4.5.undeliverable-here")
def test_3_4_5_undeliverable_here(session: Session, queues: Queues, strict: Session, strict_queues: Queues) -> None:
    """The next message comes instead; another link of the same session gets it, in the strict dialect only."""
    for asked, made, others in ((strict, strict_queues, ["not here"]), (session, queues, [])):
        address = _fill(asked, made, "not here", "here")
        receiver = asked.receiver(address, credit=1)
        receiver.settle(receiver.get(), NOT_HERE)
        receiver.credit(2)
        assert receiver.bodies(1) == ["here"]
        assert receiver.is_silent()
        other = asked.receiver(address, credit=1)
        assert other.bodies(len(others)) == others
        assert other.is_silent()


@clause("3.4.5.annotations-merged")
def test_3_4_5_annotations_merged(session: Session, queues: Queues) -> None:
    """One replaced, one added, one left alone; the bare message byte for byte."""
    address = queues.address()
    sent = annotations({"x-opt-old": "old", "x-opt-kept": Symbol("kept")}) + text("m")
    session.sender(address).accepted(sent)
    receiver = session.receiver(address, credit=2)
    receiver.settle(receiver.get(), Modified(False, False, {"x-opt-old": "new", "x-opt-more": 1}))
    message = receiver.get().message
    assert message.own_annotations == {"x-opt-old": "new", "x-opt-kept": Symbol("kept"), "x-opt-more": 1}
    assert message.bare == text("m")


# -- §3.5.2, §3.5.3: which outcomes, and for how long -----------------------------------------------------------------


@rule("3.5.2.copy-link-remembers")
def test_3_5_2_copy_link_remembers(session: Session, queues: Queues) -> None:
    """Each once, in order, whatever is said of it, and with new messages coming."""
    address = _fill(session, queues, "one", "two")
    copy = session.receiver(Source(address=address, distribution_mode="copy"), credit=10)
    for outcome, value in ((RELEASED, "one"), (FAILED, "two")):
        found = copy.get()
        assert found.message.value == value
        copy.settle(found, outcome)
    assert copy.is_silent()
    session.sender(address).accepted(text("three"))
    assert copy.bodies(1) == ["three"]
    assert copy.is_silent()
    assert queues.count(address) == 3


@pytest.mark.parametrize("over", ["session", "connection"])
@pytest.mark.parametrize("kind", ["classic", "move", "stream"])
@rule("3.5.2.accepted-not-resent")
def test_3_5_2_accepted_not_resent(connect: Connect, queues: Queues, kind: str, over: str) -> None:
    """Accepted, by copy of a queue or a stream, or by move: the link that is resumed gets what comes behind alone."""
    session = connect().session()
    address = _fill_kind(session, queues, kind, "one", "two")
    filters: dict[str, object] = {}
    if kind == "stream":
        filters["offset"] = Described(Symbol("rabbitmq:stream-offset-spec"), "first")
    mode = "move" if kind == "move" else "copy"
    source = Source(address=address, distribution_mode=mode, filter=filters, expiry_policy="never")
    copy = session.receiver(source, credit=2, name=fresh("copy"))
    assert copy.bodies(2) == ["one", "two"]
    if over == "session":
        assert not copy.detach(closed=False).closed
    else:
        session.sync()
        session.peer.close()
        session = connect(session.peer.container).session()
    session.sender(address).accepted(text("three"))
    again = session.receiver(source, credit=5, name=copy.name, unsettled={})
    assert again.bodies(1) == ["three"]
    assert again.is_silent()


def _fill_kind(session: Session, queues: Queues, kind: str, *values: str) -> str:
    address = queues.address(queue_type="stream" if kind == "stream" else "classic")
    session.sender(address).accepted(*map(text, values))
    return address


@clause("3.5.2.copy")
def test_3_5_2_copy(session: Session, queues: Queues) -> None:
    """Accepted or rejected by a copying link, it is there for a moving one, as if never delivered."""
    address = _fill(session, queues, "m")
    for outcome in (ACCEPTED, Rejected(), NOT_HERE):
        copy = session.receiver(Source(address=address, distribution_mode="copy"), credit=1)
        copy.settle(copy.get(), outcome)
        copy.detach()
    found = session.receiver(address, credit=1).get()
    assert (found.message.value, found.message.delivery_count) == ("m", 0)


@clause("3.5.2.move")
def test_3_5_2_move(session: Session, queues: Queues) -> None:
    """Two links share ten messages: each comes once."""
    address = _fill(session, queues, *range(10))
    source = Source(address=address, distribution_mode="move")
    links = [session.receiver(source) for _ in range(2)]
    for link in links:
        assert link.answer.source is not None
        assert link.answer.source.distribution_mode == "move"
        link.credit(5)
    values = [each.message.value for link in links for each in link.take(5)]
    assert sorted(values, key=str) == list(range(10))


def _sent(link: Sender, value: str) -> None:
    link.accepted(text(value))


@clause("3.5.3.default-outcome")
def test_3_5_3_default_outcome(session: Session, queues: Queues) -> None:
    """Settled with no state, or with one that is no outcome: the default counts. Without one, it is released."""
    dead = queues.new()
    address = _fill(session, queues, "m", "m", dead_letter_exchange="", dead_letter_routing_key=dead)
    source = Source(address=address, default_outcome=Rejected())
    receiver = session.receiver(source, credit=2)
    assert receiver.answer.source is not None
    assert receiver.answer.source.default_outcome == Rejected()
    for state in (None, Received(0, 0)):
        receiver.settle(receiver.get(), state)
    session.sync()
    assert queues.count(dead) == 2
    assert queues.count(address) == 0
    address = _fill(session, queues, "m", dead_letter_exchange="", dead_letter_routing_key=dead)
    receiver = session.receiver(address, credit=1)
    receiver.settle(receiver.get(), None)
    session.sync()
    assert (queues.count(dead), queues.count(address)) == (2, 1)


@clause("3.5.3.default-outcome-on-detach")
def test_3_5_3_default_outcome_on_detach(session: Session, queues: Queues) -> None:
    """The link is closed with a delivery unsettled: the default counts; without one it is available, as if lost."""
    address = _fill(session, queues, "m")
    receiver = session.receiver(Source(address=address, default_outcome=FAILED), credit=1)
    receiver.get()
    receiver.detach()
    receiver = session.receiver(address, credit=1)
    assert receiver.get().message.delivery_count == 1
    receiver.detach()
    assert queues.count(address) == 1


@rule("3.5.3.default-outcome-valid")
def test_3_5_3_default_outcome_valid(session: Session, queues: Queues) -> None:
    """Declared is an outcome for coordinators only: the link is refused. Received is none at all: no such attach."""
    declared = Source(address=queues.address(), default_outcome=Declared(b"txn"))
    session.receiver(declared).expect_refusal("amqp:invalid-field")
    state = Described(ULong(spec.RECEIVED), [UInt(0), ULong(0)])
    source = Described(ULong(spec.SOURCE), [queues.address(), None, None, None, None, None, None, None, state])
    attach = [fresh("link"), UInt(0), True, None, None, source, Described(ULong(spec.TARGET), [])]
    session.peer.write(session.channel, None, encode_value(Described(ULong(spec.ATTACH), attach)))
    session.peer.expect_close("amqp:decode-error")


@rule("3.5.3.accepted-supported")
def test_3_5_3_accepted_supported(session: Session, queues: Queues) -> None:
    """It can be said of a message, and the answer names it."""
    address = _fill(session, queues, "m")
    receiver = session.receiver(address, credit=1)
    assert receiver.answer.source is not None
    assert "amqp:accepted:list" in receiver.answer.source.outcomes
    assert receiver.bodies(1) == ["m"]
    assert queues.count(address) == 0


@rule("3.5.3.outcomes-valid")
def test_3_5_3_outcomes_valid(session: Session, queues: Queues) -> None:
    """Asked for two, the answer has these; asked for none, all four; one that is not known is not in it."""
    address = queues.address()
    four = [f"amqp:{name}:list" for name in ("accepted", "rejected", "released", "modified")]
    for asked, expected in (([], four), (four[:2], four[:2]), ([four[0], "amqp:made-up:list"], four[:1])):
        receiver = session.receiver(Source(address=address, outcomes=asked))
        assert receiver.answer.source is not None
        assert sorted(receiver.answer.source.outcomes) == sorted(expected)
