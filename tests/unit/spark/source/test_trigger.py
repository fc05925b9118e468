"""When a micro-batch is worth it: with a size or after a time, whichever is first."""

from flintmq.spark.source.trigger import TriggerDelay


def test_size() -> None:
    """With enough messages, nothing waits, however soon they came."""
    delay = TriggerDelay(10, 60.0)
    assert delay.holds_back(9, 0.0)
    assert not delay.holds_back(10, 0.1)
    assert not delay.holds_back(25, 0.1)


def test_time() -> None:
    """Fewer messages wait from when the first was seen, each delay anew."""
    delay = TriggerDelay(10, 60.0)
    for begin in (1000.0, 2000.0):
        assert delay.holds_back(1, begin)
        assert delay.holds_back(2, begin + 59.9)
        assert not delay.holds_back(2, begin + 60.0)


def test_a_full_window_begins_another() -> None:
    """The time that a delay took before it was full is not taken off the next one's."""
    delay = TriggerDelay(10, 60.0)
    assert delay.holds_back(1, 0.0)
    assert not delay.holds_back(10, 50.0)
    assert delay.holds_back(1, 60.0)
    assert not delay.holds_back(1, 120.0)


def test_a_window_whose_messages_go_away() -> None:
    """If other consumers take the messages, the delay starts again with the next message."""
    delay = TriggerDelay(10, 60.0)
    assert delay.holds_back(1, 0.0)
    delay.reset()
    assert delay.holds_back(1, 70.0)


def test_no_window() -> None:
    """Without one, a single message is enough."""
    assert not TriggerDelay(0, 0.0).holds_back(1, 0.0)
