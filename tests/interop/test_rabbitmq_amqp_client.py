"""RabbitMQ's own AMQP 1.0 client for Python: management, publishers, consumers and streams."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import rabbitmq_amqp_python_client as rmq
from rabbitmq_amqp_python_client.qpid.proton import ConnectionException
from rabbitmq_amqp_python_client.qpid.proton.utils import SendException

from tests.servers import BrokerProcess


class Enough(Exception):
    """As in this client's own examples: a handler ends `run` by raising."""


class Taking(rmq.AMQPMessagingHandler):
    """Takes so many messages, and deals with each as told."""

    def __init__(self, count: int, settle: Callable[[rmq.AMQPMessagingHandler, Any], None]) -> None:
        super().__init__()
        self.messages: list[Any] = []
        self._count = count
        self._settle = settle

    def on_amqp_message(self, event: Any) -> None:
        self.messages.append(event.message)
        self._settle(self, event)
        if len(self.messages) == self._count:
            raise Enough


def accept(handler: rmq.AMQPMessagingHandler, event: Any) -> None:
    handler.delivery_context.accept(event)


def discard(handler: rmq.AMQPMessagingHandler, event: Any) -> None:
    handler.delivery_context.discard(event)


def requeue(handler: rmq.AMQPMessagingHandler, event: Any) -> None:
    handler.delivery_context.requeue(event)


Open = Callable[[], rmq.Connection]


@pytest.fixture
def open_connection(broker: BrokerProcess) -> Iterator[Open]:
    environment = rmq.Environment(
        uri=f"amqp://guest:guest@127.0.0.1:{broker.port}",
        recovery_configuration=rmq.RecoveryConfiguration(active_recovery=False),
    )

    def open_connection() -> rmq.Connection:
        connection = environment.connection()
        connection.dial()
        return connection

    yield open_connection
    environment.close()


@pytest.fixture
def connection(open_connection: Open) -> rmq.Connection:
    return open_connection()


@pytest.fixture
def management(connection: rmq.Connection) -> rmq.Management:
    return connection.management()


@pytest.fixture
def queue(management: rmq.Management, name: str) -> Iterator[str]:
    management.declare_queue(rmq.ClassicQueueSpecification(name))
    yield name
    management.delete_queue(name)


def publish(connection: rmq.Connection, address: str, *bodies: str, **properties: Any) -> None:
    publisher = connection.publisher(address)
    for body in bodies:
        message = rmq.Message(rmq.Converter.string_to_bytes(body), inferred=True, **properties)
        assert publisher.publish(message).remote_state == rmq.OutcomeState.ACCEPTED
    publisher.close()


def take(
    open_connection: Open,
    queue: str,
    count: int,
    settle: Callable[[rmq.AMQPMessagingHandler, Any], None] = accept,
    options: Any = None,
) -> list[Any]:
    """The next messages, by a connection of their own, as the client's authors tell its users."""
    handler = Taking(count, settle)
    connection = open_connection()
    consumer = connection.consumer(rmq.AddressHelper.queue_address(queue), handler, consumer_options=options)
    with pytest.raises(Enough):
        consumer.run()
    connection.close()
    return handler.messages


def bodies(messages: list[Any]) -> list[str]:
    return [rmq.Converter.bytes_to_string(message.body) for message in messages]


