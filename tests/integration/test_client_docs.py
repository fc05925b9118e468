"""What docs/client.md, docs/leases.md, docs/staged-publishes.md and the clients' docstrings show works."""

import ast
import asyncio
import inspect
import re
import subprocess
import textwrap
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from flintmq.client import blocking
from flintmq.client.amqp10 import blocking as blocking10
from flintmq.embedded import Broker
from tests.docs_pages import run_example, side_by_side

DOCS = Path(__file__).parents[2] / "docs" / "client.md"
SHOWN = "".join(DOCS.with_name(name).read_text() for name in ("client.md", "leases.md", "staged-publishes.md"))
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", SHOWN, re.MULTILINE | re.DOTALL)
# An example of a docstring: lines that are indented further than its heading.
IN_DOCSTRING = re.compile(r"^( *)Example::\n\n((?:\1 +.*\n|\n)+)", re.MULTILINE)
# The example of `connect` comes first; the other ones use what this opens.
OPENED = """
opened = await connect(url)
channel = await opened.channel(confirms=True)
await channel.declare_queue("greetings")
await channel.declare_queue("orders")
"""
OPENED_10 = """
opened = await connect(url)
sender = await opened.sender("/queues/orders")
await sender.send(Message(b"order"))
receiver = await opened.receiver("/queues/orders")
"""

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


@pytest.mark.parametrize("modules", [(fc.aio, amqp.aio), (blocking, blocking10)], ids=["asyncio", "blocking"])
def test_examples_of_docstrings_run(modules: tuple[ModuleType, ModuleType], capsys: pytest.CaptureFixture[str]) -> None:
    """Each example in a docstring of the clients runs, with a connection of its client where it shows none."""
    with Broker() as broker, asyncio.Runner() as runner:
        for module, opened, count in zip(modules, (OPENED, OPENED_10), (3, 2), strict=True):
            is_blocking = module in (blocking, blocking10)
            names: dict[str, object] = {
                "aio": module,
                "connect": module.connect,
                "url": broker.url,
                "Message": amqp.Message,
            }
            sources: list[str] = []
            for _, source in IN_DOCSTRING.findall(inspect.getsource(module)):
                here = re.sub(r"amqp://[^\"]*", broker.url, textwrap.dedent(source))
                sources.append(here.replace("timeout=10.0", "timeout=0.5"))
                assert is_blocking != ("await " in here)
            assert len(sources) == count
            sources.insert(1, opened.replace("await ", "") if is_blocking else opened)
            for source in sources:
                code = compile(source, "<example>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                outcome = FunctionType(code, names)()
                if inspect.iscoroutine(outcome):
                    runner.run(outcome)
    assert "Accepted" in capsys.readouterr().out


def test_every_error_is_documented() -> None:
    """The table of errors names each one that the client exports."""
    text = DOCS.read_text()
    exported = {name: getattr(module, name) for module in (fc, amqp) for name in module.__all__}
    errors = [name for name, value in exported.items() if isinstance(value, type) and issubclass(value, fc.FlintError)]
    assert len(errors) > 10
    assert [name for name in errors if not re.search(rf"[`.]{name}\b", text)] == []
