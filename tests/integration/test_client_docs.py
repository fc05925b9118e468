"""What docs/client.md, docs/leases.md and docs/staged-publishes.md show works."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from tests.docs_pages import patient
from tests.servers import BrokerProcess

DOCS = Path(__file__).parents[2] / "docs" / "client.md"
SHOWN = "".join(DOCS.with_name(name).read_text() for name in ("client.md", "leases.md", "staged-publishes.md"))
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", SHOWN, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("docs") / "data") as running:
        yield running


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_run(broker: BrokerProcess, number: int) -> None:
    """Each example runs as it stands, but for the broker's address, and prints something."""
    example = patient(re.sub(r"amqp://[^\"]*", broker.url, EXAMPLES[number]))
    result = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, check=False)  # noqa: S603
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_every_error_is_documented() -> None:
    """The table of errors names each one that the client exports."""
    text = DOCS.read_text()
    exported = {name: getattr(module, name) for module in (fc, amqp) for name in module.__all__}
    errors = [name for name, value in exported.items() if isinstance(value, type) and issubclass(value, fc.FlintError)]
    assert len(errors) > 10
    assert [name for name in errors if not re.search(rf"[`.]{name}\b", text)] == []
