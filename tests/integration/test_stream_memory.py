"""Readers all over a long stream, which acknowledge nothing: the broker's memory stays as it is."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import flintmq.client as fc
from tests.servers import BrokerProcess

MIB = 1024 * 1024
BODY = bytes(64 * 1024)
MESSAGES = 400
CONNECTIONS = 5
READERS = 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as running:
        yield running


def resident_mib(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def test_readers_hold_next_to_nothing(broker: BrokerProcess) -> None:
    """A hundred readers are sent 1.2 GiB that they do not acknowledge, each from a place of its own."""
    with fc.connect(broker.url) as connection, connection.channel(confirms=True) as channel:
        channel.declare_queue("s", arguments={"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 4 * MIB})
        channel.publish_batch(("", "s", BODY) for _ in range(MESSAGES))
        # What publishing takes stays with the process for a while.
        before = resident_mib(broker)
    counts: list[int] = []
    everybody = threading.Barrier(CONNECTIONS + 1)

    def read(number: int) -> None:
        with fc.connect(broker.url) as connection:
            channels = []
            for reader in range(READERS):
                channel = connection.channel()
                channels.append(channel)
                start = (number * READERS + reader) * MESSAGES // (CONNECTIONS * READERS)
                count = 0
                where: dict[str, object] = {"x-stream-offset": start}
                for batch in channel.consume("s", prefetch=65_535, batch_size=50, timeout=60.0, arguments=where):
                    count += len(batch.messages)
                    if count == MESSAGES - start:
                        break
                counts.append(count)
            everybody.wait(300)
            everybody.wait(300)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    everybody.wait(300)
    grown = resident_mib(broker) - before
    everybody.wait(300)
    for thread in threads:
        thread.join()
    assert sum(counts) * len(BODY) > 1200 * MIB
    # Five connections that are written to as fast as they read, and a block for each reader.
    assert grown < 100
