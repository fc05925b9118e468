"""A broker for Celery, the application as a client sees it, and the log of what its tasks did."""

import importlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import celery
import pytest

from tests.interop.celery_app.worker import WorkerProcess
from tests.servers import BrokerProcess, free_port

RAN_SECONDS = 60.0


class Ran:
    """What tasks noted, in the order in which they did."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.touch()

    def lines(self, word: str = "ran") -> list[list[str]]:
        noted = [line.split() for line in self.file.read_text().splitlines()]
        return [words[1:] for words in noted if words[0] == word]

    def numbers(self) -> list[int]:
        return [int(words[0]) for words in self.lines()]

    def wait(self, enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + RAN_SECONDS
        while not enough():
            assert time.monotonic() < deadline, self.file.read_text()
            time.sleep(0.05)

    def forget(self) -> None:
        self.file.write_text("")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # Workers come back to a broker that was killed.
    with BrokerProcess(tmp_path_factory.mktemp("celery") / "data", FLINTMQ_LISTEN_PORT=str(free_port())) as running:
        yield running


@pytest.fixture(scope="session")
def all_ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("celery") / "ran")


@pytest.fixture
def ran(all_ran: Ran) -> Ran:
    all_ran.forget()
    return all_ran


@pytest.fixture(scope="session")
def variables(broker: BrokerProcess, all_ran: Ran) -> dict[str, str]:
    """The environment in which the application's processes meet; Celery goes by its own variable, if there is one."""
    return {"INTEROP_BROKER": broker.url, "BROKER_URL": broker.url, "INTEROP_RAN": str(all_ran.file)}


@pytest.fixture(scope="session")
def stored(variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same with results in files: chords need a store, which rpc:// is not."""
    return variables | {"INTEROP_BACKEND": f"file://{tmp_path_factory.mktemp('results')}"}


@pytest.fixture(scope="session")
def tasks(variables: dict[str, str]) -> Iterator[Any]:
    """The application's module in this process, with results that come as messages."""
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in variables.items():
            patch.setenv(variable, value)
        module: Any = importlib.import_module("tests.interop.celery_app.app")
        yield module
        module.app.close()


@pytest.fixture
def stored_app(stored: dict[str, str]) -> Iterator[Any]:
    """A client without the tasks' code: it knows tasks by their names."""
    app = celery.Celery("client", broker=stored["INTEROP_BROKER"], backend=stored["INTEROP_BACKEND"])
    app.conf.broker_connection_timeout = 60
    with app:
        yield app


@pytest.fixture(scope="module")
def prefork(variables: dict[str, str]) -> Iterator[WorkerProcess]:
    with WorkerProcess("prefork", variables) as worker:
        yield worker
        worker.stop()


@pytest.fixture(scope="module")
def threads(stored: dict[str, str]) -> Iterator[WorkerProcess]:
    with WorkerProcess("threads", stored, queues="slow") as worker:
        yield worker
        worker.stop()
