"""Pytest fixtures for tests that need a broker: one per test, or one for all tests.

Pytest loads this module wherever FlintMQ is installed, so it imports the broker only when a test uses a fixture.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from flintmq.embedded import Broker

MARKER: Final = "flintmq"
CONFIG: Final = "flintmq_config"

# Settings by section, as in a configuration file.
Sections = Mapping[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(CONFIG, "TOML file with the settings of the tests' brokers, relative to this file", type="string")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**sections): settings of this test's broker, as in flintmq(limits={{'message_max_bytes': 100}})",
    )


@pytest.fixture(scope="session")
def flintmq_settings(pytestconfig: pytest.Config) -> Sections:
    """The settings of all brokers, by section; override this fixture if a file is not enough."""
    name = str(pytestconfig.getini(CONFIG) or "")
    if not name:
        return {}
    file = Path(pytestconfig.inipath.parent if pytestconfig.inipath else pytestconfig.rootpath, name)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"{CONFIG}: {file} cannot be read as TOML: {error}") from error


@pytest.fixture
def flintmq(request: pytest.FixtureRequest, flintmq_settings: Sections) -> "Iterator[Broker]":
    """A new broker for this test only, with its own port, queues and users."""
    sections = dict(flintmq_settings)
    # The nearest marker is applied last, so that it overrides the others.
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.{MARKER} takes sections by name, as in {MARKER}(limits={{...}})")
        for section, given in marker.kwargs.items():
            before = sections.get(section)
            if isinstance(before, Mapping) and isinstance(given, Mapping):
                sections[section] = {**before, **given}
            else:
                sections[section] = given
    yield from _running(sections)


@pytest.fixture(scope="session")
def flintmq_session(flintmq_settings: Sections) -> "Iterator[Broker]":
    """One broker for all tests of a run; what a test leaves in it is visible to the next test."""
    yield from _running(flintmq_settings)


@pytest.fixture
def flintmq_url(flintmq: "Broker") -> str:
    """The AMQP URL of this test's broker."""
    return flintmq.url


def _running(sections: Sections) -> "Iterator[Broker]":
    from flintmq.embedded import Broker  # noqa: PLC0415 - see above

    with Broker(settings=sections) as broker:
        yield broker
