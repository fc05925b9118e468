"""Qpid Proton's Python client: AMQP 1.0 as its users have it, blocking and by events."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from proton import ConnectionException, Delivery, Described, Link, Message, Timeout, symbol
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import AtLeastOnce, AtMostOnce, Container, Copy, DurableSubscription, Filter, Selector
from proton.utils import (
    BlockingConnection,
    BlockingReceiver,
    LinkDetached,
    SendException,
    SyncRequestResponse,
)

from tests.interop.conftest import Connect
from tests.interop.peer import WAIT_SECONDS, PeerChannel
from tests.servers import BrokerProcess

# How long nothing may come before we believe that nothing will.
SILENCE_SECONDS: Final = 0.3

Open = Callable[..., BlockingConnection]


@pytest.fixture
def open_connection(broker: BrokerProcess) -> Iterator[Open]:
    made: list[BlockingConnection] = []

    def open_connection(**options: Any) -> BlockingConnection:
        made.append(BlockingConnection(f"amqp://guest:guest@127.0.0.1:{broker.port}", timeout=WAIT_SECONDS, **options))
        return made[-1]

    yield open_connection
    for connection in made:
        connection.close()


@pytest.fixture
def connection(open_connection: Open) -> BlockingConnection:
    return open_connection()


@pytest.fixture
def channel(connect: Connect) -> PeerChannel:
    """0-9-1, for what AMQP 1.0 itself cannot declare."""
    return connect("pika").channel(confirms=True)


@pytest.fixture
def queue(channel: PeerChannel, name: str) -> Iterator[str]:
    channel.declare_queue(name, durable=True)
    yield name
    channel.delete_queue(name)


def fill(connection: BlockingConnection, queue: str, *bodies: object, **properties: Any) -> None:
    sender = connection.create_sender(f"/queues/{queue}")
    for body in bodies:
        sender.send(Message(body, durable=True, **properties))
    sender.close()


def silent(receiver: BlockingReceiver) -> bool:
    """Whether nothing (more) comes."""
    with suppress(Timeout):
        receiver.connection.wait(lambda: receiver.fetcher.has_message, timeout=SILENCE_SECONDS)
    return not receiver.fetcher.has_message


def drained(connection: BlockingConnection, queue: str) -> list[Message]:
    """All that is on the queue, taken from it: a drain says when there is no more."""
    # With credit of its own, the client would reckon with that while it drains.
    receiver = connection.create_receiver(f"/queues/{queue}", credit=0)
    receiver.link.drain(1000)
    connection.wait(lambda: receiver.link.credit == 0)
    messages = []
    while receiver.fetcher.has_message:
        messages.append(receiver.fetcher.pop())
        receiver.accept()
    receiver.close()
    return messages


# -- sending ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [AtLeastOnce(), AtMostOnce(), None], ids=["unsettled", "settled", "mixed"])
def test_send_and_receive(connection: BlockingConnection, queue: str, option: AtLeastOnce | None) -> None:
    """Messages arrive whole and in their order, in each of the sender's settle modes, in either direction."""
    sender = connection.create_sender(f"/queues/{queue}", options=option)
    receiver = connection.create_receiver(f"/queues/{queue}", credit=20, options=option)
    for number in range(50):
        sender.send(Message({"number": number}, subject=f"s{number}", properties={"n": number}))
    for number in range(50):
        message = receiver.receive()
        assert (message.body, message.subject, message.properties) == (
            {"number": number},
            f"s{number}",
            {"n": number},
        )
        if receiver.fetcher.unsettled:
            receiver.accept()
    receiver.close()
    assert drained(connection, queue) == []


