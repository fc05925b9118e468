"""stage.*: a channel that stages, and the answers that wait for the disk."""

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import STAGE_ATTEMPTS_MAX
from flintmq.broker.ports import UserRecord
from flintmq.wire.amqp091.committed_attempts import encode_attempts
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import (
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    Method,
    QueueDeclare,
    StageAbort,
    StageCommit,
    StageCommitOk,
    StageForget,
    StageForgetOk,
    StageOpen,
    StageOpenOk,
    StageReady,
    StageReadyOk,
    StageSelect,
    StageSelectOk,
    TxSelect,
)
from tests.unit.gateway.amqp091.pair import PERSISTENT, Client, ClientChannel, Server

# The queue has the first id, the stage the second.
EPOCH = (2 << 32) + 1
OPEN = StageOpen(transactional_id="tx", owner="query")


def select(partition: int = 0) -> StageSelect:
    return StageSelect(transactional_id="tx", epoch=EPOCH, batch=0, partition=partition, attempt=0)


def commit(attempts: dict[int, int], batch: int = 0, more: bool = False) -> StageCommit:
    encoded = encode_attempts(attempts) if attempts else b""
    return StageCommit(transactional_id="tx", epoch=EPOCH, batch=batch, attempts=encoded, more=more)


SELECT = select()
COMMIT = commit({0: 0})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server)


@pytest.fixture
def channel(client: Client) -> ClientChannel:
    made = client.channel()
    made.call(QueueDeclare(queue="q", durable=True))
    assert made.call(OPEN) == [StageOpenOk(epoch=EPOCH, next_batch=0)]
    return made


def refused(channel: ClientChannel, *methods: Method) -> ClosedByPeer:
    channel.call(*methods)
    error = channel.closed
    assert isinstance(error, ClosedByPeer)
    return error


def count(server: Server) -> int:
    return server.vhost.queues["q"].message_count


def test_from_select_to_commit(server: Server, channel: ClientChannel) -> None:
    """What is published belongs to the attempt until that is ready, and to the queue once it is committed."""
    assert channel.call(SELECT) == [StageSelectOk(already=False)]
    channel.publish("a")
    assert channel.call(StageReady()) == [StageReadyOk(message_count=1)]
    assert count(server) == 0
    assert channel.call(COMMIT) == [StageCommitOk(message_count=1, already=False)]
    assert count(server) == 1
    assert channel.call(COMMIT) == [StageCommitOk(message_count=0, already=True)]
    assert channel.call(SELECT) == [StageSelectOk(already=True)]
    assert channel.call(StageForget(transactional_id="tx")) == [StageForgetOk()]


def test_attempts_in_several_methods(server: Server, channel: ClientChannel) -> None:
    """With more to come, nothing is committed; what came for another commit is not among those of this one."""
    for partition in range(3):
        channel.call(select(partition))
        channel.publish("a")
        channel.call(StageReady())
    assert channel.call(commit({0: 0}, batch=1, more=True)) == [StageCommitOk()]
    for partition in (0, 1):
        assert channel.call(commit({partition: 0}, more=True)) == [StageCommitOk()]
    assert count(server) == 0
    assert channel.call(commit({2: 0})) == [StageCommitOk(message_count=3)]
    assert count(server) == 3
    assert channel.call(commit({}, batch=1)) == [StageCommitOk()]


def test_attempts_have_a_limit(channel: ClientChannel) -> None:
    """Nobody collects more of them than there can be attempts."""
    count = STAGE_ATTEMPTS_MAX // 8
    for part in range(8):
        shifted = dict.fromkeys(range(part * count, (part + 1) * count), 0)
        assert channel.call(commit(shifted, more=True)) == [StageCommitOk()]
    error = refused(channel, commit({STAGE_ATTEMPTS_MAX: 0}, more=True))
    assert (error.code, "65536 attempts at most" in str(error)) == (406, True)


@pytest.mark.parametrize(
    "method", [StageOpen(transactional_id="ty"), StageReady(), COMMIT, StageAbort("tx", EPOCH, 0), StageForget("tx")]
)
def test_answers_wait_for_the_disk(client: Client, channel: ClientChannel, method: Method) -> None:
    """Whoever builds on them must not lose that in a crash."""
    channel.call(SELECT)
    if isinstance(method, StageCommit):
        channel.call(StageReady())
    channel.send(method)
    client.tick()
    assert channel.came() == []
    client.durable()
    assert len(channel.came()) == 1


def test_confirms_and_returns_are_what_they_were(channel: ClientChannel) -> None:
    """Each publish is confirmed once it is on the disk; what is mandatory and finds no queue comes back."""
    channel.call(ConfirmSelect(), SELECT)
    channel.publish("a")
    channel.publish("nowhere", key="no such queue", mandatory=True)
    assert channel.call(StageReady())[-1] == StageReadyOk(message_count=1)
    assert [isinstance(method, BasicReturn) for method, _, _ in channel.contents] == [True]
    assert channel.acks == [(2, True)]


