"""Deliveries by their number."""

import pytest

from flintmq.base.errors import InvalidField
from flintmq.protocol.amqp10.delivery import Delivery, Unsettled


def add(unsettled: Unsettled, delivery_id: int) -> Delivery:
    delivery = Delivery(delivery_id, None)
    unsettled.add(delivery)
    return delivery


def test_in_order() -> None:
    """Deliveries are found until they are removed, in whichever order that is."""
    unsettled = Unsettled()
    deliveries = [add(unsettled, number) for number in range(5)]
    unsettled.remove(deliveries[2])
    unsettled.remove(deliveries[0])
    unsettled.remove(deliveries[0])
    assert unsettled.get(0) is None
    assert unsettled.get(2) is None
    assert unsettled.get(3) is deliveries[3]
    assert unsettled.get(5) is None
    assert unsettled.all() == [deliveries[1], deliveries[3], deliveries[4]]
    assert unsettled.between(0, 3) == [deliveries[1], deliveries[3]]
    assert unsettled.between(4, 0) == []
    assert len(unsettled) == 3


def test_numbers_wrap() -> None:
    """Behind the last number comes zero."""
    unsettled = Unsettled()
    deliveries = [add(unsettled, number & 0xFFFF_FFFF) for number in range(0xFFFF_FFFE, 0x1_0000_0003)]
    assert unsettled.between(0xFFFF_FFFF, 1) == deliveries[1:4]
    assert unsettled.get(0) is deliveries[2]
    for delivery in deliveries:
        unsettled.remove(delivery)
    assert unsettled.all() == []


def test_gaps() -> None:
    """Numbers may be left out, a few or very many; none may come twice."""
    unsettled = Unsettled()
    deliveries = [add(unsettled, number) for number in (10, 12, 1_000_000, 5)]
    assert [unsettled.get(number) for number in (10, 12, 1_000_000, 5)] == deliveries
    assert unsettled.get(11) is None
    assert unsettled.between(5, 12) == [deliveries[3], deliveries[0], deliveries[1]]
    for number in (5, 12, 1_000_000):
        with pytest.raises(InvalidField):
            add(unsettled, number)


def test_one_left_behind() -> None:
    """A delivery that is never settled costs no slot for each that comes behind it."""
    unsettled = Unsettled()
    oldest = add(unsettled, 0)
    for number in range(1, 100_000):
        unsettled.remove(add(unsettled, number))
    assert len(unsettled._slots) < 10_000
    assert unsettled.get(0) is oldest
    assert unsettled.between(0, 99_999) == [oldest]
    unsettled.remove(oldest)
    assert unsettled.all() == []
    assert len(unsettled) == 0


def test_slots_are_given_back() -> None:
    """What was settled from the front on takes no room."""
    unsettled = Unsettled()
    waiting = [add(unsettled, number) for number in range(2_000)]
    for number in range(2_000, 50_000):
        unsettled.remove(waiting.pop(0))
        waiting.append(add(unsettled, number))
    assert len(unsettled._slots) < 6_000
    assert unsettled.all() == waiting


def test_short_ranges_look_at_few() -> None:
    """A range costs no more than it is long, however its peer numbers; whoever asks hears what it cost."""
    unsettled = Unsettled()
    deliveries = [add(unsettled, (0xFFFF_FFF0 + number * 10_000) & 0xFFFF_FFFF) for number in range(5_000)]
    assert unsettled.between(0xFFFF_FFF0, 0xFFFF_FFF1) == [deliveries[0]]
    assert unsettled.looked_at <= 4
    assert unsettled.between(0xFFFF_FFF0, 9_999) == deliveries[:2]
    assert unsettled.looked_at >= 4_999
