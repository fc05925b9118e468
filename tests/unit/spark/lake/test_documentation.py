"""docs/lake.md names what there is."""

from pathlib import Path

import pytest

from flintmq.spark.lake.dead_letters import DEATH_COLUMNS
from flintmq.spark.lake.options import READ_NAMES, WRITE_NAMES

TEXT = (Path(__file__).parents[4] / "docs" / "lake.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*WRITE_NAMES, *READ_NAMES, *DEATH_COLUMNS])
def test_everything_is_documented(name: str) -> None:
    """Every option and every column stands in the documentation."""
    assert f"`{name}`" in TEXT
