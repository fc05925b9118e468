"""What docs/selectors.md shows works."""

import re
from pathlib import Path

import pytest

from flintmq.base import limits
from tests.docs_pages import run_example

DOCS = (Path(__file__).parents[2] / "docs" / "selectors.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("number", "printed"), [(0, "eu 1200\n"), (1, "9\n")])
def test_examples_run(number: int, printed: str) -> None:
    """Each example runs as it stands, but for the broker's address, and gets what it selects."""
    result = run_example(EXAMPLES[number])
    assert (result.stdout, result.stderr) == (printed, "")


def test_limits_are_the_documented_ones() -> None:
    """The limits that the text names are those of the code."""
    assert f"{limits.SELECTOR_MAX_CHARACTERS:,} characters" in DOCS
    assert f"{limits.SELECTOR_DEPTH_MAX} expressions within each other" in DOCS
