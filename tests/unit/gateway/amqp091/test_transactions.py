"""tx: what a channel publishes and settles takes effect as a whole when it commits, or not at all."""

import pytest

from flintmq.base.errors import ClosedByPeer
from flintmq.base.limits import TRANSACTION_MAX_COPIES
from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ConfirmSelect,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import TRANSIENT, Client, ClientChannel, Server

DURABLE_Q = QueueDeclare(queue="q", durable=True)
CONSUME = BasicConsume(queue="q", consumer_tag="c")


def opened(server: Server) -> tuple[Client, ClientChannel]:
    client = Client(server)
    channel = client.channel()
    channel.call(DURABLE_Q)
    return client, channel


def transactional(server: Server) -> tuple[Client, ClientChannel]:
    client, channel = opened(server)
    assert channel.call(TxSelect()) == [TxSelectOk()]
    return client, channel


def filled(server: Server, count: int) -> tuple[Client, ClientChannel]:
    """A transactional consumer that holds this many messages, with tags from 1 on."""
    client, channel = opened(server)
    for number in range(1, count + 1):
        channel.publish(str(number))
    channel.call(TxSelect(), CONSUME)
    assert [tag for tag, _, _ in channel.deliveries()] == list(range(1, count + 1))
    return client, channel


def kept(server: Server) -> list[str]:
    return sorted(body.decode() for body in server.storage.memory_journal.kept.values())


def ready(server: Server, name: str = "q") -> int:
    return server.vhost.queues[name].message_count


def code_of(reason: object) -> tuple[int, str]:
    assert isinstance(reason, ClosedByPeer)
    return reason.code, reason.text


def test_nothing_is_published_before_the_commit() -> None:
    """Publishes are not there for anybody until tx.commit; all are then."""
    server = Server()
    client, channel = transactional(server)
    channel.publish("a")
    channel.publish("b", properties=TRANSIENT)
    client.tick()
    assert ready(server) == 0
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert ready(server) == 2
    assert kept(server) == ["a"]


def test_commit_is_answered_when_it_is_durable() -> None:
    """commit-ok waits for the sync, even where nothing was published."""
    server = Server()
    client, channel = transactional(server)
    channel.publish("a")
    channel.send(TxCommit())
    client.tick()
    assert channel.came() == []
    client.durable()
    assert channel.came() == [TxCommitOk()]


def test_commit_is_one_group_of_the_journal() -> None:
    """Whatever it does to however many queues."""
    server = Server()
    _, channel = filled(server, 2)
    channel.call(QueueDeclare(queue="r", durable=True))
    journal = server.storage.memory_journal
    before = journal.group_count
    channel.publish("x", "r")
    channel.publish("y", "q")
    channel.channel.send_ack(1, False)
    channel.send(BasicReject(delivery_tag=2, requeue=False))
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert journal.group_count == before + 1
    assert kept(server) == ["x", "y"]


def test_dead_letters_are_part_of_the_commit() -> None:
    """What is rejected is at its dead letter exchange in the same group; what publishes push out follows."""
    server = Server()
    client, channel = opened(server)
    to_dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    channel.call(
        QueueDeclare(queue="r", durable=True, arguments=to_dead),
        QueueDeclare(queue="s", durable=True, arguments={**to_dead, "x-max-length": 1}),
    )
    channel.publish("rejected", "r")
    channel.publish("pushed out", "s")
    channel.call(TxSelect(), BasicGet(queue="r"))
    journal = server.storage.memory_journal
    before = journal.group_count
    channel.publish("new", "s")
    channel.send(BasicReject(delivery_tag=1, requeue=False))
    channel.send(TxCommit())
    client.tick()
    assert journal.group_count == before + 2
    assert journal.appends[-2][0] == b"rejected"
    assert (kept(server), ready(server), ready(server, "s")) == (["new", "pushed out", "rejected"], 2, 1)


