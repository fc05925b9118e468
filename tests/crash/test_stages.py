"""Staged publishes under kills: while tasks stage, while a commit is on its way, and right behind it.

The driver does what a restarted one does: it opens its transactional id again, and repeats what is not committed.
"""

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import flintmq.client as fc
from tests.servers import BrokerProcess

pytestmark = pytest.mark.timeout(400)

PERSISTENT = fc.encode_properties(fc.Properties(delivery_mode=2))
MESSAGES = 400
PARTITIONS = 2
MOMENTS = ("while it stages", "before it asks", "while it asks", "behind its answer")


def bodies_of(batch: int, partition: int) -> list[bytes]:
    return [b"%d/%d/%d" % (batch, partition, number) for number in range(MESSAGES)]


def stage(url: str, epoch: int, batch: int, partition: int, attempt: int, *, ends: bool = True) -> None:
    with fc.connect(url) as connection:
        task = connection.channel(confirms=True)
        assert task.stage_select("tx", epoch, batch, partition, attempt)
        bodies = bodies_of(batch, partition)
        task.publish_batch([("both", "", body, PERSISTENT) for body in bodies[: None if ends else MESSAGES // 2]])
        if ends:
            assert task.stage_ready() == MESSAGES


def commit(url: str, epoch: int, batch: int, attempt: int) -> None:
    with fc.connect(url) as connection:
        connection.channel().stage_commit("tx", epoch, batch, dict.fromkeys(range(PARTITIONS), attempt))


def commit_and_lose(url: str, epoch: int, batch: int, attempt: int) -> None:
    # The broker is killed meanwhile.
    with suppress(fc.FlintError):
        commit(url, epoch, batch, attempt)


def prepare(url: str) -> None:
    with fc.connect(url) as connection:
        channel = connection.channel()
        channel.declare_exchange("both", "fanout")
        channel.declare_queue("q")
        channel.declare_queue("s", arguments={"x-queue-type": "stream"})
        for queue in ("q", "s"):
            channel.bind(queue, "both")


def opened(url: str) -> fc.StageInfo:
    with fc.connect(url) as connection:
        return connection.channel().stage_open("tx", "query")


def crashed(broker: BrokerProcess, batch: int, moment: str, chance: random.Random) -> None:
    """A batch that is disturbed at this moment."""
    url = broker.url
    info = opened(url)
    assert info.last_batch == batch - 1
    stage(url, info.epoch, batch, 0, 0)
    stage(url, info.epoch, batch, 1, 0, ends=moment != MOMENTS[0])
    if moment == MOMENTS[2]:
        asking = threading.Thread(target=commit_and_lose, args=(url, info.epoch, batch, 0))
        asking.start()
        time.sleep(chance.uniform(0.0, 0.05))
        broker.kill()
        asking.join()
    else:
        if moment == MOMENTS[3]:
            commit(url, info.epoch, batch, 0)
        broker.kill()
    broker.start()


def read_stream(channel: fc.Channel) -> list[bytes]:
    bodies: list[bytes] = []
    for chunk in channel.stream_chunks("s", 0, channel.stream_query("s").next_offset):
        bodies += [record.body for record in chunk.records]
    return bodies


def drain(channel: fc.Channel) -> list[bytes]:
    found: list[bytes] = []
    while (message := channel.get("q", no_ack=True)) is not None:
        found.append(message.body)
    return found


def settled(channel: fc.Channel, count: int) -> None:
    """Until streams have what is on its way to them."""
    deadline = time.monotonic() + 60
    while channel.stream_query("s").next_offset < count and time.monotonic() < deadline:
        time.sleep(0.02)


def test_batches_are_published_once_whatever_is_killed(tmp_path: Path) -> None:
    """Each batch is on a queue and in a stream once and whole; a commit that was answered stays."""
    chance = random.Random(1)
    moments = [*MOMENTS, *chance.choices(MOMENTS[1:], k=4)]
    with BrokerProcess(tmp_path / "data") as broker:
        prepare(broker.url)
        for batch, moment in enumerate(moments):
            crashed(broker, batch, moment, chance)
            info = opened(broker.url)
            assert info.last_batch in (batch - 1, batch)
            if moment == MOMENTS[3]:
                assert info.last_batch == batch
            if info.last_batch < batch:
                for partition in range(PARTITIONS):
                    stage(broker.url, info.epoch, batch, partition, 1)
                commit(broker.url, info.epoch, batch, 1)
        wanted = Counter(
            [body for batch in range(len(moments)) for part in range(PARTITIONS) for body in bodies_of(batch, part)]
        )
        with fc.connect(broker.url) as connection:
            channel = connection.channel()
            settled(channel, wanted.total())
            assert Counter(read_stream(channel)) == wanted
            assert Counter(drain(channel)) == wanted
        assert broker.stop() == 0
