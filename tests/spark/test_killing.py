"""Deaths of drivers, executors and brokers, twenty and more: a million messages arrive where they should, each once."""

from pathlib import Path

import pytest

from tests.spark.killing.story import Story

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(1800)
def test_a_queue_into_a_lake(tmp_path: Path) -> None:
    """Whoever is killed, at random and where it hurts most, no message is lost and none comes twice."""
    story = Story(tmp_path, "1", kills=10, batches=10, size=50_000)
    story.run()
    assert story.kills.total() >= 10


@pytest.mark.timeout(1800)
def test_a_queue_through_a_shuffle_to_an_exchange(tmp_path: Path) -> None:
    """Rows that come in another order each time are published once each, whoever dies around the commit."""
    story = Story(tmp_path, "2", kills=10, batches=10, size=50_000, job="exchange")
    story.run()
    assert story.kills.total() >= 11
