"""Breaks a rule in a copy of the sources, and runs its test against that."""

import atexit
import compileall
import importlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Final

from tests.conformance.amqp091.rules import AMQP091
from tests.conformance.amqp10.catalogue import AMQP10
from tests.conformance.catalogue import Catalogue
from tests.conformance.mutations import amqp091, amqp10
from tests.conformance.mutations.mutation import SOURCES, Mutation

_HERE: Final = Path(__file__).parents[1]
_ROOT: Final = _HERE.parents[1]
# By protocol: its rows, their mutations, and the rows without one, each with a reason.
CATALOGUES: Final[dict[str, tuple[Catalogue, tuple[Mutation, ...], dict[str, str]]]] = {
    "amqp091": (AMQP091, amqp091.MUTATIONS, amqp091.WITHOUT),
    "amqp10": (AMQP10, amqp10.MUTATIONS, amqp10.WITHOUT),
}
# What does not come is waited for no longer than this (tests/waiting.py).
_WAIT_SECONDS: Final = "15"
# Longer than any of these tests takes on a busy machine; one that takes longer cannot pass.
_TEST_SECONDS: Final = 150

# Nobody reads why a test failed: its asserts are not rewritten.
_OPTIONS: Final = ("-x", "-q", "-rf", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-p", "pytest_timeout")
_UNSET: Final = ("FLINTMQ_EXPECT", "PYTHONDONTWRITEBYTECODE")

NOTICED: Final = "noticed"
MISSED: Final = "not noticed"
BROKEN: Final = "the broker does not start"


def nodes(catalogue: str) -> dict[str, str]:
    """The test of each rule, as pytest names it."""
    found = {}
    for file in sorted((_HERE / catalogue).glob("test_*.py")):
        importlib.import_module(f"tests.conformance.{catalogue}.{file.stem}")
    for rule, tested in CATALOGUES[catalogue][0].tests.items():
        found[rule] = f"{(_HERE / catalogue / tested.file).relative_to(_ROOT)}::{tested.function}"
    return found


@cache
def _unchanged() -> Path:
    """A copy of the sources with bytecode, so that of hundreds of files only the changed one is compiled again.

    What mypyc compiled is left out, or it would be imported instead.
    """
    folder = tempfile.TemporaryDirectory(prefix="unchanged-")
    atexit.register(folder.cleanup)
    sources = Path(folder.name) / "src"
    copytree(SOURCES, sources, copy_function=os.link, ignore=ignore_patterns("*.so"))
    compileall.compile_dir(sources, quiet=1)
    return sources


def replay(mutation: Mutation, node: str) -> str:
    """NOTICED, MISSED or BROKEN."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        sources = Path(folder) / "src"
        copytree(_unchanged(), sources, copy_function=os.link)
        mutation.apply(sources)
        command = [sys.executable, "-m", "pytest", *_OPTIONS, node]
        environment = {
            **{name: value for name, value in os.environ.items() if name not in _UNSET},
            "PYTHONPATH": os.pathsep.join([str(sources), str(_ROOT)]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TEST_WAIT_SECONDS": _WAIT_SECONDS,
        }
        try:
            done = subprocess.run(  # noqa: S603 - our own command
                command, cwd=_ROOT, env=environment, timeout=_TEST_SECONDS, capture_output=True, text=True, check=False
            )
        except subprocess.TimeoutExpired:
            return NOTICED
        if any(line.startswith("FAILED") for line in done.stdout.splitlines()):
            return NOTICED
        return MISSED if done.returncode == 0 else BROKEN
