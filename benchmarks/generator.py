"""The load generator: a program in C, built where it is needed, that reports in JSON what clients of a broker saw."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.brokers import BrokerError

PROGRAM: Final = Path(__file__).resolve().parent / "load" / "amqpload"
# Loads that drain or fill a queue take as long as they need, but do not hang for ever.
_LONGEST_SECONDS: Final = 3600.0


class LoadError(BrokerError):
    """A load could not be measured, or lost messages; the generator's words are in the text."""


def build() -> None:
    """Compile the generator if it is not. Raises CalledProcessError, and the compiler says why."""
    subprocess.run(["make", "-s", "-C", str(PROGRAM.parent)], check=True)


def run(port: int, *arguments: str, seconds: float = _LONGEST_SECONDS) -> dict[str, Any]:
    """What the generator reports. Raises LoadError if it does not end well within `seconds`."""
    with started(port, *arguments) as generator:
        return report(generator, seconds)


@contextlib.contextmanager
def started(port: int, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The generator while it runs; at the end of the block it is killed if it has not ended."""
    command = [str(PROGRAM), "--json", "--port", str(port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as generator:
        try:
            yield generator
        finally:
            generator.kill()


def report(generator: "subprocess.Popen[str]", seconds: float) -> dict[str, Any]:
    """What a started generator reports. Raises LoadError if it does not end well within `seconds`."""
    command = " ".join(map(str, generator.args)) if isinstance(generator.args, list) else ""
    try:
        said, complained = generator.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"not finished in time: {command}") from error
    if generator.returncode != 0:
        raise LoadError(f"{command} ended with {generator.returncode}\n{complained}{said}")
    found: dict[str, Any] = json.loads(said)
    return found
