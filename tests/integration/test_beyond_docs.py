"""What docs/beyond-rabbitmq.md shows works."""

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from flintmq.base import limits
from tests.docs_pages import run_example, side_by_side

DOCS = (Path(__file__).parents[2] / "docs" / "beyond-rabbitmq.md").read_text()
BEGINNING, *EXAMPLES = re.findall(r"^```python\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
PRINTED = {
    "reminders": "b'write'\n",
    "tasks": "None\n{'x-delivery-count': 1}\n{'x-delivery-count': 2}\nb'impossible'\n",
    "payments": "3\n",
    "orders": "b'first'\nb'second'\n2\n",
    "invoices": "None\nb'42'\n",
    "accounts": "[[b'a', b'a'], [b'b']]\n",
    "prices": "[b'7', b'12']\n",
    "log": "b'0'\nb'1'\nb'2'\nb'3'\nb'4'\nb'5'\n",
}


Ran = dict[str, Future["subprocess.CompletedProcess[str]"]]


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    with side_by_side(run_example, (BEGINNING + example for example in EXAMPLES)) as found:
        yield found


@pytest.mark.parametrize(("name", "number"), [*zip(PRINTED, range(len(EXAMPLES)), strict=True)])
def test_examples_run(ran: Ran, name: str, number: int) -> None:
    """Each example runs as it stands, but for the broker's address and a wait, and prints what the text says."""
    assert f'"{name}"' in EXAMPLES[number]
    result = ran[BEGINNING + EXAMPLES[number]].result()
    assert (result.stdout, result.stderr) == (PRINTED[name], "")


def test_the_example_of_streams_runs() -> None:
    """docs/streams.md prints what it says."""
    page = (Path(__file__).parents[2] / "docs" / "streams.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    result = run_example(example)
    assert (result.stdout, result.stderr) == ("1 b'1'\n2 b'2'\n", "")


def test_the_default_is_the_documented_one() -> None:
    """How many messages are remembered, if nothing is said of it."""
    assert f"(default {limits.DEDUP_DEFAULT_ENTRIES:,})" in DOCS