def test_everything_of_a_message_arrives(connection: BlockingConnection, queue: str) -> None:
    """Header, annotations, properties and application properties come as they were sent."""
    sent = Message(
        b"\x00\xff",
        inferred=True,
        durable=True,
        priority=7,
        ttl=60.0,
        id="id-1",
        user_id=b"guest",
        address=f"/queues/{queue}",
        subject="subject",
        reply_to="/queues/replies",
        correlation_id=7,
        content_type=symbol("application/octet-stream"),
        content_encoding=symbol("gzip"),
        expiry_time=2_000_000_000,
        creation_time=1_700_000_000,
        group_id="group",
        group_sequence=3,
        reply_to_group_id="reply group",
        properties={"text": "ü", "int": 5, "float": 1.5, "bool": True, "nothing": None},
        annotations={symbol("x-opt-mine"): "kept"},
    )
    connection.create_sender(f"/queues/{queue}").send(sent)
    receiver = connection.create_receiver(f"/queues/{queue}", credit=1)
    got = receiver.receive()
    receiver.accept()
    for field in (
        "body", "inferred", "durable", "priority", "id", "user_id", "address", "subject", "reply_to", "correlation_id",
        "content_type", "content_encoding", "expiry_time", "creation_time", "group_id", "group_sequence",
        "reply_to_group_id", "properties",
    ):  # fmt: skip
        assert getattr(got, field) == getattr(sent, field), field
    assert got.annotations[symbol("x-opt-mine")] == "kept"
    assert 0 < got.ttl <= 60
    assert got.first_acquirer
    assert got.delivery_count == 0


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_large_messages(open_connection: Open, queue: str, size: int) -> None:
    """A message of many frames arrives as it was, however small the frames."""
    connection = open_connection(max_frame_size=16_384)
    body = bytes(range(256)) * (size // 256)
    fill(connection, queue, body)
    (message,) = drained(connection, queue)
    assert bytes(message.body) == body


def test_addresses(connection: BlockingConnection, channel: PeerChannel, queue: str) -> None:
    """A queue, an exchange with and without a key, and the message's own address: each leads there."""
    channel.bind(queue, "amq.topic", "some.#")
    channel.bind(queue, "amq.fanout")
    for address, message in (
        (f"/queues/{queue}", Message("queue")),
        ("/exchanges/amq.topic/some.key", Message("exchange and key")),
        ("/exchanges/amq.fanout", Message("exchange")),
        ("/exchange/amq.topic/some.key", Message("as before RabbitMQ 4")),
        ("/topic/some.key", Message("topic")),
        (None, Message("to a queue", address=f"/queues/{queue}")),
        (None, Message("to an exchange", address="/exchanges/amq.topic/some%2Ekey")),
        (queue, Message("plain name")),
    ):
        sender = connection.create_sender(address)
        assert sender.send(message, error_states=[]).remote_state == Delivery.ACCEPTED, address or message.address
        sender.close()
    assert [message.body for message in drained(connection, queue)] == [
        "queue", "exchange and key", "exchange", "as before RabbitMQ 4", "topic", "to a queue", "to an exchange",
        "plain name",
    ]  # fmt: skip


def test_a_name_with_any_characters(connection: BlockingConnection, channel: PeerChannel) -> None:
    """What an address cannot spell is percent-encoded in it."""
    channel.declare_queue("a/b c%ü", durable=True)
    sender = connection.create_sender("/queues/a%2Fb%20c%25%C3%BC")
    sender.send(Message("there"))
    assert channel.delete_queue("a/b c%ü") == 1


def test_a_message_that_no_queue_wants(connection: BlockingConnection) -> None:
    """It is released, and the link goes on."""
    sender = connection.create_sender("/exchanges/amq.direct/no-such-key")
    for _ in range(2):
        with pytest.raises(SendException) as raised:
            sender.send(Message("unwanted"))
        assert raised.value.state == Delivery.RELEASED


def test_a_full_queue_rejects(connection: BlockingConnection, channel: PeerChannel, name: str) -> None:
    """A queue that takes no more says so for each message, and the link goes on."""
    channel.declare_queue(name, durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    sender = connection.create_sender(f"/queues/{name}", options=AtLeastOnce())
    states = [sender.send(Message(b"x"), error_states=[]).remote_state for _ in range(4)]
    assert states == [Delivery.ACCEPTED, Delivery.ACCEPTED, Delivery.REJECTED, Delivery.REJECTED]
    assert len(drained(connection, name)) == 2
    assert sender.send(Message(b"x")).remote_state == Delivery.ACCEPTED
    channel.delete_queue(name)


@pytest.mark.parametrize(
    "address", ["/queues/no-such-queue", "/exchanges/no-such-exchange/key", "/nonsense", "/queues/%zz"]
)
def test_an_address_that_leads_nowhere(open_connection: Open, address: str) -> None:
    """It is refused with a word, and the connection goes on."""
    connection = open_connection()
    with pytest.raises(LinkDetached) as raised:
        connection.create_sender(address)
    assert raised.value.condition in ("amqp:not-found", "amqp:invalid-field")
    with pytest.raises(LinkDetached) as raised:
        connection.create_receiver(address)
    assert raised.value.condition in ("amqp:not-found", "amqp:invalid-field")


# -- receiving --------------------------------------------------------------------------------------------------


def test_accept_settles(open_connection: Open, queue: str) -> None:
    """An accepted message is gone; one that was not settled comes again to another connection."""
    connection = open_connection()
    fill(connection, queue, "accepted", "open")
    receiver = connection.create_receiver(f"/queues/{queue}", credit=2)
    assert [receiver.receive().body, receiver.receive().body] == ["accepted", "open"]
    receiver.accept()
    connection.close()
    (again,) = drained(open_connection(), queue)
    assert again.body == "open"


def test_reject_dead_letters(connection: BlockingConnection, channel: PeerChannel, queue: str, name: str) -> None:
    """A rejected message goes where dead letters go."""
    channel.declare_queue(
        f"{name}-work",
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue},
    )
    fill(connection, f"{name}-work", "bad", "good")
    receiver = connection.create_receiver(f"/queues/{name}-work", credit=2)
    assert receiver.receive().body == "bad"
    receiver.reject()
    assert receiver.receive().body == "good"
    receiver.accept()
    dead = connection.create_receiver(f"/queues/{queue}", credit=1)
    assert dead.receive().body == "bad"
    dead.accept()
    receiver.close()
    channel.delete_queue(f"{name}-work")


def test_release_and_modify(connection: BlockingConnection, queue: str) -> None:
    """A released message was not delivered, a modified one counts as a failed delivery."""
    fill(connection, queue, "again")
    receiver = connection.create_receiver(f"/queues/{queue}", credit=1)
    assert receiver.receive().delivery_count == 0
    receiver.release(delivered=False)
    released = receiver.receive()
    assert (released.body, released.delivery_count) == ("again", 0)
    receiver.fetcher.unsettled[0].local.failed = True
    receiver.release(delivered=True)
    failed = receiver.receive()
    assert (failed.body, failed.delivery_count, failed.first_acquirer) == ("again", 1, False)
    receiver.accept()


def test_undeliverable_here(connection: BlockingConnection, channel: PeerChannel, queue: str, name: str) -> None:
    """A message that a client says it cannot use is a dead letter, with the annotations it got (RabbitMQ)."""
    used = f"{name}-used"
    channel.declare_queue(
        used, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    )
    fill(connection, used, "not for me")
    first = connection.create_receiver(f"/queues/{used}", credit=10)
    assert first.receive().body == "not for me"
    disposition = first.fetcher.unsettled[0].local
    disposition.undeliverable = True
    disposition.annotations = {symbol("x-opt-seen-by"): "first"}
    first.release(delivered=True)
    assert silent(first)
    second = connection.create_receiver(f"/queues/{queue}", credit=1, name="second")
    message = second.receive()
    assert message.body == "not for me"
    assert message.annotations[symbol("x-opt-seen-by")] == "first"
    second.accept()
    channel.delete_queue(used)


def test_credit_is_kept_to(connection: BlockingConnection, queue: str) -> None:
    """No more messages come than there is credit for."""
    fill(connection, queue, *range(10))
    receiver = connection.create_receiver(f"/queues/{queue}", credit=0)
    incoming = receiver.fetcher.incoming
    for credit, count in ((4, 4), (3, 7)):
        receiver.link.flow(credit)
        connection.wait(lambda count=count: len(incoming) == count)
        with pytest.raises(Timeout):
            connection.wait(lambda count=count: len(incoming) > count, timeout=SILENCE_SECONDS)
    assert [message.body for message, _ in incoming] == list(range(7))


def test_drain(connection: BlockingConnection, queue: str) -> None:
    """A drain gives what is there, and takes back the credit that nothing was left for."""
    fill(connection, queue, *range(3))
    assert [message.body for message in drained(connection, queue)] == [0, 1, 2]
    assert drained(connection, queue) == []


def test_several_receivers_share(connection: BlockingConnection, queue: str) -> None:
    """Each message goes to one of the receivers."""
    one = connection.create_receiver(f"/queues/{queue}", credit=5, name="one")
    two = connection.create_receiver(f"/queues/{queue}", credit=5, name="two")
    fill(connection, queue, *range(10))
    got: list[Any] = []
    while len(got) < 10:
        connection.wait(lambda: one.fetcher.has_message or two.fetcher.has_message)
        got += [receiver.receive().body for receiver in (one, two) if receiver.fetcher.has_message]
    assert sorted(got) == list(range(10))


def test_selector(connection: BlockingConnection, queue: str) -> None:
    """A receiver with a selector gets what it selects; the rest stays for others."""
    for colour in ("green", "red", "green", "blue"):
        fill(connection, queue, colour, properties={"colour": colour})
    receiver = connection.create_receiver(f"/queues/{queue}", credit=10, options=Selector("colour = 'green'"))
    for _ in range(2):
        assert receiver.receive().body == "green"
        receiver.accept()
    assert silent(receiver)
    receiver.close()
    assert [message.body for message in drained(connection, queue)] == ["red", "blue"]


def test_browsing(connection: BlockingConnection, queue: str) -> None:
    """A browser sees all messages and takes none."""
    fill(connection, queue, *range(5))
    for _ in range(2):
        browser = connection.create_receiver(f"/queues/{queue}", credit=10, options=Copy())
        assert [browser.receive().body for _ in range(5)] == list(range(5))
        browser.close()
    assert [message.body for message in drained(connection, queue)] == list(range(5))


def test_a_queue_that_is_deleted(connection: BlockingConnection, channel: PeerChannel, name: str) -> None:
    """Its receivers are told why they end."""
    channel.declare_queue(name, durable=True)
    receiver = connection.create_receiver(f"/queues/{name}", credit=1)
    channel.delete_queue(name)
    with pytest.raises(LinkDetached) as raised:
        receiver.receive()
    assert raised.value.condition == "amqp:resource-deleted"


def test_time_to_live(connection: BlockingConnection, queue: str) -> None:
    """A message that outlived its time is not delivered."""
    fill(connection, queue, "short", ttl=0.05)
    fill(connection, queue, "long", ttl=60)
    threading.Event().wait(0.2)
    assert [message.body for message in drained(connection, queue)] == ["long"]


# -- nodes and links --------------------------------------------------------------------------------------------


def test_request_and_response(broker: BrokerProcess, connection: BlockingConnection, queue: str) -> None:
    """A client makes a node of its own for the replies; the server answers to the address it is given."""
    server = Uppercase(f"127.0.0.1:{broker.port}", queue)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    client = SyncRequestResponse(connection, f"/queues/{queue}")
    try:
        assert client.reply_to
        for text in ("hello", "again"):
            assert client.call(Message(text)).body == text.upper()
    finally:
        server.stop()
        thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


class Uppercase(MessagingHandler):
    """Proton's example of a server: it answers each request in capitals."""

    def __init__(self, address: str, queue: str) -> None:
        super().__init__()
        self._address = address
        self._queue = queue
        self._container = Container(self)
        self._is_ending = threading.Event()

    def run(self) -> None:
        self._container.run()

    def stop(self) -> None:
        self._is_ending.set()

    def on_start(self, event: Any) -> None:
        self._connection = event.container.connect(f"amqp://guest:guest@{self._address}", reconnect=False)
        event.container.create_receiver(self._connection, f"/queues/{self._queue}")
        self._replies = event.container.create_sender(self._connection, None)
        event.container.schedule(0.05, self)

    def on_timer_task(self, event: Any) -> None:
        if self._is_ending.is_set():
            self._connection.close()
        else:
            event.container.schedule(0.05, self)

    def on_message(self, event: Any) -> None:
        request = event.message
        reply = Message(request.body.upper(), address=request.reply_to, correlation_id=request.correlation_id)
        self._replies.send(reply)


def test_dynamic_nodes_end_with_their_link(open_connection: Open) -> None:
    """A node made for a link can be sent to while the link is there, and not after that."""
    connection = open_connection()
    receiver = connection.create_receiver(None, dynamic=True, credit=1)
    address = receiver.link.remote_source.address
    assert address
    sender = open_connection().create_sender(address)
    sender.send(Message("to a dynamic node"))
    assert receiver.receive().body == "to a dynamic node"
    receiver.accept()
    receiver.close()
    with pytest.raises(LinkDetached):
        open_connection().create_sender(address)


def test_a_durable_subscription(open_connection: Open, queue: str) -> None:
    """A link that was detached keeps what it had not settled, and gets it when it comes back by its name."""
    first = named(open_connection, "subscriber")
    receiver = first.create_receiver(f"/queues/{queue}", name="sub", credit=1, options=DurableSubscription())
    fill(first, queue, "held", "next")
    assert receiver.receive().body == "held"
    receiver.link.detach()
    first.close()
    # Another receiver gets what is on the queue, not what the link holds.
    other = open_connection()
    assert [message.body for message in drained(other, queue)] == ["next"]
    second = named(open_connection, "subscriber")
    receiver = second.create_receiver(f"/queues/{queue}", name="sub", credit=1, options=DurableSubscription())
    assert receiver.receive().body == "held"
    receiver.accept()
    receiver.close()
    assert drained(other, queue) == []


def named(open_connection: Open, container_id: str) -> BlockingConnection:
    container = Container()
    container.container_id = container_id
    return open_connection(container=container)


# -- transactions -----------------------------------------------------------------------------------------------


class Transfer(MessagingHandler, TransactionHandler):
    """Moves messages from one queue to another, so many in a transaction, and discharges it as told."""

    def __init__(self, address: str, source: str, target: str, count: int, *, commit: bool) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self._address = address
        self._source = source
        self._target = target
        self._count = count
        self._commit = commit
        self._moved = 0
        self._transaction: Any = None
        self.outcome = ""

    def on_start(self, event: Any) -> None:
        self._container = event.container
        self._connection = event.container.connect(f"amqp://guest:guest@{self._address}", reconnect=False)
        self._receiver = event.container.create_receiver(self._connection, f"/queues/{self._source}")
        self._sender = event.container.create_sender(self._connection, f"/queues/{self._target}")
        event.container.declare_transaction(self._connection, handler=self, settle_before_discharge=True)

    def on_transaction_declared(self, event: Any) -> None:
        self._transaction = event.transaction
        self._receiver.flow(self._count)

    def on_message(self, event: Any) -> None:
        self._transaction.send(self._sender, Message(event.message.body))
        self._transaction.accept(event.delivery)
        self._moved += 1
        if self._moved == self._count:
            if self._commit:
                self._transaction.commit()
            else:
                self._transaction.abort()

    def on_transaction_committed(self, event: Any) -> None:
        self._end("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._end("aborted")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._end("commit failed")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self._end("declare failed")

    def _end(self, outcome: str) -> None:
        self.outcome = outcome
        self._connection.close()


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_transactions(
    broker: BrokerProcess, connection: BlockingConnection, channel: PeerChannel, queue: str, name: str, *, commit: bool
) -> None:
    """What is sent and accepted in a transaction happens when it is committed, all of it; else nothing does."""
    channel.declare_queue(f"{name}-to", durable=True)
    fill(connection, queue, *range(5))
    transfer = Transfer(f"127.0.0.1:{broker.port}", queue, f"{name}-to", 3, commit=commit)
    Container(transfer).run()
    assert transfer.outcome == ("committed" if commit else "aborted")
    left = sorted(message.body for message in drained(connection, queue))
    moved = [message.body for message in drained(connection, f"{name}-to")]
    assert (left, moved) == (([3, 4], [0, 1, 2]) if commit else ([0, 1, 2, 3, 4], []))
    channel.delete_queue(f"{name}-to")


# -- streams ----------------------------------------------------------------------------------------------------


@pytest.fixture
def stream(connection: BlockingConnection, channel: PeerChannel, name: str) -> Iterator[str]:
    """A stream of ten messages, 0 to 9, every other one of them "even"."""
    channel.declare_queue(name, durable=True, arguments={"x-queue-type": "stream"})
    sender = connection.create_sender(f"/queues/{name}")
    for number in range(10):
        sender.send(Message(number, subject="odd" if number % 2 else "even", properties={"n": number}))
    sender.close()
    yield name
    channel.delete_queue(name)


def offset(value: object) -> Filter:
    name = symbol("rabbitmq:stream-offset-spec")
    return Filter({name: Described(name, value)})


@pytest.mark.parametrize(("start", "first"), [("first", 0), (4, 4), (9, 9)])
def test_streams_from_an_offset(connection: BlockingConnection, stream: str, start: object, first: int) -> None:
    """A stream is read from where the filter says, with its offsets, as often as wanted."""
    for _ in range(2):
        receiver = connection.create_receiver(f"/queues/{stream}", credit=4, options=offset(start))
        for number in range(first, 10):
            message = receiver.receive()
            assert message.body == number
            assert message.annotations[symbol("x-stream-offset")] == number
            receiver.accept()
            if number + 4 < 10:
                receiver.link.flow(1)
        receiver.close()


# -- connections ------------------------------------------------------------------------------------------------


def test_a_connection_that_is_idle_stays(open_connection: Open, queue: str) -> None:
    """A client that asks for a heartbeat gets one, and is not taken for dead."""
    # It gives up a broker that says nothing for so long, as one may that stands still for a while.
    connection = open_connection(heartbeat=12)
    over = threading.Event()
    threading.Timer(14.0, over.set).start()
    connection.wait(over.is_set, timeout=WAIT_SECONDS)
    fill(connection, queue, "still there")
    assert len(drained(connection, queue)) == 1


def test_who_may_log_in(broker: BrokerProcess) -> None:
    """A wrong password is refused; without a name, who is on this machine is guest, as with RabbitMQ."""
    BlockingConnection(f"amqp://127.0.0.1:{broker.port}", timeout=WAIT_SECONDS).close()
    for url, options in (
        (f"amqp://guest:wrong@127.0.0.1:{broker.port}", {"allowed_mechs": "PLAIN"}),
        (f"amqp://nobody:x@127.0.0.1:{broker.port}", {"allowed_mechs": "PLAIN"}),
    ):
        with pytest.raises(ConnectionException):
            BlockingConnection(url, timeout=WAIT_SECONDS, **options)


def test_virtual_hosts(open_connection: Open) -> None:
    """A virtual host is named by `vhost:` and its name; one that does not exist is refused."""
    with pytest.raises(ConnectionException):
        open_connection(virtual_host="vhost:no-such-host")
    open_connection(virtual_host="vhost:/")


def test_what_the_broker_says_of_itself(connection: BlockingConnection) -> None:
    """Clients of RabbitMQ look for its name and version, and find them."""
    properties = connection.conn.remote_properties
    assert properties["product"] == "RabbitMQ"
    assert tuple(int(part) for part in properties["version"].split("."))[:2] >= (4, 0)


def test_second_settle_mode(connection: BlockingConnection, queue: str) -> None:
    """A receiver that settles second keeps a delivery until the broker has settled it."""
    fill(connection, queue, "exactly once")
    receiver = connection.create_receiver(f"/queues/{queue}", credit=1, options=Second())
    assert receiver.link.remote_rcv_settle_mode == Link.RCV_SECOND
    assert receiver.receive().body == "exactly once"
    (delivery,) = receiver.fetcher.unsettled
    delivery.update(Delivery.ACCEPTED)
    connection.wait(lambda: delivery.settled)
    delivery.settle()
    receiver.close()
    assert drained(connection, queue) == []


class Second(AtLeastOnce):
    def apply(self, link: Link) -> None:
        link.rcv_settle_mode = Link.RCV_SECOND