def test_a_channel_that_ends_discards_what_was_not_ready(client: Client, channel: ClientChannel) -> None:
    """So does one that selects something else."""
    task = client.channel()
    task.call(SELECT)
    task.publish("a")
    task.channel.close()
    client.tick()
    other = client.channel()
    other.call(SELECT)
    other.call(StageSelect(transactional_id="tx", epoch=EPOCH, batch=0, partition=1, attempt=0))
    other.call(StageReady())
    error = refused(channel, COMMIT)
    assert (error.code, "batch 0, partition 0, attempt 0 of transactional id 'tx'" in str(error)) == (406, True)
    assert client.server.broker.storage.journal is client.server.storage.memory_journal
    assert b"a" not in client.server.storage.memory_journal.kept.values()


def test_a_channel_is_transactional_or_stages(client: Client, channel: ClientChannel) -> None:
    """Not both: a commit of the one would say nothing of the other."""
    error = refused(channel, SELECT, TxSelect())
    assert (error.code, "cannot switch from stage to tx mode" in str(error)) == (406, True)
    error = refused(client.channel(), TxSelect(), SELECT)
    assert (error.code, "cannot switch from tx to stage mode" in str(error)) == (406, True)


def test_nothing_is_published_between_attempts(client: Client, channel: ClientChannel) -> None:
    """A channel that stages does not go back to publishing at once without being told."""
    channel.call(SELECT, StageReady())
    channel.publish("a")
    client.tick()
    assert "no stage is selected" in str(channel.closed)
    assert "no stage is selected" in str(refused(client.channel(), StageReady()))


def test_immediate_and_staged_exclude_each_other(client: Client, channel: ClientChannel) -> None:
    """Nothing that is staged is delivered at once."""
    channel.call(SELECT)
    method = BasicPublish(exchange="", routing_key="q", immediate=True)
    channel.channel.send_content(encode_method(method), PERSISTENT, b"a")
    client.tick()
    assert "cannot be delivered at once" in str(channel.closed)


@pytest.mark.parametrize(
    "attempts", [b"\x00" * 11, encode_attempts({1: 1}) * 2, b"\xff" * 12], ids=["half", "twice", "negative"]
)
def test_malformed_attempts_end_the_connection(client: Client, channel: ClientChannel, attempts: bytes) -> None:
    """Pairs of partition and attempt, each partition once, none of them negative."""
    channel.call(StageCommit(transactional_id="tx", epoch=EPOCH, batch=0, attempts=attempts))
    error = client.closed
    assert isinstance(error, ClosedByPeer)
    assert error.code == 502


@pytest.mark.parametrize("name", ["batch", "partition", "attempt"])
def test_numbers_are_within_bounds(channel: ClientChannel, name: str) -> None:
    """Those that the journal has no room for are refused."""
    numbers = {"batch": 0, "partition": 0, "attempt": 0, name: 2**63}
    error = refused(channel, StageSelect(transactional_id="tx", epoch=EPOCH, **numbers))
    assert error.code == 406


@pytest.mark.parametrize(
    "method",
    [StageSelect("tx", 1 << 63, 0, 0, 0), StageCommit("tx", (1 << 64) - 1, 0), StageAbort("tx", 1 << 63, 0)],
)
def test_an_epoch_that_none_has_is_another_writers(channel: ClientChannel, method: Method) -> None:
    """However high: the channel ends, and its connection goes on."""
    error = refused(channel, method)
    assert (error.code, "has been taken over by another writer" in str(error)) == (406, True)


def test_an_administrator_forgets_what_is_anybodys(server: Server, client: Client) -> None:
    """Others do not: an id is its user's."""
    server.vhost.stages.open("another's", "v", "")
    assert refused(client.channel(), StageForget("another's")).code == 403
    assert "another's" in server.vhost.stages.by_name
    server.broker.put_user(UserRecord("u", "", ("administrator",)))
    assert client.channel().call(StageForget("another's")) == [StageForgetOk()]
    client.tick()
    assert "another's" not in server.vhost.stages.by_name


def test_nothing_is_committed_once_the_storage_has_failed(client: Client, channel: ClientChannel) -> None:
    """Whoever asks hears why, and nothing gets to a queue."""
    channel.call(SELECT)
    channel.publish("a")
    channel.call(StageReady())
    client.server.storage.fence("broken")
    client.server.gateway.on_durable()
    channel.send(COMMIT)
    client.tick()
    assert "nothing durable can be stored: broken" in str(client.closed)
    assert count(client.server) == 0
