"""What there is to run: suites.toml, read and checked."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

DEFINITIONS: Final = Path(__file__).with_name("suites.toml")


@dataclass(frozen=True)
class Deselection:
    """Tests that are left out, by patterns of their ids, and why."""

    tests: list[str]
    reason: str


@dataclass(frozen=True)
class Suite:
    """The tests of a project on PyPI, which its source distribution holds."""

    version: str
    # What pytest is given: files and folders of the unpacked distribution.
    tests: list[str]
    # What the tests need besides the project, pytest and pytest-timeout.
    requires: list[str] = field(default_factory=list)
    # Plugins of ours (in plugins/) that its pytest loads.
    plugins: list[str] = field(default_factory=list)
    # By these the tests find the broker: {port} is where it listens, {url} all of its address.
    variables: dict[str, str] = field(default_factory=dict)
    # Settings of the broker, by their variables: what the project's own CI sets on RabbitMQ.
    settings: dict[str, str] = field(default_factory=dict)
    # The tests ask a Docker daemon for their broker.
    docker: bool = False
    # Not in the source distribution: a checkout of the project must be given, and its tests expect the broker on 5672.
    checkout: bool = False
    deselected: list[Deselection] = field(default_factory=list)

    def patterns(self) -> Iterable[str]:
        for deselection in self.deselected:
            yield from deselection.tests


def read_suites() -> dict[str, Suite]:
    return msgspec.toml.decode(DEFINITIONS.read_bytes(), type=dict[str, Suite])
