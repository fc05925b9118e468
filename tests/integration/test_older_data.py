"""Data that older releases left opens, with all that is in it.

`older/format3.tar.gz` was left by a broker of storage format 3 (definitions of format 7) that was killed, and had been
twice before without a write: its journal has no segment 2. In it are a queue `orders` of 17 messages, a stream `log` of
20 records, and what is left in the files of a queue that was deleted.
"""

import subprocess
import tarfile
from pathlib import Path

import pytest

import flintmq.client as fc
from tests.commands import run_here
from tests.servers import BrokerProcess

OLDER = Path(__file__).parent / "older"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tarfile.open(OLDER / "format3.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "format3"


def storage(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return run_here("storage", *map(str, arguments))


def test_format_3_is_served(data: Path) -> None:
    """Nothing of it counts as damaged, before a start and after some; what comes in later is there as well."""
    ran = storage("verify", data)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "intact")
    with BrokerProcess(data) as broker:
        for more in range(2):
            with fc.connect(broker.url) as connection:
                channel = connection.channel(confirms=True)
                arguments: dict[str, object] = {"x-max-length": 500}
                assert channel.declare_queue("orders", arguments=arguments).message_count == 17 + more
                assert channel.declare_queue("log", passive=True).message_count == 20 + more
                properties = fc.Properties(delivery_mode=2)
                channel.publish_batch([fc.Publish("", queue, b"new", properties) for queue in ("orders", "log")])
            broker.restart()
            assert not broker.complaints
            assert not [line for line in broker.log if "damage" in line]
    ran = storage("verify", data)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "intact")


def test_format_3_without_definitions(data: Path) -> None:
    """Messages come back by the numbers of their queues; those of the deleted queue were settled."""
    for path in data.glob("definitions.sqlite*"):
        path.unlink()
    ran = storage("rebuild", data)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "recovered-1, recovered-3" in ran.stdout
    with BrokerProcess(data) as broker, fc.connect(broker.url) as connection:
        channel = connection.channel()
        counts = [channel.declare_queue(f"recovered-{n}", passive=True).message_count for n in (1, 3)]
        assert counts == [17, 20]


def test_format_3_with_old_definitions(data: Path) -> None:
    """Without their log, these definitions know of no queue: they are refused, and rebuilt with the users they have."""
    (data / "definitions.sqlite-wal").unlink()
    ran = storage("verify", data)
    assert ran.returncode == 1
    assert "is older than the messages" in ran.stdout
    ran = storage("rebuild", data)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "recovered-1" in ran.stdout
