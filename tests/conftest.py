"""Says which build is tested, refuses to test the other one by accident, and which tests run in one process."""

import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

import flintmq
from tests.effort import effort
from tests.memory import IN_MEMORY
from tests.servers import BrokerProcess

# One module of each compiled package: a build that left one out is not the build we mean.
_HOT_MODULES = (
    "flintmq.base.limits",
    "flintmq.broker.broker",
    "flintmq.gateway.gateway",
    "flintmq.protocol.amqp091.connection",
    "flintmq.storage.journal.encoder",
    "flintmq.wire.amqp091.frames",
)
_PROGRAMS = tuple(f"tests/spark/test_{name}.py" for name in ("examples", "pipelines", "tutorial"))
_SUFFIXES = {"compiled": ".so", "interpreted": ".py"}

# Most tests show nothing of what a sync takes: their data is in memory. Others ask for `disk_path`.
if IN_MEMORY is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

# How long an example takes says how busy the machine is, and how many of them chance makes too large, or unfit, says
# nothing of the code either.
_CHANCE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("untimed", max_examples=effort(100), deadline=None, suppress_health_check=_CHANCE)
settings.load_profile("untimed")


def pytest_configure() -> None:
    expected = os.environ.get("FLINTMQ_EXPECT")
    if expected is None:
        return
    suffix = _SUFFIXES.get(expected)
    if suffix is None:
        raise pytest.UsageError(f"FLINTMQ_EXPECT={expected}: expected one of {', '.join(_SUFFIXES)}")
    for name in _HOT_MODULES:
        file = importlib.import_module(name).__file__ or ""
        if not file.endswith(suffix):
            raise pytest.UsageError(f"FLINTMQ_EXPECT={expected}, but {name} is {file}")
    # What is compiled is tested as installed; what is interpreted, where it is edited.
    in_source = Path(flintmq.__file__).is_relative_to(Path(__file__).parents[1] / "src")
    if in_source != (expected == "interpreted"):
        raise pytest.UsageError(f"FLINTMQ_EXPECT={expected}, but flintmq is {flintmq.__file__}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest in one process begins first, so that nobody waits for it at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/spark/", "tests/ui/")))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """A file's tests stay together. So do those that ask Spark, with one JVM, and those that have a browser. Those that
    start programs with a JVM of their own run one after the other: more is more than two processors can bear.
    """
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = _scope
    return scheduling


def _scope(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    if file.startswith("tests/ui/"):
        return "browser"
    if not file.startswith("tests/spark/"):
        return file
    return "programs with Spark" if file in _PROGRAMS else "Spark"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """For all tests that need no broker of their own: what they declare has names that no other test uses."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running
        assert running.stop() == 0


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Where a sync takes its time."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def pytest_report_header() -> str:
    build = "compiled" if flintmq.compiled else "interpreted"
    return f"flintmq: {build}, from {Path(flintmq.__file__).parent}"
