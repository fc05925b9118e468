"""Staged publishes through both clients: a batch appears as a whole when it is committed, once, or not at all."""

import time
from collections.abc import Callable, Iterator

import pytest

import flintmq.client as fc
from flintmq.wire.amqp091.committed_attempts import ATTEMPTS_PER_FRAME
from tests.servers import BrokerProcess

Connect = Callable[..., fc.Connection]

PERSISTENT = fc.encode_properties(fc.Properties(delivery_mode=2))


@pytest.fixture
def connection(connect: Connect, broker: BrokerProcess) -> Iterator[fc.Connection]:
    with connect(broker.url) as made:
        yield made


@pytest.fixture
def driver(connection: fc.Connection) -> fc.Channel:
    return connection.channel()


def name_of(request: pytest.FixtureRequest) -> str:
    return f"{request.node.originalname}-{time.monotonic_ns()}"


def stage(
    connection: fc.Connection, tx: str, epoch: int, batch: int, partition: int, attempt: int, queue: str, count: int
) -> int:
    """What a task does; returns how many messages were staged."""
    task = connection.channel(confirms=True)
    assert task.stage_select(tx, epoch, batch, partition, attempt)
    task.publish_batch(
        ("", queue, f"{batch}/{partition}/{attempt}/{number}".encode(), PERSISTENT) for number in range(count)
    )
    staged = task.stage_ready()
    task.close()
    return staged


def drain(channel: fc.Channel, queue: str, count: int) -> list[str]:
    found = []
    for _ in range(count):
        message = channel.get(queue, no_ack=True)
        assert message is not None
        found.append(message.body.decode())
    assert channel.get(queue, no_ack=True) is None
    return found


def test_a_batch_appears_when_it_is_committed(
    connection: fc.Connection, driver: fc.Channel, request: pytest.FixtureRequest
) -> None:
    """Nobody sees what is staged. The commit publishes its attempts and no others; a second commit does nothing."""
    tx = name_of(request)
    queue = driver.declare_queue(tx).name
    info = driver.stage_open(tx, "query")
    assert info.last_batch == -1
    assert stage(connection, tx, info.epoch, 0, 0, 1, queue, 2000) == 2000
    assert stage(connection, tx, info.epoch, 0, 0, 2, queue, 5) == 5
    assert stage(connection, tx, info.epoch, 0, 1, 7, queue, 3) == 3
    assert driver.declare_queue(queue, passive=True).message_count == 0
    committed = driver.stage_commit(tx, info.epoch, 0, {0: 1, 1: 7})
    assert committed == fc.StageCommitted(2003, False)
    assert driver.stage_commit(tx, info.epoch, 0, {0: 1, 1: 7}) == fc.StageCommitted(0, True)
    assert drain(driver, queue, 2003) == [f"0/0/1/{n}" for n in range(2000)] + [f"0/1/7/{n}" for n in range(3)]


def test_attempts_staged_ahead(connection: fc.Connection, request: pytest.FixtureRequest) -> None:
    """One is on its way while the one before is written down; each is complete, and none is seen before its commit."""
    tx = name_of(request)
    task = connection.channel(confirms=True)
    queue = task.declare_queue(tx).name
    info = task.stage_open(tx, "query")
    for partition in range(5):
        rows = (("", queue, f"{partition}/{n}".encode(), PERSISTENT) for n in range(100))
        task.stage_ahead(tx, info.epoch, 0, partition, 1, rows)
    task.wait_for_stage()
    assert task.declare_queue(queue, passive=True).message_count == 0
    attempts = dict.fromkeys(range(5), 1)
    assert task.stage_commit(tx, info.epoch, 0, attempts) == fc.StageCommitted(500, False)
    assert drain(task, queue, 500) == [f"{partition}/{n}" for partition in range(5) for n in range(100)]


@pytest.mark.parametrize("more", [0, 1])
def test_what_is_refused_ahead(connection: fc.Connection, request: pytest.FixtureRequest, more: int) -> None:
    """Who waits for the last attempt, if not before, hears of a message that found no queue."""
    tx = name_of(request)
    task = connection.channel(confirms=True)
    queue = task.declare_queue(tx).name
    info = task.stage_open(tx, "query")
    with pytest.raises(fc.PublishFailed, match="1 message"):  # noqa: PT012 - any of the calls may be told
        task.stage_ahead(tx, info.epoch, 0, 0, 1, [("", "no such queue", b"lost", PERSISTENT, True)])
        for partition in range(more):
            task.stage_ahead(tx, info.epoch, 0, 1 + partition, 1, [("", queue, b"kept", PERSISTENT, True)])
        task.wait_for_stage()


def test_more_attempts_than_a_frame_has_room_for(
    connection: fc.Connection, driver: fc.Channel, request: pytest.FixtureRequest
) -> None:
    """They go one method after the other, and are committed as one."""
    tx = name_of(request)
    queue = driver.declare_queue(tx).name
    info = driver.stage_open(tx, "query")
    count = ATTEMPTS_PER_FRAME + 1
    for partition in range(count):
        stage(connection, tx, info.epoch, 0, partition, 1, queue, 1)
    committed = driver.stage_commit(tx, info.epoch, 0, dict.fromkeys(range(count), 1))
    assert committed == fc.StageCommitted(count, False)
    assert drain(driver, queue, count) == [f"0/{partition}/1/0" for partition in range(count)]


def test_a_writer_that_is_done_is_forgotten(driver: fc.Channel, request: pytest.FixtureRequest) -> None:
    """A transactional id can be given up; who opens it again begins anew."""
    tx = name_of(request)
    info = driver.stage_open(tx, "query")
    driver.stage_commit(tx, info.epoch, 3, {})
    driver.stage_forget(tx)
    again = driver.stage_open(tx, "query")
    assert again.last_batch == -1


def test_aborted_and_confused(connection: fc.Connection, driver: fc.Channel, request: pytest.FixtureRequest) -> None:
    """An abort discards; publishing without a stage, and an id that nobody opened, are refused."""
    tx = name_of(request)
    queue = driver.declare_queue(tx).name
    info = driver.stage_open(tx, "query")
    stage(connection, tx, info.epoch, 0, 0, 0, queue, 3)
    driver.stage_abort(tx, info.epoch, 0)
    with pytest.raises(fc.ChannelClosed, match="batch 0, .* is not complete"):
        driver.stage_commit(tx, info.epoch, 0, {0: 0})
    task = connection.channel()
    task.stage_select(tx, info.epoch, 1, 0, 0)
    task.stage_ready()
    task.publish(b"late", routing_key=queue)
    with pytest.raises(fc.ChannelClosed, match="no stage is selected"):
        task.stage_ready()
    unknown = connection.channel()
    with pytest.raises(fc.ChannelClosed, match="no transactional id 'nobody'"):
        unknown.stage_select("nobody", 1, 0, 0, 0)
