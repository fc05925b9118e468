"""tx.*: as a client finds the server."""

import pytest

from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ConnectionClose,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import Peer, fresh
from tests.conformance.amqp091.rules import rule

pytestmark = pytest.mark.both_transports


@rule("tx.not multiple queues")
def test_tx_not_multiple_queues(peer: Peer, connect: Connect) -> None:
    """Publishes to two queues and an acknowledgement on a third: nothing before the commit, all of it after."""
    queues = [peer.queue(fresh("q"), exclusive=False) for _ in range(3)]
    observer = connect()
    peer.publish(b"settled", queues[2])
    peer.sync()
    peer.ask(TxSelect(), TxSelectOk)
    found = peer.get(queues[2], no_ack=False)
    assert found is not None
    ends: list[tuple[Method, type[Method]]] = [(TxRollback(), TxRollbackOk), (TxCommit(), TxCommitOk)]
    for end, answer in ends:
        # Behind a rollback the message is as it was: in this client's hands.
        assert [observer.count(queue) for queue in queues] == [0, 0, 0]
        for queue in queues[:2]:
            peer.publish(b"m", queue)
        peer.ack(found.tag)
        peer.sync()
        assert [observer.count(queue) for queue in queues] == [0, 0, 0]
        peer.ask(end, answer)
    assert [observer.body(queue) for queue in queues] == [b"m", b"m", None]
    # What was acknowledged does not come back with the end of its connection.
    peer.close()
    observer.sync()
    assert [observer.count(queue) for queue in queues] == [0, 0, 0]


def _returned_at_commit(peer: Peer, code: int, text: str, key: str, mandatory: bool, immediate: bool) -> None:
    queue = peer.queue()
    peer.ask(TxSelect(), TxSelectOk)
    peer.publish(b"kept", queue)
    peer.publish(b"returned", key or queue, mandatory=mandatory, immediate=immediate)
    peer.sync()
    assert not peer.returned
    peer.ask(TxCommit(), TxCommitOk)
    assert [(came.method, came.body) for came in peer.returned] == [
        (BasicReturn(reply_code=code, reply_text=text, exchange="", routing_key=key or queue), b"returned")
    ]
    assert [peer.body(queue), peer.body(queue)] == [b"kept", None]


@rule("tx.not immediate")
def test_tx_not_immediate(peer: Peer) -> None:
    """The message is returned before commit-ok, and the others are where they should be."""
    _returned_at_commit(peer, 313, "NO_CONSUMERS", "", mandatory=False, immediate=True)


@rule("tx.not mandatory")
def test_tx_not_mandatory(peer: Peer) -> None:
    """The message is returned before commit-ok, and the others are where they should be."""
    _returned_at_commit(peer, 312, "NO_ROUTE", "nowhere", mandatory=True, immediate=False)


@rule("tx.atomic")
def test_tx_atomic(peer: Peer, connect: Connect) -> None:
    """Publishes and acknowledgements of one queue: a rollback, a fault or a lost connection undoes all of them."""
    queue = peer.queue(fresh("q"), exclusive=False)
    observer = connect()

    def begin() -> tuple[Peer, int]:
        """A client in a transaction of two publishes, and an acknowledgement of what was there."""
        client = connect()
        client.ask(TxSelect(), TxSelectOk)
        held = client.get(queue, no_ack=False)
        assert held is not None
        for body in (b"one", b"two"):
            client.publish(body, queue)
        client.ack(held.tag)
        client.sync()
        return client, held.tag

    observer.publish(b"there", queue)
    observer.sync()
    rolled_back, tag = begin()
    rolled_back.ask(TxRollback(), TxRollbackOk)
    rolled_back.send_method(1, BasicReject(delivery_tag=tag, requeue=True))
    rolled_back.ask(TxCommit(), TxCommitOk)
    # A tag that is nobody's ends the channel, and the transaction with it.
    faulty, _ = begin()
    faulty.refused(BasicAck(delivery_tag=99), 406)
    lost, _ = begin()
    lost.send_method(0, ConnectionClose(reply_code=200))
    lost.answer()
    assert observer.count(queue) == 1
    committed, _ = begin()
    committed.ask(TxCommit(), TxCommitOk)
    assert [observer.body(queue) for _ in range(3)] == [b"one", b"two", None]


@rule("tx.select.first")
def test_tx_select_first(peer: Peer) -> None:
    """406 without; after one select, any number of commits and rollbacks, and a second select is fine."""
    for method in (TxCommit(), TxRollback()):
        _needs_a_transaction(peer, method)
    for _ in range(2):
        peer.ask(TxSelect(), TxSelectOk)
        for _ in range(2):
            peer.ask(TxCommit(), TxCommitOk)
            peer.ask(TxRollback(), TxRollbackOk)


@rule("tx.rollback.recover")
def test_tx_rollback_recover(peer: Peer) -> None:
    """The consumer keeps what it has; only a recover brings it again, flagged."""
    queue = peer.queue()
    peer.ask(TxSelect(), TxSelectOk)
    peer.publish(b"m", queue)
    peer.ask(TxCommit(), TxCommitOk)
    peer.consume(queue)
    (first,) = peer.deliveries(1)
    peer.ack(first.tag)
    peer.ask(TxRollback(), TxRollbackOk)
    assert peer.silent()
    peer.ask(BasicRecover(requeue=True), BasicRecoverOk)
    (again,) = peer.deliveries(1)
    assert (again.body, again.redelivered) == (b"m", True)


def _needs_a_transaction(peer: Peer, method: Method) -> None:
    assert "not transactional" in peer.refused(method, 406)


@rule("tx.commit.transacted")
def test_tx_commit_transacted(peer: Peer) -> None:
    """On a channel that was just opened."""
    _needs_a_transaction(peer, TxCommit())


@rule("tx.rollback.transacted")
def test_tx_rollback_transacted(peer: Peer) -> None:
    """On a channel that was just opened."""
    _needs_a_transaction(peer, TxRollback())
