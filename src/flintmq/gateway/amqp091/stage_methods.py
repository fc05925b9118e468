"""Handlers of stage.*: FlintMQ's own class of methods, for distributed writers that publish a batch as a whole.

A task selects an attempt, publishes messages into it, and completes it. The driver commits on another channel.
"""

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.stage.stage import Stage
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.wire.amqp091.committed_attempts import PARTITION_MAX, decode_attempts
from flintmq.wire.amqp091.methods import (
    Method,
    StageAbort,
    StageAbortOk,
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
)
from flintmq.wire.amqp091.tables import INT64_MAX


def open_stage(channel: ServerChannel, method: Method) -> None:
    """Open a stage. The answer waits until the new epoch is on the disk, so that a crash cannot undo it."""
    assert isinstance(method, StageOpen)
    channel.check_storage()
    stage = channel.vhost.stages.open(method.transactional_id, channel.user.owner, method.owner)
    channel.reply_when_stored(StageOpenOk(epoch=int(stage.epoch), next_batch=int(stage.next_batch)))


def select(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, StageSelect)
    if method.partition > PARTITION_MAX or max(method.batch, method.attempt) >= INT64_MAX:
        raise PreconditionFailed(f"a partition is {PARTITION_MAX} at most, a batch or attempt {INT64_MAX - 1}")
    stage = _stage(channel, method.transactional_id)
    channel.select_stage(stage, method.epoch, (method.batch, method.partition, method.attempt))
    attempt = channel.attempt
    assert attempt is not None
    channel.reply(StageSelectOk(already=attempt.is_late))


def ready(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, StageReady)
    channel.check_storage()
    channel.reply_when_stored(StageReadyOk(message_count=channel.complete_attempt()))


def commit(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, StageCommit)
    channel.check_storage()
    found = decode_attempts(method.attempts)
    if method.batch >= INT64_MAX:
        raise PreconditionFailed(f"a batch is {INT64_MAX - 1} at most")
    stage = _stage(channel, method.transactional_id)
    winners = channel.add_winners((method.transactional_id, method.epoch, method.batch), found)
    if method.more:
        channel.spend(len(found))
        channel.reply(StageCommitOk())
        return
    channel.spend(len(winners))
    channel.take_winners()
    committed = stage.commit(method.epoch, method.batch, winners, channel.client())
    channel.reply_when_stored(StageCommitOk(message_count=int(committed.published), already=committed.already))


def abort(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, StageAbort)
    channel.check_storage()
    _stage(channel, method.transactional_id).abort(method.epoch, method.batch)
    channel.reply_when_stored(StageAbortOk())


def forget(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, StageForget)
    channel.check_storage()
    stages = channel.vhost.stages
    if channel.user.is_administrator:
        stages.forget_any(method.transactional_id)
    else:
        stages.forget(method.transactional_id, channel.user.owner)
    channel.reply_when_stored(StageForgetOk())


def _stage(channel: ServerChannel, transactional_id: str) -> Stage:
    return channel.vhost.stages.find(transactional_id, channel.user.owner)
