"""Handlers of tx.*."""

from typing import Final

from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.handlers import Handlers
from flintmq.wire.amqp091.methods import TxCommit, TxRollback, TxRollbackOk, TxSelect, TxSelectOk

METHODS: Final[Handlers] = Handlers()


@METHODS.handles(TxSelect)
def select(channel: ServerChannel, method: TxSelect) -> None:
    channel.select_transaction()
    channel.reply(TxSelectOk())


@METHODS.handles(TxCommit)
def commit(channel: ServerChannel, method: TxCommit) -> None:
    """Commit the transaction; tx.commit-ok is sent once it is on the disk."""
    channel.commit()


@METHODS.handles(TxRollback)
def rollback(channel: ServerChannel, method: TxRollback) -> None:
    channel.rollback()
    channel.reply(TxRollbackOk())
