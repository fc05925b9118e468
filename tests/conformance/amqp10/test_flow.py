"""Part 2 §2.6.7 to §2.6.10: link credit."""

from typing import Any

import pytest

from flintmq.wire.amqp10.termini import Source
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.encoding import properties, text
from tests.conformance.amqp10.links import Receiver
from tests.conformance.amqp10.peer import fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session

pytestmark = pytest.mark.both_transports


def _filled(session: Session, queues: Queues, count: int) -> Receiver:
    """A receiver without credit, and so many messages."""
    address = queues.address()
    session.sender(address).accepted(*map(text, range(count)))
    return session.receiver(address)


@rule("2.6.7.delivery-limit")
def test_2_6_7_delivery_limit(session: Session, queues: Queues) -> None:
    """Three credits, ten messages: three; settling them gives none back; two more, two more."""
    receiver = _filled(session, queues, 10)
    for credit in (3, 2):
        receiver.credit(credit)
        found = receiver.take(credit)
        assert receiver.is_silent()
        for each in found:
            receiver.settle(each)
        assert receiver.is_silent()


@rule("2.6.7.credit-formula")
def test_2_6_7_credit_formula(session: Session, queues: Queues) -> None:
    """The receiver had seen none when it gave five, though two were on their way: three more come, not five."""
    receiver = _filled(session, queues, 10)
    start = receiver.delivery_count
    receiver.credit(2)
    receiver.take(2)
    receiver.credit(5, delivery_count=start)
    receiver.take(3)
    assert receiver.is_silent()


@rule("2.6.7.unknown-delivery-count")
def test_2_6_7_unknown_delivery_count(session: Session, queues: Queues) -> None:
    """Credit without a count, twice: it counts from the first delivery both times."""
    receiver = _filled(session, queues, 10)
    receiver.credit(2, delivery_count=None)
    receiver.take(2)
    receiver.credit(3, delivery_count=None)
    receiver.take(1)
    assert receiver.is_silent()


@rule("2.6.7.count-and-credit")
def test_2_6_7_count_and_credit(session: Session, queues: Queues) -> None:
    """Of ten credits four are used: the server says a count four higher and a credit of six."""
    receiver = _filled(session, queues, 4)
    start = receiver.delivery_count
    receiver.credit(10)
    receiver.take(4)
    session.flow(handle=receiver.handle, link_credit=10, delivery_count=start, echo=True)
    session.peer.wait(lambda: bool(receiver.flows), receiver.ill)
    assert (receiver.flows[-1].delivery_count, receiver.flows[-1].link_credit) == (start + 4, 6)


def _left_available(session: Session, queues: Queues, said: int) -> int:
    """A sender says that so many are available, and sends three; what the server counts then."""
    sender = session.sender(queues.address())
    session.peer.wait(lambda: sender.credit >= 3, sender.ill)
    session.flow(handle=sender.handle, delivery_count=0, link_credit=sender.credit, available=said)
    sender.accepted(text(), text(), text())
    before = len(sender.flows)
    session.flow(handle=sender.handle, delivery_count=3, link_credit=sender.credit, echo=True)
    session.peer.wait(lambda: len(sender.flows) > before, sender.ill)
    return sender.flows[-1].available or 0


@rule("2.6.7.available-floor")
def test_2_6_7_available_floor(session: Session, queues: Queues) -> None:
    """Of five that were available two are left, and of one none."""
    assert [_left_available(session, queues, said) for said in (5, 1)] == [2, 0]


@rule("2.6.7.drain")
def test_2_6_7_drain(session: Session, queues: Queues) -> None:
    """Ten credits, two messages: two come, and a flow that says the rest is used up; new ones do not come."""
    receiver = _filled(session, queues, 2)
    start = receiver.delivery_count
    found = receiver.drain(10)
    assert [each.message.value for each in found] == [0, 1]
    flow = receiver.flows[-1]
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (start + 10, 0, True)
    address = receiver.asked.source
    assert isinstance(address, Source)
    session.sender(address.address).accepted(text())
    assert receiver.is_silent()


@clause("2.6.7.available")
def test_2_6_7_available(session: Session, queues: Queues) -> None:
    """Seven on the queue, credit for two: five more are available."""
    receiver = _filled(session, queues, 7)
    receiver.credit(2)
    receiver.take(2)
    receiver.credit(0, echo=True)
    session.peer.wait(lambda: any(flow.link_credit == 0 for flow in receiver.flows), receiver.ill)
    assert receiver.flows[-1].available == 5


@clause("2.6.8.synchronous-get")
def test_2_6_8_synchronous_get(session: Session, queues: Queues) -> None:
    """One, then one, then none, on the same link."""
    receiver = _filled(session, queues, 2)
    for values in ([0], [1], []):
        found = receiver.drain(1)
        assert [each.message.value for each in found] == values


@clause("2.6.10.stop")
def test_2_6_10_stop(session: Session, queues: Queues) -> None:
    """Credit zero, or a drain of an idle link: new messages do not come until there is credit again."""
    address = queues.address()
    sender, receiver = session.sender(address), session.receiver(address, credit=5)
    for stop in (lambda: receiver.credit(0), lambda: receiver.drain(5)):
        stop()
        session.sync()
        sender.accepted(text("m"))
        assert receiver.is_silent()
        receiver.credit(1)
        assert receiver.bodies(1) == ["m"]


@clause("2.8.18.transfer-limit")
def test_2_8_18_transfer_limit(strict: Session, strict_queues: Queues) -> None:
    """Requests whose answers nobody takes use up the credit of /management; one more is too many, where they wait."""
    pair: dict[str, Any] = {"name": fresh("pair"), "properties": {"paired": True}}
    strict.receiver("/management", **pair)
    sender = strict.sender("/management", **pair)
    asked = f"/queues/{strict_queues.new()}"
    request = properties(message_id="1", to=asked, subject="GET", reply_to="$me") + text(None)
    strict.peer.wait(lambda: sender.credit > 0, sender.ill)
    credit = sender.credit
    for _ in range(credit + 1):
        assert sender.detached is None
        sender.begin(request, more=False, settled=True)
        strict.sync()
    sender.expect_detach("amqp:link:transfer-limit-exceeded")
