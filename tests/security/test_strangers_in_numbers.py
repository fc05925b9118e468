"""Half-open and dripping connections, and wrong passwords, in numbers that fit beside other tests."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from flintmq.base.limits import HANDSHAKE_SECONDS
from tests.hostile.test_strangers import FIRST, STRANGER_MAX_BYTES
from tests.security.strangers import allow_files, come_and_wait, guess
from tests.servers import BrokerProcess

# A machine that tests more at once is late now and then.
LATE_SECONDS = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as running:
        yield running


def test_half_open_and_dripping_connections(broker: BrokerProcess) -> None:
    """They are closed when the time for a handshake is over, whatever they trickle; and none takes more than it may."""
    count = FIRST
    try:
        allow_files(count)
    except ValueError as error:
        pytest.skip(str(error))
    outcome = asyncio.run(come_and_wait(broker, count))
    assert outcome.slowest_seconds < HANDSHAKE_SECONDS + LATE_SECONDS
    assert outcome.bytes_each < STRANGER_MAX_BYTES
    # One line says why each of them went: a crowd writes the log that it likes, so it is not to write more.
    deadline = time.monotonic() + 60
    while _warnings(broker) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _warnings(broker) == count


def _warnings(broker: BrokerProcess) -> int:
    return len([line for line in broker.log if line["level"] == "warning"])


def test_wrong_passwords_by_the_hundred(broker: BrokerProcess) -> None:
    """All are refused, most of them unseen, and who knows the password and was in before comes in at once."""
    parameters = pika.URLParameters(broker.url)
    pika.BlockingConnection(parameters).close()
    assert asyncio.run(guess(broker, 100, 3)) == 300
    reasons = [line["reason"] for line in broker.log if line["event"] == "login refused"]
    assert sum(reason.startswith("too many failed logins") for reason in reasons) > len(reasons) / 2
    connection = pika.BlockingConnection(parameters)
    assert connection.is_open
    connection.close()