# -- management -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("specification", "type"),
    [
        (
            rmq.ClassicQueueSpecification(
                "m-classic",
                message_ttl=timedelta(seconds=60),
                max_len=10,
                overflow_behaviour="reject-publish",
                max_priority=5,
                dead_letter_exchange="amq.fanout",
                dead_letter_routing_key="dead",
                auto_expires=timedelta(hours=1),
                single_active_consumer=True,
            ),
            rmq.QueueType.classic,
        ),
        (rmq.QuorumQueueSpecification("m-quorum", deliver_limit=3), rmq.QueueType.quorum),
        (
            rmq.StreamSpecification("m-stream", max_len_bytes=1_000_000_000, max_age=timedelta(days=1)),
            rmq.QueueType.stream,
        ),
    ],
    ids=["classic", "quorum", "stream"],
)
def test_queues_are_declared_and_deleted(management: rmq.Management, specification: Any, type: rmq.QueueType) -> None:
    """A queue of any kind is there once declared, as declared, and gone once deleted."""
    management.declare_queue(specification)
    # An equal declaration finds what is there.
    management.declare_queue(specification)
    info = management.queue_info(specification.name)
    assert (info.name, info.queue_type, info.is_durable) == (specification.name, type, True)
    assert info.arguments["x-queue-type"] == type.value
    assert (info.message_count, info.consumer_count) == (0, 0)
    management.delete_queue(specification.name)
    with pytest.raises(rmq.ValidationCodeException, match="404"):
        management.queue_info(specification.name)


def test_a_declaration_that_differs(management: rmq.Management, queue: str) -> None:
    """A queue that is there with other arguments is a conflict, and the management goes on."""
    with pytest.raises(rmq.ValidationCodeException, match="ErrPreconditionFailed"):
        management.declare_queue(rmq.ClassicQueueSpecification(queue, max_len=7))
    assert management.queue_info(queue).message_count == 0


@pytest.mark.parametrize("type", list(rmq.ExchangeType))
def test_exchanges_and_bindings(connection: rmq.Connection, queue: str, name: str, type: rmq.ExchangeType) -> None:
    """A message published to an exchange comes to the queue while that is bound, and is released when it is not."""
    management = connection.management()
    exchange = f"{name}-x"
    management.declare_exchange(rmq.ExchangeSpecification(exchange, exchange_type=type))
    binding = rmq.ExchangeToQueueBindingSpecification(exchange, queue, "a key/x%")
    path = management.bind(binding)
    publish(connection, rmq.AddressHelper.exchange_address(exchange, "a key/x%"), "bound")
    assert management.queue_info(queue).message_count == 1
    management.unbind(path)
    publisher = connection.publisher(rmq.AddressHelper.exchange_address(exchange, "a key/x%"))
    with pytest.raises(SendException):
        publisher.publish(rmq.Message(b"unbound", inferred=True))
    assert management.queue_info(queue).message_count == 1
    publisher.close()
    management.delete_exchange(exchange)


def test_exchanges_bound_to_exchanges(connection: rmq.Connection, queue: str, name: str) -> None:
    """A binding between exchanges leads on."""
    management = connection.management()
    management.declare_exchange(rmq.ExchangeSpecification(f"{name}-1", exchange_type=rmq.ExchangeType.fanout))
    management.declare_exchange(rmq.ExchangeSpecification(f"{name}-2", exchange_type=rmq.ExchangeType.topic))
    management.bind(rmq.ExchangeToExchangeBindingSpecification(f"{name}-1", f"{name}-2", "k"))
    management.bind(rmq.ExchangeToQueueBindingSpecification(f"{name}-2", queue, "#"))
    publish(connection, rmq.AddressHelper.exchange_address(f"{name}-1", "k"), "through both")
    assert management.queue_info(queue).message_count == 1
    management.unbind(rmq.ExchangeToExchangeBindingSpecification(f"{name}-1", f"{name}-2", "k"))
    management.delete_exchange(f"{name}-1")
    management.delete_exchange(f"{name}-2")


def test_a_url_without_a_login(broker: BrokerProcess) -> None:
    """The client's default URLs name no user: on this machine, that is guest."""
    environment = rmq.Environment(uri=f"amqp://127.0.0.1:{broker.port}")
    connection = environment.connection()
    connection.dial()
    connection.management()
    environment.close()


def test_a_virtual_host_that_is_not_there(broker: BrokerProcess) -> None:
    """The client says so at once, and does not try for ever to recover what never was."""
    environment = rmq.Environment(uri=f"amqp://guest:guest@127.0.0.1:{broker.port}/no-such-host")
    with pytest.raises(ConnectionException):
        environment.connection().dial()


