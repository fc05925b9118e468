"""queue.declare: as a client finds the server."""

from flintmq.wire.amqp091.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    ConnectionClose,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
)
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import PERSISTENT, Peer, fresh
from tests.conformance.amqp091.rules import rule
from tests.conformance.brokers import ProcessBroker


@rule("queue.declare.default-binding")
def test_queue_declare_default_binding(peer: Peer) -> None:
    """A message to the empty exchange, with the queue's name as its key, arrives; nobody bound anything."""
    queue = peer.queue(fresh("q"))
    peer.publish(b"m", queue)
    peer.publish(b"elsewhere", queue + "x")
    peer.sync()
    assert [peer.body(queue), peer.body(queue)] == [b"m", None]


@rule("queue.declare.minimum-queues")
def test_queue_declare_minimum_queues(peer: Peer) -> None:
    """1,024 of them, each with its own message."""
    queues = [peer.queue() for _ in range(1024)]
    for queue in queues:
        peer.publish(queue.encode(), queue)
    peer.sync()
    assert [peer.body(queue) for queue in queues] == [queue.encode() for queue in queues]


@rule("queue.declare.queue.default-name")
def test_queue_declare_queue_default_name(peer: Peer) -> None:
    """Each gets another name, by which it can be used."""
    names = [peer.queue("") for _ in range(16)]
    assert len({*names, ""}) == 17
    assert all(name.startswith("amq.gen-") for name in names)
    assert peer.consume(names[0]).startswith("amq.ctag-")
    for name in names[1:]:
        peer.publish(name.encode(), name)
    peer.sync()
    assert [peer.body(name) for name in names[1:]] == [name.encode() for name in names[1:]]


@rule("queue.declare.queue.reserved")
def test_queue_declare_queue_reserved(peer: Peer) -> None:
    """A new one is 403, one that is there may be declared again, and asking for one that is not is 404."""
    peer.refused(QueueDeclare(queue="amq.mine"), 403)
    name = peer.queue("")
    assert name.startswith("amq.")
    assert peer.queue(name) == name
    peer.ask(QueueDeclare(queue=name, passive=True), QueueDeclareOk)
    peer.refused(QueueDeclare(queue="amq.mine", passive=True), 404)


@rule("queue.declare.queue.syntax")
def test_queue_declare_queue_syntax(peer: Peer, strict: bool) -> None:
    """Every character that is allowed is taken; others are 406 in strict, and as good in rabbitmq."""
    peer.queue(fresh("AZaz09-_.:"))
    for name in ("with space", "sl/ash", "ünlike", "new\nline", "do$llar"):
        declare = QueueDeclare(queue=fresh(name), exclusive=True)
        if strict:
            assert "letters, digits" in peer.refused(declare, 406)
        else:
            peer.ask(declare, QueueDeclareOk)


@rule("queue.declare.passive.passive")
def test_queue_declare_passive_passive(peer: Peer) -> None:
    """One that is there is found with its numbers; one that is not is 404, and is not made."""
    queue = peer.queue(fresh("q"))
    peer.publish(b"m", queue)
    peer.sync()
    found = peer.ask(QueueDeclare(queue=queue, passive=True), QueueDeclareOk)
    assert found == QueueDeclareOk(queue=queue, message_count=1, consumer_count=0)
    name = fresh("absent")
    for _ in range(2):
        peer.refused(QueueDeclare(queue=name, passive=True), 404)


@rule("queue.declare.passive.equivalent")
def test_queue_declare_passive_equivalent(peer: Peer, strict: bool) -> None:
    """The same again is fine. Another durability, or exclusiveness, is not; another argument is not in strict."""
    name = fresh("equal")
    same = QueueDeclare(queue=name, durable=True, arguments={"colour": "red"})
    peer.ask(same, QueueDeclareOk)
    peer.ask(same, QueueDeclareOk)
    assert "durable" in peer.refused(QueueDeclare(queue=name, arguments={"colour": "red"}), 406)
    peer.refused(QueueDeclare(queue=name, durable=True, exclusive=True, arguments={"colour": "red"}), 405)
    otherwise = QueueDeclare(queue=name, durable=True, arguments={"colour": "blue"})
    if strict:
        assert "colour" in peer.refused(otherwise, 406)
    else:
        peer.ask(otherwise, QueueDeclareOk)
    # What both know is compared by both.
    known = QueueDeclare(queue=name, durable=True, arguments={"colour": "red", "x-queue-type": "stream"})
    assert "x-queue-type" in peer.refused(known, 406)
    # Auto-delete is what the rules contradict each other in.
    flagged = QueueDeclare(queue=name, durable=True, auto_delete=True, arguments={"colour": "red"})
    if strict:
        peer.ask(flagged, QueueDeclareOk)
    else:
        assert "auto_delete" in peer.refused(flagged, 406)


