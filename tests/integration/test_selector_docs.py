"""What docs/selectors.md shows works."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.base import limits
from tests.docs_pages import patient
from tests.servers import BrokerProcess

DOCS = (Path(__file__).parents[2] / "docs" / "selectors.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("docs") / "data") as running:
        yield running


@pytest.mark.parametrize(("number", "printed"), [(0, "eu 1200\n"), (1, "9\n")])
def test_examples_run(broker: BrokerProcess, number: int, printed: str) -> None:
    """Each example runs as it stands, but for the broker's address, and gets what it selects."""
    example = patient(re.sub(r"amqp://[^\"]*", broker.url, EXAMPLES[number]))
    result = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False)  # noqa: S603
    assert (result.stdout, result.stderr) == (printed, "")


def test_limits_are_the_documented_ones() -> None:
    """The limits that the text names are those of the code."""
    assert f"{limits.SELECTOR_MAX_CHARACTERS:,} characters" in DOCS
    assert f"{limits.SELECTOR_DEPTH_MAX} expressions within each other" in DOCS
