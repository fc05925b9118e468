"""The examples do what they say: each runs as its README says, and prints what stands beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

from flintmq.spark.pipelines.pipeline_file import load
from tests.servers import environment

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
SCRIPTS = sorted(file.stem for file in (EXAMPLES / "expected").glob("*.txt"))
# Less than one, on a machine that does nothing else.
MINUTES = 8


@pytest.mark.long
@pytest.mark.timeout(60 * MINUTES)
@pytest.mark.parametrize("name", SCRIPTS)
def test_example(name: str) -> None:
    """An example's output is what was expected of it, line by line, and it says that all is well."""
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60 * MINUTES,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Nothing but what is going on.
    assert all(line.startswith("Starting ") for line in done.stderr.splitlines()), done.stderr
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert printed == (EXAMPLES / "expected" / f"{name}.txt").read_text().splitlines()


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_definition(file: Path) -> None:
    """Every definition among the examples is one."""
    assert load(str(file)).description == ""
