"""Handlers of tx.*."""

from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.wire.amqp091.methods import Method, TxCommit, TxRollback, TxRollbackOk, TxSelect, TxSelectOk


def select(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, TxSelect)
    channel.select_transaction()
    channel.reply(TxSelectOk())


def commit(channel: ServerChannel, method: Method) -> None:
    """Commit the transaction; tx.commit-ok is sent once it is on the disk."""
    assert isinstance(method, TxCommit)
    channel.commit()


def rollback(channel: ServerChannel, method: Method) -> None:
    assert isinstance(method, TxRollback)
    channel.rollback()
    channel.reply(TxRollbackOk())