@rule("queue.declare.passive.ignored")
def test_queue_declare_passive_ignored(peer: Peer, strict: bool) -> None:
    """Whatever else is said is not looked at. Without an answer to wait for, nothing comes of it (RabbitMQ: 404)."""
    queue = peer.queue(fresh("q"))
    other = QueueDeclare(queue=queue, passive=True, durable=True, arguments={"x-queue-type": "nonsense"})
    assert peer.ask(other, QueueDeclareOk).queue == queue
    last = peer.queue()
    peer.send_method(1, QueueDeclare(queue=queue, passive=True, no_wait=True))
    peer.sync(1)
    absent = QueueDeclare(queue=fresh("absent"), passive=True, no_wait=True)
    if strict:
        peer.queue(last, passive=True)
        peer.send_method(1, absent)
        # It is not the queue that was named last either.
        assert peer.ask(QueuePurge(), QueuePurgeOk).message_count == 0
        peer.refused(QueueDeclare(queue=absent.queue, passive=True), 404)
    else:
        peer.refused(absent, 404)


@rule("queue.declare.durable.persistence")
def test_queue_declare_durable_persistence(process: ProcessBroker, connect: Connect) -> None:
    """After a restart a message can be sent to it, and had from it."""
    queue = connect().queue(fresh("q"), durable=True, exclusive=False)
    process.restart()
    after = connect()
    after.publish(b"m", queue)
    after.sync()
    assert after.body(queue) == b"m"


@rule("queue.declare.durable.types")
def test_queue_declare_durable_types(process: ProcessBroker, connect: Connect) -> None:
    """Both kinds can be declared and used; a restart takes the transient one."""
    before = connect()
    durable = before.queue(fresh("q"), durable=True, exclusive=False)
    transient = before.queue(fresh("q"), durable=False, exclusive=False)
    for queue in (durable, transient):
        before.publish(queue.encode(), queue, properties=PERSISTENT)
    before.sync()
    assert [before.count(durable), before.count(transient)] == [1, 1]
    process.restart()
    after = connect()
    assert after.body(durable) == durable.encode()
    after.refused(QueueDeclare(queue=transient, passive=True), 404)


@rule("queue.declare.exclusive.types")
def test_queue_declare_exclusive_types(peer: Peer, connect: Connect) -> None:
    """A shared one can be had by others, and outlives its connection; an exclusive one neither."""
    first = connect()
    shared = first.queue(fresh("q"), exclusive=False)
    exclusive = first.queue(fresh("q"), exclusive=True)
    assert peer.count(shared) == 0
    peer.refused(QueueDeclare(queue=exclusive, passive=True), 405)
    first.send_method(0, ConnectionClose(reply_code=200))
    first.answer()
    assert peer.count(shared) == 0
    peer.refused(QueueDeclare(queue=exclusive, passive=True), 404)


@rule("queue.declare.exclusive.exclusive")
def test_queue_declare_exclusive_exclusive(peer: Peer, connect: Connect, strict: bool) -> None:
    """Declaring, binding, unbinding, consuming, getting, purging and deleting are 405."""
    queue = peer.queue(fresh("q"), exclusive=True)
    other = connect()
    for method in (
        QueueDeclare(queue=queue, exclusive=True),
        QueueDeclare(queue=queue, passive=True),
        QueueBind(queue=queue, exchange="amq.direct"),
        BasicConsume(queue=queue),
        BasicGet(queue=queue),
        QueuePurge(queue=queue),
        QueueDelete(queue=queue),
    ):
        other.refused(method, 405)
    unbind = QueueUnbind(queue=queue, exchange="amq.direct")
    if strict:
        other.ended(unbind, 405)
    else:
        other.refused(unbind, 405)
    assert peer.count(queue) == 0


@rule("queue.declare.auto-delete.pre-existence")
def test_queue_declare_auto_delete_pre_existence(peer: Peer, strict: bool) -> None:
    """Both kinds are declared with the flag reversed, and stay what they were; in rabbitmq that is 406."""
    for auto_delete in (False, True):
        queue = peer.queue(fresh("q"), auto_delete=auto_delete)
        reversed_ = QueueDeclare(queue=queue, exclusive=True, auto_delete=not auto_delete)
        if strict:
            peer.ask(reversed_, QueueDeclareOk)
        else:
            assert "auto_delete" in peer.refused(reversed_, 406)
        assert peer.count(queue) == 0
        # It would go with its last consumer.
        for tag in [peer.consume(queue), peer.consume(queue)]:
            assert peer.count(queue) == 0
            peer.ask(BasicCancel(consumer_tag=tag), BasicCancelOk)
        if auto_delete:
            peer.refused(QueueDeclare(queue=queue, passive=True), 404)
        else:
            assert peer.count(queue) == 0
