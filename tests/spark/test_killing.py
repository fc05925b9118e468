"""Drivers that die where it hurts most. `make spark-long` kills drivers, executors and brokers 200 times."""

from pathlib import Path

import pytest

from tests.spark.killing.story import Story


@pytest.mark.timeout(900)
def test_each_message_arrives_once(tmp_path: Path) -> None:
    """From a queue through a shuffle to an exchange, though drivers die while staging and behind a commit."""
    story = Story(tmp_path, "1", kills=1, batches=3, size=10_000, job="exchange")
    story.run()
    assert story.kills.total() == 2