def test_dead_letters_of_what_is_not_taken_are_part_of_the_commit() -> None:
    """What a full queue does not put on itself is among the dead letters only: a crash takes all of it, or nothing."""
    server = Server()
    client, channel = opened(server)
    arguments: Table = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "q",
        "x-max-length": 1,
        "x-max-priority": 5,
    }
    channel.call(QueueDeclare(queue="s", durable=True, arguments=arguments))
    channel.publish("important", "s", properties=encode_properties(Properties(delivery_mode=2, priority=5)))
    channel.call(TxSelect())
    journal = server.storage.memory_journal
    before = journal.group_count
    channel.publish("discarded", "s")
    channel.send(TxCommit())
    client.tick()
    assert journal.group_count == before + 1
    assert (ready(server), ready(server, "s")) == (1, 1)


def test_rejected_messages_count_as_they_will_be_published() -> None:
    """Dead letters are bytes of the transaction that makes them."""
    server = Server()
    _, channel = opened(server)
    channel.call(QueueDeclare(queue="r", arguments={"x-dead-letter-exchange": "amq.fanout"}))
    for _ in range(17):
        channel.publish("b" * (4 * 1024 * 1024), "r", properties=TRANSIENT)
        channel.call(BasicGet(queue="r"))
    channel.call(TxSelect(), BasicNack(delivery_tag=0, multiple=True, requeue=False))
    assert code_of(channel.closed)[0] == 406
    assert ready(server, "r") == 17


def test_rollback_forgets_what_was_staged() -> None:
    """Publishes are gone; what was to be settled is outstanding again and can be settled otherwise."""
    server = Server()
    client, channel = filled(server, 2)
    channel.publish("never")
    channel.channel.send_ack(2, True)
    assert channel.call(TxRollback()) == [TxRollbackOk()]
    assert kept(server) == ["1", "2"]
    channel.send(BasicNack(delivery_tag=1, requeue=False))
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert kept(server) == ["2"]
    client.tick()
    assert ready(server) == 0


@pytest.mark.parametrize(
    ("method", "left"),
    [
        (BasicAck(delivery_tag=2), ["1", "3"]),
        (BasicAck(delivery_tag=2, multiple=True), ["3"]),
        (BasicAck(delivery_tag=0, multiple=True), []),
        (BasicReject(delivery_tag=2, requeue=False), ["1", "3"]),
        (BasicNack(delivery_tag=2, multiple=True, requeue=False), ["3"]),
    ],
)
def test_settlements_wait_for_the_commit(method: Method, left: list[str]) -> None:
    """What is acknowledged or rejected stays in the journal until then."""
    server = Server()
    client, channel = filled(server, 3)
    channel.send(method)
    client.tick()
    assert kept(server) == ["1", "2", "3"]
    channel.call(TxCommit())
    assert kept(server) == left


def test_requeue_happens_at_the_commit() -> None:
    """A nack that gives back is staged as well."""
    server = Server()
    client, channel = filled(server, 2)
    channel.send(BasicNack(delivery_tag=2, multiple=True, requeue=True))
    client.tick()
    assert channel.deliveries() == []
    channel.call(TxCommit())
    assert channel.deliveries() == [(3, "1", True), (4, "2", True)]


def test_what_is_delivered_after_an_ack_of_all_is_not_part_of_it() -> None:
    """An ack of everything outstanding speaks of what was outstanding then, not at the commit."""
    server = Server()
    client, channel = filled(server, 2)
    channel.channel.send_ack(0, True)
    client.tick()
    other = client.channel()
    other.publish("later")
    client.tick()
    assert channel.deliveries() == [(3, "later", False)]
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert kept(server) == ["later"]
    channel.channel.send_ack(3, False)
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert kept(server) == []


def test_tag_is_settled_once_in_a_transaction() -> None:
    """A second settlement of one delivery is 406, as it is without transactions."""
    _, channel = filled(Server(), 2)
    channel.channel.send_ack(1, False)
    channel.call(BasicNack(delivery_tag=1))
    assert code_of(channel.closed) == (406, "PRECONDITION_FAILED - unknown delivery tag 1")


def test_range_skips_what_was_settled_before_it() -> None:
    """A settlement up to a tag leaves out those that have their own."""
    server = Server()
    _, channel = filled(server, 4)
    channel.send(BasicNack(delivery_tag=2, requeue=True))
    channel.channel.send_ack(4, True)
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert kept(server) == ["2"]
    assert channel.deliveries() == [(5, "2", True)]


