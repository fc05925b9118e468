"""Brokers by the transport that a test needs; what a run says of the rules, and the documents written from it.

A test runs against a broker in memory, unless it asks for `process`. Those marked `both_transports` run over a socket
as well, to see that the two agree; with --over-sockets all do. `-m "not process"` leaves out what starts processes.
"""

from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

from flintmq.server import config
from tests.conformance.amqp091 import document as amqp091
from tests.conformance.amqp10 import document as amqp10
from tests.conformance.brokers import MEMORY, SOCKET, Broker, MemoryBroker
from tests.conformance.catalogue import FAILS, HOLDS, NOT_YET, Verdicts

_DOCUMENTS = {
    "amqp091": (amqp091.DOCUMENT, amqp091.render),
    "amqp10": (amqp10.DOCUMENT, amqp10.render),
}
# Fixtures that start brokers as processes.
_PROCESSES = {"process", "second", "secure", "small_memory", "tight"}
_VERDICTS = pytest.StashKey[dict[str, Verdicts]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    names = ", ".join(file.name for file, _ in _DOCUMENTS.values())
    parser.addoption("--write-conformance", action="store_true", help=f"write {names}: those that this run is about")
    parser.addoption("--over-sockets", action="store_true", help="run what needs no process against one, too")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance(catalogue, id): shows whether a rule, or an addition to it, holds")
    config.addinivalue_line("markers", "both_transports: runs against a broker in memory, and over a socket")
    config.stash[_VERDICTS] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and Path(__file__).parent in item.path.parents:
            goes_over_socket = hasattr(item, "callspec") and item.callspec.params.get("transport") == SOCKET
            if goes_over_socket or not _PROCESSES.isdisjoint(item.fixturenames):
                item.add_marker("process")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "transport" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_transports"):
        metafunc.parametrize("transport", [MEMORY, SOCKET])


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    needs_process = "process" in request.fixturenames or request.config.getoption("--over-sockets", default=False)
    return SOCKET if needs_process else MEMORY


@cache
def _load(file: Path) -> config.Settings:
    return config.load(file, {}, {})


@pytest.fixture
def loaded(settings: Path) -> config.Settings:
    """What the file of settings says, for brokers in memory."""
    return _load(settings)


@pytest.fixture
def broker(transport: str, loaded: config.Settings, request: pytest.FixtureRequest) -> Iterator[Broker]:
    """One of the test's own in memory, or the one of the session over sockets."""
    if transport == SOCKET:
        found: Broker = request.getfixturevalue("process")
        yield found
        return
    with MemoryBroker(loaded) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("conformance")
    if marker is not None and isinstance(item, pytest.Function):
        catalogue, id = marker.args
        variant = str(item.callspec.params.get("dialect", "")) if hasattr(item, "callspec") else ""
        verdicts = item.config.stash[_VERDICTS].setdefault(catalogue, {})
        if report.failed:
            verdicts[id, variant] = FAILS
        elif report.when == "call" and verdicts.get((id, variant)) != FAILS:
            # One rule may be shown by several cases: each has to hold.
            verdicts[id, variant] = HOLDS if report.passed else NOT_YET
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    # The option is there only where this folder was asked for.
    if session.config.getoption("--write-conformance", default=False):
        for catalogue, verdicts in session.config.stash[_VERDICTS].items():
            file, render = _DOCUMENTS[catalogue]
            file.write_text(render(verdicts), encoding="utf-8")
