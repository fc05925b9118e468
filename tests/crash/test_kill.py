"""A loaded broker survives kills and stops. `make crash` has 200 kills.

When the kills come depends on the machine besides the seed: that repeats a load, not a run.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.story import Story
from tests.crash.transaction_story import TransactionStory
from tests.effort import SEED, effort

# Kills and starts, as many as the tier asks for: more than other tests may take on a machine that is busy.
pytestmark = pytest.mark.timeout(400)

KILLS = effort(4)
TRANSACTION_KILLS = effort(2)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    told = Story(tmp_path / "data", SEED)
    try:
        told.begin()
        yield told
    finally:
        told.broker.close()


def test_a_loaded_broker_survives_kills(story: Story) -> None:
    """Every confirmed message is there in its order, none that was settled and synced comes back, no stream forks."""
    try:
        story.kill(KILLS)
        story.end()
    except BaseException as error:
        error.add_note(f"TEST_SEED={SEED}; killed {story.kills} times")
        raise


def test_a_loaded_broker_stops_in_order(story: Story) -> None:
    """A SIGTERM under load closes every client with 320, exits with 0, and keeps what a kill would keep."""
    story.stop(1)
    story.end()


def test_transactions_are_whole_or_not_at_all(tmp_path: Path) -> None:
    """Whatever one publishes, acknowledges and rejects: all of it or nothing; and all, once it was answered."""
    story = TransactionStory(tmp_path / "data", SEED)
    story.broker.start()
    try:
        for number in range(TRANSACTION_KILLS):
            story.chapter(number)
    except BaseException as error:
        error.add_note(f"TEST_SEED={SEED} repeats the choices")
        raise
    finally:
        story.broker.close()
    # A load that commits nothing would show nothing.
    assert story.applied > 0