def test_closed_channel_rolls_back() -> None:
    """What was staged is undone when the channel ends: messages go back, publishes are dropped."""
    server = Server()
    client, channel = filled(server, 2)
    channel.publish("never")
    channel.channel.send_ack(1, False)
    client.tick()
    assert server.gateway.tick.staged.held > 0
    channel.call(ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0))
    client.tick()
    assert kept(server) == ["1", "2"]
    assert ready(server) == 2
    assert server.gateway.tick.staged.held == 0


def test_recover_in_a_transaction_leaves_what_is_staged() -> None:
    """basic.recover gives back what no settlement speaks of."""
    server = Server()
    _, channel = filled(server, 3)
    channel.channel.send_ack(2, False)
    channel.call(BasicRecover(requeue=True))
    assert channel.deliveries() == [(4, "1", True), (5, "3", True)]
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert kept(server) == ["1", "3"]


def test_prefetch_is_given_back_at_the_commit() -> None:
    """A staged acknowledgement is none yet: nothing further is sent for it."""
    server = Server()
    client, channel = opened(server)
    for number in range(3):
        channel.publish(str(number))
    channel.call(TxSelect(), BasicQos(prefetch_count=1), CONSUME)
    assert len(channel.deliveries()) == 1
    channel.channel.send_ack(1, False)
    client.tick()
    assert channel.deliveries() == []
    channel.call(TxCommit())
    assert channel.deliveries() == [(2, "1", False)]


@pytest.mark.parametrize("mandatory", [False, True])
@pytest.mark.parametrize("what", ["unbound", "deleted"])
def test_a_way_that_went_before_the_commit(what: str, mandatory: bool) -> None:
    """Nothing was promised before commit-ok: routed by the commit, a mandatory message comes back in front of it."""
    server = Server()
    client, channel = transactional(server)
    other = client.channel()
    other.call(QueueDeclare(queue="o", durable=True), QueueBind(queue="o", exchange="amq.fanout"))
    channel.publish("good")
    channel.publish("lost", exchange="amq.fanout", mandatory=mandatory)
    client.tick()
    other.call(
        QueueUnbind(queue="o", exchange="amq.fanout") if what == "unbound" else QueueDelete(queue="o"),
    )
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert [body for _, _, body in channel.contents] == ["lost"] * mandatory
    assert kept(server) == ["good"]


def test_a_queue_declared_again_before_the_commit() -> None:
    """The commit routes a message: the queue that has the name then gets it, whichever was there at the publish."""
    server = Server()
    client, channel = transactional(server)
    other = client.channel()
    channel.publish("good", mandatory=True)
    client.tick()
    other.call(QueueDelete(queue="q"), DURABLE_Q)
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert channel.contents == []
    assert kept(server) == ["good"]


def test_missing_exchange_is_told_at_the_publish() -> None:
    """It closes the channel there and then, and with it goes the transaction."""
    server = Server()
    _, channel = transactional(server)
    channel.publish("good")
    channel.publish("bad", exchange="nope")
    channel.call()
    assert code_of(channel.closed)[0] == 404
    assert kept(server) == []


def test_exchange_that_went_before_the_commit_fails_all_of_it() -> None:
    """Nothing of a transaction takes effect if a part of it cannot."""
    server = Server()
    client, channel = transactional(server)
    other = client.channel()
    other.call(ExchangeDeclare(exchange="x", type="fanout"))
    channel.publish("good")
    channel.publish("bad", exchange="x")
    client.tick()
    other.call(ExchangeDelete(exchange="x"))
    channel.call(TxCommit())
    assert code_of(channel.closed)[0] == 404
    assert (kept(server), ready(server)) == ([], 0)


