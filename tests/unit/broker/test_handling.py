"""What a message asks of a queue: how its priority is read where a queue tells few or many apart."""

import pytest

from flintmq.broker.message import MessageOptions


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (1, "000000000000"),
        (2, "000001111111"),
        (3, "000012222222"),
        (5, "000123444444"),
        (9, "012345678888"),
        (10, "012345678999"),
        (11, "0123456789aa"),
    ],
)
def test_priorities_around_the_middle(levels: int, expected: str) -> None:
    """Below ten levels, 4 and 5 are the middle that two levels tell apart; from ten on they count from 0."""
    for priority, level in enumerate(expected):
        options = MessageOptions(False, priority)
        options.is_centred = True
        assert options.level(levels - 1) == int(level, 16)


def test_priorities_from_the_lowest() -> None:
    """Those of AMQP 0-9-1 count from 0 however few levels there are."""
    assert [MessageOptions(False, priority).level(2) for priority in range(5)] == [0, 1, 2, 2, 2]
