"""The tutorial on pipelines works as it is written."""

from pathlib import Path

import pytest

from flintmq.embedded import Broker
from tests.docs_pages import DOCS, follow


# Two sessions of Spark, one behind the other, and on a busy machine each takes a minute to begin.
@pytest.mark.timeout(400)
def test_the_pipeline_works(tmp_path: Path) -> None:
    """Whoever does what the page says, in its order, sees what it shows."""
    with Broker() as broker:
        assert follow(DOCS / "tutorials" / "spark-pipeline.md", broker.url, tmp_path) == 4