def test_queue_without_room_fails_all_of_it() -> None:
    """A queue that refuses publishers refuses the commit, before anything took effect."""
    server = Server()
    _, channel = transactional(server)
    channel.call(QueueDeclare(queue="s", durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"}))
    channel.publish("a")
    for _ in range(3):
        channel.publish("b", "s")
    channel.call(TxCommit())
    assert code_of(channel.closed) == (
        406,
        "PRECONDITION_FAILED - queue 's' in vhost '/' has no room for the transaction",
    )
    assert (kept(server), ready(server), ready(server, "s")) == ([], 0, 0)


@pytest.mark.parametrize("count", [1, 2])
def test_one_message_goes_straight_to_a_consumer(count: int) -> None:
    """A queue that holds nothing takes it for the consumer that waits, as outside of transactions; not several."""
    server = Server()
    client, channel = opened(server)
    channel.call(QueueDeclare(queue="s", arguments={"x-max-length": 0, "x-overflow": "reject-publish"}))
    taking = client.channel()
    taking.call(BasicConsume(queue="s", no_ack=True))
    channel.call(TxSelect())
    for _ in range(count):
        channel.publish("m", "s")
    assert (channel.call(TxCommit()) == [TxCommitOk()]) == (count == 1)
    assert [body for _, body, _ in taking.deliveries()] == ["m"] * (2 - count)


def test_room_is_what_consumers_leave() -> None:
    """What they would have taken by now, had the tick been shorter, does not keep a transaction out."""
    server = Server()
    client, channel = opened(server)
    channel.call(QueueDeclare(queue="s", arguments={"x-max-length": 2, "x-overflow": "reject-publish"}))
    taking = client.channel()
    taking.call(BasicConsume(queue="s", no_ack=True))
    trying = client.channel()
    trying.call(TxSelect())
    for body in "ab":
        channel.publish(body, "s")
    for body in "cd":
        trying.publish(body, "s")
    assert trying.call(TxCommit()) == [TxCommitOk()]
    assert [body for _, body, _ in taking.deliveries()] == ["a", "b", "c", "d"]


def test_what_needs_no_room_finds_it() -> None:
    """A command, and a newer value where the older one waits: a full queue takes them from a transaction, too."""
    server = Server()
    _, channel = opened(server)
    full: Table = {"x-max-length": 1, "x-overflow": "reject-publish", "x-last-value-key": "k"}
    channel.call(QueueDeclare(queue="s", arguments=full))
    channel.publish("delayed", "s", properties=encode_properties(Properties(message_id="a", headers={"x-delay": 1000})))
    valued = encode_properties(Properties(headers={"k": "v"}))
    channel.publish("old", "s", properties=valued)
    channel.call(TxSelect())
    channel.publish("new", "s", properties=valued)
    channel.publish("", "s", properties=encode_properties(Properties(headers={"x-delay-cancel": "a"})))
    assert channel.call(TxCommit()) == [TxCommitOk()]
    queue = server.vhost.queues["s"]
    assert (queue.message_count, queue.held_count) == (1, 0)


def test_what_chance_chose_is_what_has_room() -> None:
    """Where an exchange draws lots, the queue that was asked for room is the one that gets the message."""
    server = Server()
    client, channel = opened(server)
    full = QueueDeclare(queue="s", durable=True, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    channel.call(full, ExchangeDeclare(exchange="x", type="x-random"))
    for name in ("q", "s"):
        channel.call(QueueBind(queue=name, exchange="x"))
    committed = 0
    for _ in range(40):
        trying = client.channel()
        trying.call(TxSelect())
        trying.publish("m", exchange="x")
        committed += trying.call(TxCommit()) == [TxCommitOk()]
    assert 0 < committed < 40
    assert ready(server) == committed


def test_a_message_of_a_transaction_is_remembered_once() -> None:
    """An exchange with a history has each message in it once, and none of a transaction that failed."""
    server = Server()
    client, channel = transactional(server)
    other = client.channel()
    other.call(ExchangeDeclare(exchange="h", type="x-recent-history"), ExchangeDeclare(exchange="x", type="fanout"))
    channel.publish("a", exchange="h")
    channel.publish("b", exchange="h")
    assert channel.call(TxCommit()) == [TxCommitOk()]
    channel.publish("never", exchange="h")
    channel.publish("bad", exchange="x")
    client.tick()
    other.call(ExchangeDelete(exchange="x"))
    channel.call(TxCommit())
    assert code_of(channel.closed)[0] == 404
    other.call(QueueBind(queue="q", exchange="h"))
    assert ready(server) == 2


def test_room_is_for_publishes_before_what_comes_back() -> None:
    """A requeue in the same transaction does not make a queue refuse what there was room for."""
    server = Server()
    _, channel = opened(server)
    channel.call(QueueDeclare(queue="s", durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}))
    channel.publish("old", "s")
    channel.call(TxSelect(), BasicGet(queue="s"))
    channel.publish("new", "s")
    channel.send(BasicReject(delivery_tag=1, requeue=True))
    assert channel.call(TxCommit()) == [TxCommitOk()]
    assert kept(server) == ["new", "old"]


def test_commit_on_a_failed_storage_closes() -> None:
    """Nothing durable can be stored: 506, and what was staged is not there."""
    server = Server()
    client, channel = transactional(server)
    server.storage.fence("the disk is gone")
    other = client.channel()
    other.publish("x")
    client.tick()
    channel.publish("t", properties=TRANSIENT)
    channel.call(TxCommit())
    assert code_of(channel.closed)[0] == 506
    assert ready(server) <= 1


def test_commit_that_the_disk_did_not_keep_is_not_answered() -> None:
    """Where the storage fails while a commit waits, its connection ends: the client must not believe in it."""
    server = Server()
    client, channel = transactional(server)
    channel.publish("a")
    channel.send(TxCommit())
    client.tick()
    server.storage.fence("the disk is gone")
    server.gateway.on_durable()
    client.tick()
    assert channel.came() == []
    assert code_of(client.closed)[0] == 506


@pytest.mark.parametrize("size", ["bytes", "operations"])
def test_transactions_are_bounded(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many bytes, or too many operations, close the channel and drop the transaction."""
    server = Server()
    client, channel = transactional(server)
    staged = 20 if size == "bytes" else 65_537
    body = "b" * (4 * 1024 * 1024) if size == "bytes" else "b"
    for _ in range(staged):
        channel.publish(body)
    client.tick()
    code, text = code_of(channel.closed)
    assert (code, "commit more often" in text) == (406, True)
    assert ready(server) == 0


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        ([TxSelect(), ConfirmSelect()], "cannot switch from tx to confirm mode"),
        ([ConfirmSelect(), TxSelect()], "cannot switch from confirm to tx mode"),
    ],
)
def test_modes_do_not_mix(methods: list[Method], text: str) -> None:
    """A channel confirms, or has transactions, or neither: 406 otherwise."""
    client = Client(Server())
    channel = client.channel()
    channel.call(*methods)
    assert code_of(channel.closed) == (406, f"PRECONDITION_FAILED - {text}")


def test_select_twice_keeps_what_is_staged() -> None:
    """tx.select on a transactional channel changes nothing."""
    server = Server()
    _, channel = transactional(server)
    channel.publish("a")
    assert channel.call(TxSelect(), TxCommit()) == [TxSelectOk(), TxCommitOk()]
    assert kept(server) == ["a"]


def test_second_transaction_begins_with_the_commit() -> None:
    """A channel stays transactional: each commit covers what came since the last."""
    server = Server()
    client, channel = transactional(server)
    channel.publish("a")
    channel.send(TxCommit())
    channel.publish("b")
    client.tick()
    assert kept(server) == ["a"]
    assert channel.call(TxCommit()) == [TxCommitOk(), TxCommitOk()]
    assert kept(server) == ["a", "b"]


def test_a_commit_makes_only_so_many_copies() -> None:
    """What goes to too many queues all in all is refused before anything takes effect."""
    server = Server()
    _, channel = opened(server)
    for number in range(500):
        channel.send(QueueDeclare(queue=f"q{number}"), QueueBind(queue=f"q{number}", exchange="amq.fanout"))
    channel.call(TxSelect())
    channel.publish("first", "q")
    for _ in range(TRANSACTION_MAX_COPIES // 500):
        channel.publish("m", "", "amq.fanout", TRANSIENT)
    channel.call(TxCommit())
    assert code_of(channel.closed)[0] == 406
    assert "commit more often" in code_of(channel.closed)[1]
    assert (ready(server), ready(server, "q0"), kept(server)) == (0, 0, [])
