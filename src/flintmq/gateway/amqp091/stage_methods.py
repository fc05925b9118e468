"""Handlers of stage.*: FlintMQ's own class of methods, for distributed writers that publish a batch as a whole.

A task selects an attempt, publishes messages into it, and completes it. The driver commits on another channel.
"""

from typing import Final

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.stage.stage import Stage
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.handlers import Handlers
from flintmq.wire.amqp091.committed_attempts import PARTITION_MAX, decode_attempts
from flintmq.wire.amqp091.methods import (
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

METHODS: Final[Handlers] = Handlers()


@METHODS.handles(StageOpen)
def open_stage(channel: ServerChannel, method: StageOpen) -> None:
    """Open a stage. The answer waits until the new epoch is on the disk, so that a crash cannot undo it."""
    channel.check_storage()
    stage = channel.vhost.stages.open(method.transactional_id, channel.user.owner, method.owner)
    channel.reply_when_stored(StageOpenOk(epoch=int(stage.epoch), next_batch=int(stage.next_batch)))


@METHODS.handles(StageSelect)
def select(channel: ServerChannel, method: StageSelect) -> None:
    if method.partition > PARTITION_MAX or max(method.batch, method.attempt) >= INT64_MAX:
        raise PreconditionFailed(f"a partition is {PARTITION_MAX} at most, a batch or attempt {INT64_MAX - 1}")
    stage = _stage(channel, method.transactional_id)
    channel.select_stage(stage, method.epoch, (method.batch, method.partition, method.attempt))
    attempt = channel.attempt
    assert attempt is not None
    channel.reply(StageSelectOk(already=attempt.is_late))


@METHODS.handles(StageReady)
def ready(channel: ServerChannel, method: StageReady) -> None:
    channel.check_storage()
    channel.reply_when_stored(StageReadyOk(message_count=channel.complete_attempt()))


@METHODS.handles(StageCommit)
def commit(channel: ServerChannel, method: StageCommit) -> None:
    channel.check_storage()
    found = decode_attempts(method.attempts)
    if method.batch >= INT64_MAX:
        raise PreconditionFailed(f"a batch is {INT64_MAX - 1} at most")
    stage = _stage(channel, method.transactional_id)
    attempts = channel.add_attempts((method.transactional_id, method.epoch, method.batch), found)
    if method.more:
        channel.spend(len(found))
        channel.reply(StageCommitOk())
        return
    channel.spend(len(attempts))
    channel.forget_attempts()
    committed = stage.commit(method.epoch, method.batch, attempts, channel.client())
    channel.reply_when_stored(StageCommitOk(message_count=int(committed.published), already=committed.already))


@METHODS.handles(StageAbort)
def abort(channel: ServerChannel, method: StageAbort) -> None:
    channel.check_storage()
    _stage(channel, method.transactional_id).abort(method.epoch, method.batch)
    channel.reply_when_stored(StageAbortOk())


@METHODS.handles(StageForget)
def forget(channel: ServerChannel, method: StageForget) -> None:
    channel.check_storage()
    stages = channel.vhost.stages
    if channel.user.is_administrator:
        stages.forget_any(method.transactional_id)
    else:
        stages.forget(method.transactional_id, channel.user.owner)
    channel.reply_when_stored(StageForgetOk())


def _stage(channel: ServerChannel, transactional_id: str) -> Stage:
    return channel.vhost.stages.find(transactional_id, channel.user.owner)
