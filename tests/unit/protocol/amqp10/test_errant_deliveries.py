"""Deliveries of a link that was detached for its peer's fault: who speaks of them loses the session (part 2 §2.6.5)."""

import pytest

from flintmq.base.errors import DetachForced, EndedByPeer, ErrantLink, InvalidField
from flintmq.protocol.amqp10.errant_deliveries import ErrantDeliveries
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink
from flintmq.wire.amqp10.performatives import Transfer
from flintmq.wire.amqp10.states import ACCEPTED
from tests.unit.protocol.amqp10.pair import Flowing


def _failed(to_server: bool, by_receiver: bool) -> Flowing:
    """Three deliveries are unsettled on a link, on which one side then does wrong."""
    flowing = Flowing(to_server)
    for number in range(3):
        flowing.sender.send(number, b"", b"x", False)
    flowing.run()
    flowing.sends.link = flowing.receives.link = None
    # What the other side did last, as far as this one is concerned.
    wronged = flowing.sender if by_receiver else flowing.receiver
    wronged.fail(InvalidField("wrong"))
    flowing.run()
    assert flowing.owner.ended == flowing.peer.ended == []
    return flowing


def _is_ended(flowing: Flowing) -> bool:
    flowing.run()
    ended = [*flowing.owner.ended, *flowing.peer.ended]
    # One has found it out, and the other was told.
    return len(ended) == 2 and {type(error) for error in ended} == {ErrantLink, EndedByPeer}


@pytest.mark.parametrize("by_receiver", [False, True])
@pytest.mark.parametrize("to_server", [False, True])
def test_a_word_about_one_of_them(to_server: bool, by_receiver: bool) -> None:
    """In either direction, and in either role; also once both sides have detached the link."""
    flowing = _failed(to_server, by_receiver)
    guilty = flowing.receiver if by_receiver else flowing.sender
    guilty.session.add_disposition(by_receiver, 1, ACCEPTED, True)
    assert _is_ended(flowing)


@pytest.mark.parametrize(("first", "last"), [(0, 9), (2, 5), (0, 1)])
def test_a_range_with_some_of_them(first: int, last: int) -> None:
    """One is enough, whatever else is in it."""
    flowing = _failed(True, True)
    for number in range(first, last + 1):
        flowing.receiver.session.add_disposition(True, number, ACCEPTED, True)
    assert _is_ended(flowing)


@pytest.mark.parametrize(("first", "last"), [(3, 3), (3, 9)])
def test_other_deliveries(first: int, last: int) -> None:
    """What does not meet any of them does no harm."""
    flowing = _failed(True, True)
    for number in range(first, last + 1):
        flowing.receiver.session.add_disposition(True, number, ACCEPTED, True)
    flowing.run()
    assert flowing.owner.ended == []


def test_deliveries_that_were_settled_before() -> None:
    """They are nobody's any more."""
    flowing = Flowing()
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    ((delivery, _),) = flowing.receives.messages
    assert delivery is not None
    flowing.receiver.accept_delivery(delivery)
    flowing.run()
    flowing.sender.fail(InvalidField("wrong"))
    flowing.run()
    flowing.receiver.session.add_disposition(True, delivery.id, ACCEPTED, True)
    flowing.run()
    assert flowing.owner.ended == []


def test_a_delivery_of_which_a_part_came() -> None:
    """It is one of them, too."""
    flowing = Flowing()
    flowing.session.send_transfer(Transfer(flowing.sender.handle, 0, b"t", 0, False, True))
    flowing.run()
    assert flowing.receiver.begun is not None
    flowing.receiver.fail(InvalidField("wrong"))
    flowing.run()
    flowing.session.add_disposition(False, 0, ACCEPTED, True)
    assert _is_ended(flowing)


def test_a_link_that_was_detached_for_reasons_of_ours() -> None:
    """The peer did no wrong: what it says of the deliveries came too late, and that is all."""
    flowing = Flowing()
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    flowing.sender.detach(DetachForced("closed"))
    flowing.receiver.session.add_disposition(True, 0, ACCEPTED, True)
    flowing.run()
    assert flowing.owner.ended == []


def test_runs_of_numbers() -> None:
    """Over the end of the numbers and back to 0; the oldest runs are forgotten beyond a number of them."""
    flowing = Flowing()
    link = flowing.receiver
    errant = ErrantDeliveries()
    errant.add([_delivery(link, number) for number in (0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1)])
    assert errant.overlaps(0xFFFF_FFFF, 0xFFFF_FFFF)
    assert errant.overlaps(1, 7)
    assert errant.overlaps(0xFFFF_FF00, 0xFFFF_FFFE)
    assert not errant.overlaps(2, 7)
    assert not errant.overlaps(0xFFFF_FF00, 0xFFFF_FFFD)
    errant.add([_delivery(link, number) for number in range(10, 10 + 2 * 256, 2)])
    assert not errant.overlaps(0, 0)
    assert errant.overlaps(10, 10)
    assert not errant.overlaps(11, 11)


def _delivery(link: ReceiverLink, number: int) -> IncomingDelivery:
    return IncomingDelivery(link, number, b"t", 0)
