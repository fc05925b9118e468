"""What the client with durable links takes for delivered, and when."""

import pytest

from flintmq.base.errors import ConnectionLost
from flintmq.broker.message import Address, Entry
from flintmq.broker.message import Message as BrokerMessage
from flintmq.client.amqp10.message import Message
from flintmq.client.amqp10.receiver import Delivery
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp10.properties import Header, Properties
from tests.sim.lasting import LastingReceiver
from tests.sim.ledger import REQUEUE, Ledger, Unexpected
from tests.sim.messages import Copy, Sent
from tests.sim.topology import Line, Topology


def _published() -> tuple[Ledger, Line, Sent]:
    line = Line("q")
    topology = Topology()
    topology.lines.append(line)
    ledger = Ledger(topology)
    sent = Sent(1, 1, (line,), 40, 0, persistent=True)
    ledger.published(sent)
    return ledger, line, sent


def _encoded(sent: Sent) -> bytes:
    """It says that nobody else has had it."""
    return Message(sent.body, Properties(), {}, Header(durable=True, first_acquirer=True)).encode()


class _Hands:
    may_be_over = False


def _start(ledger: Ledger, line: Line, receiver: LastingReceiver) -> None:
    """A node starts, and has the message."""
    sent = ledger.messages[1]
    properties = sent.properties()
    message = BrokerMessage(Address("", ""), CODEC_091, properties, sent.body, CODEC_091.options(properties), 0)
    entry = Entry(message, 1)
    entry.redelivered = True
    ledger.found({line.name: [entry]}, 0)
    receiver.started()


def _begin(receiver: LastingReceiver, sent: Sent) -> Delivery:
    """Of a delivery that is the first one all but the end comes."""
    delivery = Delivery(b"7")
    delivery.take(_encoded(sent)[:-20])
    receiver.core._unsettled[delivery.tag] = delivery
    return delivery


def _go_on(receiver: LastingReceiver, delivery: Delivery, sent: Sent) -> None:
    delivery.take(_encoded(sent)[-20:])
    delivery.complete()
    receiver.core._deliver(delivery)
    receiver.look()


def _deliver_elsewhere(ledger: Ledger, line: Line, sent: Sent, redelivered: bool) -> Copy:
    """Somebody else has it, and gives it back."""
    copy = ledger.delivered(line, sent.number, sent.body, redelivered, _Hands(), {})
    ledger.settled(copy, REQUEUE)
    return copy


def test_what_came_together_with_the_end_of_its_link_was_delivered_before_the_next_start() -> None:
    """A delivery that is read in one piece with the end of its link is in hand from then on."""
    ledger, line, sent = _published()
    receiver = LastingReceiver(ledger, 2, line, 10)
    delivery = Delivery(b"7")
    delivery.take(_encoded(sent))
    delivery.complete()
    receiver.core._deliver(delivery)
    receiver.core.lost(ConnectionLost("the node was stopped"))

    receiver.look()
    receiver.look()

    assert receiver.undecided == [delivery]
    assert line.copies[1].holder is receiver


def test_a_delivery_that_goes_on_behind_a_start_is_still_the_first_one() -> None:
    """Its header came before the start, cannot be taken back, and is right: no other link has had the message."""
    ledger, line, sent = _published()
    receiver = LastingReceiver(ledger, 2, line, 10)
    delivery = _begin(receiver, sent)
    _start(ledger, line, receiver)
    _start(ledger, line, receiver)

    _go_on(receiver, delivery, sent)

    assert receiver.undecided == [delivery]


@pytest.mark.parametrize("starts", [0, 2])
def test_a_delivery_that_begins_behind_a_start_says_that_there_may_have_been_another(starts: int) -> None:
    """Only what was there at no start before its delivery may be called new, however often that is cut off."""
    ledger, line, sent = _published()
    receiver = LastingReceiver(ledger, 2, line, 10)
    _start(ledger, line, receiver)
    delivery = _begin(receiver, sent)
    for _ in range(starts):
        _start(ledger, line, receiver)
    with pytest.raises(Unexpected, match="did not say so"):
        _go_on(receiver, delivery, sent)


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "since"])
def test_a_delivery_that_goes_on_behind_a_start_is_not_the_first_where_somebody_else_had_the_message(
    is_before: bool,
) -> None:
    """Neither before the start nor behind it may anybody else have had what a delivery that was cut off calls new."""
    ledger, line, sent = _published()
    receiver = LastingReceiver(ledger, 2, line, 10)
    if is_before:
        _deliver_elsewhere(ledger, line, sent, redelivered=False)
    delivery = _begin(receiver, sent)
    _start(ledger, line, receiver)
    if not is_before:
        _deliver_elsewhere(ledger, line, sent, redelivered=True)
    with pytest.raises(Unexpected, match="did not say so"):
        _go_on(receiver, delivery, sent)
