"""When a sync waits for more messages: never for a client that is alone, and never for long."""

import pytest

from flintmq.storage.gathering import BYTES_MAX, GATHERING_MAX_SECONDS, MESSAGE_SECONDS, PAUSE_MAX_SYNCS, Gathering

SYNC_SECONDS = 0.001


def _synced(batches: int, messages: int, seconds: float = SYNC_SECONDS) -> Gathering:
    """After a sync that ended at the time 1."""
    gathering = Gathering()
    gathering.synced(batches, messages, 1.0 - seconds, 1.0)
    return gathering


def test_a_lone_publisher_never_waits() -> None:
    """If one client sends at a time, each of its messages is synced at once, however soon it comes."""
    gathering = Gathering()
    assert gathering.wait_seconds(1, 100, 0.0) == 0
    for messages in (1, 10, 1, 1):
        gathering.synced(1, messages, 1.0, 1.001)
        assert gathering.wait_seconds(0, 0, 1.001) == 0
        assert gathering.wait_seconds(1, 100, 1.001) == 0


def test_publishers_that_take_turns_are_synced_together() -> None:
    """If messages came during a sync, the next one waits for them and for those of whom the sync has confirmed."""
    gathering = _synced(5, 5)
    assert gathering.wait_seconds(4, 400, 1.0) == pytest.approx(SYNC_SECONDS)
    assert gathering.wait_seconds(8, 800, 1.0 + SYNC_SECONDS / 2) == pytest.approx(SYNC_SECONDS / 2)
    assert gathering.wait_seconds(9, 900, 1.0 + SYNC_SECONDS / 2) == 0


def test_publishers_that_were_synced_together_stay_together() -> None:
    """If no message came during a sync of several clients, the next one waits for as many messages."""
    gathering = _synced(3, 10)
    assert gathering.wait_seconds(0, 0, 1.0) > 0
    assert gathering.wait_seconds(9, 900, 1.0) > 0
    assert gathering.wait_seconds(10, 1000, 1.0) == 0


def test_a_publisher_that_is_gone_is_waited_for_once() -> None:
    """The next sync begins when it has waited as long as the last one took, and expects no more than came."""
    gathering = _synced(2, 2)
    gathering.wait_seconds(0, 0, 1.0)
    assert gathering.wait_seconds(1, 100, 1.0 + SYNC_SECONDS) == 0
    gathering.synced(1, 1, 1.0 + SYNC_SECONDS, 1.0 + 2 * SYNC_SECONDS)
    assert gathering.wait_seconds(0, 0, 1.0 + 2 * SYNC_SECONDS) == 0
    assert gathering.wait_seconds(1, 100, 1.0 + 2 * SYNC_SECONDS) == 0


def test_a_slow_sync_is_not_waited_for_as_long() -> None:
    """The wait is limited, whatever the disk takes."""
    gathering = _synced(5, 5, seconds=1.0)
    assert gathering.wait_seconds(4, 400, 1.0) == pytest.approx(GATHERING_MAX_SECONDS)


def test_more_messages_than_can_come_are_not_waited_for() -> None:
    """If the sync takes less time than so many messages do, or they are large, the next one begins at once."""
    most = int(SYNC_SECONDS / MESSAGE_SECONDS)
    assert _synced(2, most - 1).wait_seconds(1, 100, 1.0) > 0
    assert _synced(2, most).wait_seconds(1, 100, 1.0) == 0
    assert _synced(2, 2).wait_seconds(1, BYTES_MAX + 1, 1.0) == 0


def test_who_waits_in_vain_waits_less_often() -> None:
    """Where messages come whenever clients like, few syncs wait; where a wait pays, the next one waits again."""
    gathering = Gathering()
    waited = []
    for number in range(1_000):
        gathering.synced(2, 2, 1.0, 1.0 + SYNC_SECONDS)
        if gathering.wait_seconds(1, 100, 1.0 + SYNC_SECONDS) > 0:
            waited.append(number)
    assert waited[:4] == [0, 2, 6, 14]
    assert waited[-1] - waited[-2] == PAUSE_MAX_SYNCS + 1
    gathering = _synced(2, 2)
    for _ in range(10):
        assert gathering.wait_seconds(0, 0, 1.0) > 0
        gathering.synced(2, 2, 1.0 - SYNC_SECONDS, 1.0)
