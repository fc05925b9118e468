"""What docs/client.md, docs/leases.md and docs/staged-publishes.md show works."""

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from tests.docs_pages import run_example, side_by_side

DOCS = Path(__file__).parents[2] / "docs" / "client.md"
SHOWN = "".join(DOCS.with_name(name).read_text() for name in ("client.md", "leases.md", "staged-publishes.md"))
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", SHOWN, re.MULTILINE | re.DOTALL)


Ran = dict[str, Future["subprocess.CompletedProcess[str]"]]


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    with side_by_side(run_example, EXAMPLES) as found:
        yield found


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_run(ran: Ran, number: int) -> None:
    """Each example runs as it stands, but for the broker's address, and prints something."""
    result = ran[EXAMPLES[number]].result()
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_every_error_is_documented() -> None:
    """The table of errors names each one that the client exports."""
    text = DOCS.read_text()
    exported = {name: getattr(module, name) for module in (fc, amqp) for name in module.__all__}
    errors = [name for name, value in exported.items() if isinstance(value, type) and issubclass(value, fc.FlintError)]
    assert len(errors) > 10
    assert [name for name in errors if not re.search(rf"[`.]{name}\b", text)] == []