def test_purge(connection: rmq.Connection, queue: str) -> None:
    """A purge empties the queue, and says how many messages that were."""
    publish(connection, rmq.AddressHelper.queue_address(queue), *"abc")
    assert connection.management().purge_queue(queue) == 3
    assert connection.management().queue_info(queue).message_count == 0


# -- messages ---------------------------------------------------------------------------------------------------


def test_publish_and_consume(open_connection: Open, connection: rmq.Connection, queue: str) -> None:
    """What is published comes in its order, with its properties, and is gone when it was accepted."""
    publish(
        connection,
        rmq.AddressHelper.queue_address(queue),
        *(str(number) for number in range(100)),
        subject="subject",
        application_properties={"key": "value"},
    )
    messages = take(open_connection, queue, 100)
    assert bodies(messages) == [str(number) for number in range(100)]
    assert {message.subject for message in messages} == {"subject"}
    assert all(message.application_properties == {"key": "value"} for message in messages)
    assert connection.management().queue_info(queue).message_count == 0


def test_a_publisher_without_an_address(open_connection: Open, connection: rmq.Connection, queue: str) -> None:
    """Each message says where it goes."""
    publisher = connection.publisher()
    message = rmq.Message(b"to", inferred=True)
    publisher.publish(rmq.AddressHelper.message_to_address_helper(message, rmq.AddressHelper.queue_address(queue)))
    publisher.close()
    assert bodies(take(open_connection, queue, 1)) == ["to"]


def test_a_full_queue(connection: rmq.Connection, name: str) -> None:
    """A message that a full queue does not take is rejected."""
    management = connection.management()
    management.declare_queue(rmq.QuorumQueueSpecification(name, max_len=1, overflow_behaviour="reject-publish"))
    publisher = connection.publisher(rmq.AddressHelper.queue_address(name))
    publisher.publish(rmq.Message(b"taken", inferred=True))
    with pytest.raises(rmq.AmqpMessageRejectedException):
        publisher.publish(rmq.Message(b"refused", inferred=True))
    publisher.close()
    management.delete_queue(name)


def test_discard_dead_letters(open_connection: Open, connection: rmq.Connection, queue: str, name: str) -> None:
    """A discarded message goes where dead letters go."""
    management = connection.management()
    management.declare_queue(
        rmq.QuorumQueueSpecification(f"{name}-work", dead_letter_exchange="", dead_letter_routing_key=queue)
    )
    publish(connection, rmq.AddressHelper.queue_address(f"{name}-work"), "bad")
    take(open_connection, f"{name}-work", 1, discard)
    (dead,) = take(open_connection, queue, 1)
    assert bodies([dead]) == ["bad"]
    assert dead.annotations["x-first-death-reason"] == "rejected"
    management.delete_queue(f"{name}-work")


def test_requeue(open_connection: Open, connection: rmq.Connection, queue: str) -> None:
    """A message that was requeued comes again."""
    publish(connection, rmq.AddressHelper.queue_address(queue), "again")
    assert bodies(take(open_connection, queue, 3, requeue)) == ["again"] * 3
    assert bodies(take(open_connection, queue, 1)) == ["again"]


def test_requeue_with_annotations(open_connection: Open, connection: rmq.Connection, name: str) -> None:
    """A message that was requeued with annotations has them the next time."""
    management = connection.management()
    management.declare_queue(rmq.QuorumQueueSpecification(name))
    publish(connection, rmq.AddressHelper.queue_address(name), "annotated")

    def annotate(handler: rmq.AMQPMessagingHandler, event: Any) -> None:
        annotations = {rmq.symbol("x-opt-tried-by"): "me"}
        handler.delivery_context.requeue_with_annotations(event, annotations)

    take(open_connection, name, 1, annotate)
    (message,) = take(open_connection, name, 1)
    assert message.annotations["x-opt-tried-by"] == "me"
    management.delete_queue(name)


