"""Half-open and dripping connections, and wrong passwords, in numbers that fit beside other tests."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from flintmq.base.limits import HANDSHAKE_SECONDS
from tests.hostile.test_strangers import FIRST, STRANGER_MAX_BYTES
from tests.security.strangers import allow_files, come_and_wait, guess
from tests.servers import BrokerProcess
from tests.waiting import wait_until

# A machine that tests more at once is late now and then.
LATE_SECONDS = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    # What the HTTP API takes when it is loaded, behind the start, is nobody's.
    with BrokerProcess(tmp_path / "data", FLINTMQ_MANAGEMENT_ENABLED="false") as running:
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
    wait_until(lambda: len(broker.complaints) >= count)
    # Its log is read to the end then.
    broker.kill()
    assert len(broker.complaints) == count


def test_wrong_passwords_by_the_hundred(broker: BrokerProcess) -> None:
    """All are refused, most of them unseen, and who knows the password and was in before comes in at once."""
    parameters = pika.URLParameters(broker.url)
    pika.BlockingConnection(parameters).close()
    assert asyncio.run(guess(broker, 100, 3)) == 300
    connection = pika.BlockingConnection(parameters)
    assert connection.is_open
    connection.close()
    broker.kill()
    reasons = [line["reason"] for line in broker.log if line["event"] == "login refused"]
    # The others had to wait, and were refused for that, or came so late that their handshake was over before.
    assert 0 < sum(reason.startswith("wrong password") for reason in reasons) < 150
