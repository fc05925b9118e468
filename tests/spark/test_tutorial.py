"""The tutorial on pipelines works as it is written."""

from pathlib import Path

from flintmq.embedded import Broker
from tests.docs_pages import DOCS, follow


def test_the_pipeline_works(tmp_path: Path) -> None:
    """Whoever does what the page says, in its order, sees what it shows."""
    with Broker() as broker:
        assert follow(DOCS / "tutorials" / "spark-pipeline.md", broker.url, tmp_path) == 4