def test_direct_reply_to(open_connection: Open, connection: rmq.Connection, queue: str) -> None:
    """A requester gets its answer at an address that is its own, without a queue being declared."""
    replies = Taking(1, lambda *_: None)
    requester = open_connection()
    options = rmq.ConsumerOptions(settle_strategy=rmq.ConsumerSettleStrategy.DirectReplyTo)
    consumer = requester.consumer(None, replies, consumer_options=options)
    assert consumer.address.startswith("/queues/amq.rabbitmq.reply-to.")
    publish(connection, rmq.AddressHelper.queue_address(queue), "request", reply_to=consumer.address)
    (request,) = take(open_connection, queue, 1)
    publish(connection, request.reply_to, "reply", correlation_id=request.id)
    with pytest.raises(Enough):
        consumer.run()
    assert bodies(replies.messages) == ["reply"]


def test_a_single_active_consumer(open_connection: Open, connection: rmq.Connection, name: str) -> None:
    """Consumers are told which of them is active, and when that changes."""
    management = connection.management()
    management.declare_queue(rmq.QuorumQueueSpecification(name, single_active_consumer=True))
    address = rmq.AddressHelper.queue_address(name)
    told: list[list[bool]] = [[], []]
    handlers = [Taking(1, accept), Taking(1, accept)]
    connections = [open_connection(), open_connection()]
    consumers = [
        made.consumer(address, handler, consumer_options=rmq.QuorumConsumerOptions(sac_state_handler=states.append))
        for made, handler, states in zip(connections, handlers, told, strict=True)
    ]
    for consumer, made, body in zip(consumers, connections, ("first", "second"), strict=True):
        publish(connection, address, body)
        with pytest.raises(Enough):
            consumer.run()
        made.close()
    assert [bodies(handler.messages) for handler in handlers] == [["first"], ["second"]]
    assert told == [[True], [False, True]]
    management.delete_queue(name)


# -- streams ----------------------------------------------------------------------------------------------------


@pytest.fixture
def stream(connection: rmq.Connection, name: str) -> Iterator[str]:
    """Ten messages, "0" to "9": every other one with the filter value, the subject and the property "even"."""
    management = connection.management()
    management.declare_queue(rmq.StreamSpecification(name))
    address = rmq.AddressHelper.queue_address(name)
    for number in range(10):
        kind = "odd" if number % 2 else "even"
        publish(
            connection,
            address,
            str(number),
            subject=kind,
            application_properties={"kind": kind, "number": number},
            annotations={rmq.symbol("x-stream-filter-value"): kind},
        )
    yield name
    management.delete_queue(name)


EVEN = ["0", "2", "4", "6", "8"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (rmq.StreamConsumerOptions(rmq.OffsetSpecification.first), [str(number) for number in range(10)]),
        (rmq.StreamConsumerOptions(7), ["7", "8", "9"]),
        (
            rmq.StreamConsumerOptions(
                rmq.OffsetSpecification.first, rmq.StreamFilterOptions(values=["even"], match_unfiltered=False)
            ),
            EVEN,
        ),
        (
            rmq.StreamConsumerOptions(
                rmq.OffsetSpecification.first,
                rmq.StreamFilterOptions(message_properties=rmq.MessageProperties(subject="even")),
            ),
            EVEN,
        ),
        (
            rmq.StreamConsumerOptions(
                rmq.OffsetSpecification.first,
                rmq.StreamFilterOptions(application_properties={"kind": "even"}),
            ),
            EVEN,
        ),
        (
            rmq.StreamConsumerOptions(
                rmq.OffsetSpecification.first,
                rmq.StreamFilterOptions(sql="kind = 'even' AND number > 3 AND properties.subject LIKE 'ev%'"),
            ),
            ["4", "6", "8"],
        ),
    ],
    ids=["first", "offset", "values", "properties", "application properties", "sql"],
)
def test_streams(open_connection: Open, stream: str, options: Any, expected: list[str]) -> None:
    """A stream is read from the offset, and through the filter, that the consumer asks for."""
    assert bodies(take(open_connection, stream, len(expected), options=options)) == expected
