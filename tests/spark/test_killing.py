"""Twenty deaths of drivers, executors and brokers, and a queue that arrives in files: each message once."""

from pathlib import Path

import pytest

from tests.spark.killing.story import Story

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(900)
def test_a_queue_into_files(tmp_path: Path) -> None:
    """Whoever is killed, at random and where it hurts most, no message is lost and none comes twice."""
    story = Story(tmp_path, "1", kills=20, batches=20, size=10_000)
    story.run()
    assert story.kills.total() >= 20
