"""One broker per dialect and session, clients for each test, and the document that says which rules hold."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.conformance.amqp091.document import DOCUMENT, FAILS, HOLDS, NOT_YET, Verdicts, render
from tests.conformance.amqp091.peer import Peer
from tests.servers import BrokerProcess

Connect = Callable[..., Peer]

_VERDICTS = pytest.StashKey[Verdicts]()


@pytest.fixture(scope="session", params=["strict", "rabbitmq"])
def dialect(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def strict(dialect: str) -> bool:
    """Whether the specification wins where RabbitMQ differs."""
    return dialect == "strict"


_SETTINGS = """
[[vhosts]]
name = "/"
dialect = "{dialect}"
[[vhosts]]
name = "other"
dialect = "{dialect}"
[[users]]
name = "guest"
password = "guest"
vhosts = ["/", "other"]
[[users]]
name = "limited"
password = "limited"
vhosts = ["/"]
"""


@pytest.fixture(scope="session")
def settings(dialect: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two virtual hosts of the dialect, and a user for both beside one for the first only."""
    file = tmp_path_factory.mktemp(dialect) / "flintmq.toml"
    file.write_text(_SETTINGS.format(dialect=dialect))
    return file


@pytest.fixture(scope="session")
def broker(settings: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(settings.with_name("data"), "--config", str(settings)) as running:
        yield running
        internal = [line for line in running.log if line["event"].startswith("internal error")]
        assert not internal, internal
        assert running.stop() == 0


@pytest.fixture(scope="session")
def full_disk(settings: Path) -> Iterator[BrokerProcess]:
    """A broker that wants more free disk space than there is: publishers wait."""
    low = str(1 << 60)
    arguments = ("--config", str(settings))
    with BrokerProcess(settings.with_name("full"), *arguments, FLINTMQ_ALARMS_DISK_FREE_MIN_BYTES=low) as running:
        running.wait_for_log("publishers have to wait")
        yield running


@pytest.fixture
def small_memory(settings: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that has room for some tens of megabytes of messages: then publishers wait."""
    limit = str(160_000_000)
    arguments = ("--config", str(settings))
    with BrokerProcess(tmp_path / "small", *arguments, FLINTMQ_ALARMS_MEMORY_HIGH_WATERMARK=limit) as running:
        yield running


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Connect]:
    """Connections to the broker, hung up behind the test. Flags are capabilities of the client."""
    made: list[Peer] = []

    def connect(vhost: str = "/", **capabilities: bool) -> Peer:
        peer = Peer(broker.port, **capabilities)
        made.append(peer)
        return peer.start(vhost)

    yield connect
    for peer in made:
        peer.close()


@pytest.fixture
def peer(connect: Connect) -> Peer:
    """A client with channel 1 open."""
    return connect()


# -- the document -----------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-conformance", action="store_true", help=f"write {DOCUMENT.name} from this run")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance(id): shows whether a rule, or an addition to them, holds")
    config.stash[_VERDICTS] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    marker = item.get_closest_marker("conformance")
    if marker is not None and isinstance(item, pytest.Function):
        key = (str(marker.args[0]), str(item.callspec.params["dialect"]))
        verdicts = item.config.stash[_VERDICTS]
        if report.failed:
            verdicts[key] = FAILS
        elif report.when == "call":
            verdicts[key] = HOLDS if report.passed else NOT_YET
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    # The option is there only where this folder was asked for.
    if session.config.getoption("--write-conformance", default=False):
        DOCUMENT.write_text(render(session.config.stash[_VERDICTS]), encoding="utf-8")
