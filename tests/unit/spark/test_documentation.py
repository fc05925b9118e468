"""docs/spark.md names what there is."""

from pathlib import Path

import pytest

from flintmq.spark.columns import READABLE
from flintmq.spark.options import NAMES

TEXT = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*NAMES, *READABLE])
def test_everything_is_documented(name: str) -> None:
    """Every option and every column stands in the documentation."""
    assert f"`{name}`" in TEXT
