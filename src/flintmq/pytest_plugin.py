"""Fixtures for tests that need a broker: a fresh one for each test, or one for all.

Loaded by pytest wherever FlintMQ is installed, so that what it takes to run a broker is imported by the first test that
asks for one.
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

# What a configuration file says: sections by their names.
Sections = Mapping[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(CONFIG, "settings of the brokers that tests get: a TOML file, beside this one", type="string")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**sections): settings of this test's broker, as in flintmq(limits={{'message_max_bytes': 100}})",
    )


@pytest.fixture(scope="session")
def flintmq_settings(pytestconfig: pytest.Config) -> Sections:
    """Settings of all brokers, section by section; to be overridden where a file is not enough."""
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
    """A fresh broker: nobody else has its port, its queues or its users."""
    sections = dict(flintmq_settings)
    # The nearest one last, for it has the last word.
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
    """One broker for all tests: what one leaves there, the next one finds."""
    yield from _running(flintmq_settings)


@pytest.fixture
def flintmq_url(flintmq: "Broker") -> str:
    """The AMQP URL of this test's own broker."""
    return flintmq.url


def _running(sections: Sections) -> "Iterator[Broker]":
    from flintmq.embedded import Broker  # noqa: PLC0415 - see above

    with Broker(settings=sections) as broker:
        yield broker
