"""What a run says of the rules, and the documents written from it."""

from collections.abc import Generator

import pytest

from tests.conformance.amqp091 import document as amqp091
from tests.conformance.amqp10 import document as amqp10
from tests.conformance.catalogue import FAILS, HOLDS, NOT_YET, Verdicts

_DOCUMENTS = {
    "amqp091": (amqp091.DOCUMENT, amqp091.render),
    "amqp10": (amqp10.DOCUMENT, amqp10.render),
}
_VERDICTS = pytest.StashKey[dict[str, Verdicts]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    names = ", ".join(file.name for file, _ in _DOCUMENTS.values())
    parser.addoption("--write-conformance", action="store_true", help=f"write {names}: those that this run is about")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance(catalogue, id): shows whether a rule, or an addition to it, holds")
    config.stash[_VERDICTS] = {}


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
