"""What a broker does to a peer of AMQP 1.0 on its own account, as Proton sees it: late deliveries, ends, and errors."""

from collections.abc import Callable, Iterator
from urllib.parse import quote

import httpx
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from proton import Delivery, Endpoint, Link, Message, symbol, uint
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection, BlockingReceiver, ConnectionClosed, LinkDetached

from tests.interop.peer import WAIT_SECONDS
from tests.interop.test_proton import silent
from tests.interop.test_proton_management import ADDRESS, Paired
from tests.servers import BrokerProcess

Open = Callable[..., BlockingConnection]
# Longer than this process, or the broker's, stands still amid what it does.
TIMEOUT_MS = 8_000


@pytest.fixture
def open_connection(broker: BrokerProcess) -> Iterator[Open]:
    made: list[BlockingConnection] = []

    def open_connection(vhost: str = "/") -> BlockingConnection:
        url = f"amqp://guest:guest@127.0.0.1:{broker.port}"
        made.append(BlockingConnection(url, timeout=WAIT_SECONDS, virtual_host=f"vhost:{vhost}"))
        return made[-1]

    yield open_connection
    for connection in made:
        connection.close()


# -- consumer timeouts ------------------------------------------------------------------------------------------


class Hurried:
    """A link whose client asks for a consumer timeout of its own."""

    def apply(self, link: Link) -> None:
        link.properties = {symbol("rabbitmq:consumer-timeout"): uint(TIMEOUT_MS)}

    def test(self, link: Link) -> bool:
        return bool(link.is_receiver)


@pytest.mark.parametrize("asked_by", ["queue", "link"])
def test_a_consumer_that_takes_too_long(
    open_connection: Open, channel: BlockingChannel, name: str, asked_by: str
) -> None:
    """Its delivery is released and goes to another; what it says then changes nothing, but it gets more."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(f"{name}-dead", durable=True)
    timeout = {"x-consumer-timeout": TIMEOUT_MS} if asked_by == "queue" else {}
    channel.queue_declare(name, durable=True, arguments={**arguments, **timeout})
    connection = open_connection()
    options = Hurried() if asked_by == "link" else None
    slow = connection.create_receiver(f"/queues/{name}", credit=10, name="slow", options=options)
    channel.basic_publish("", name, b"1")
    slow.receive()
    (delivery,) = slow.fetcher.unsettled
    connection.wait(lambda: delivery.remote_state)
    assert (delivery.remote_state, delivery.settled) == (Delivery.RELEASED, False)
    # Neither that one nor another comes while the client has not settled, though it is alone and has credit.
    channel.basic_publish("", name, b"2")
    assert silent(slow)
    other = open_connection().create_receiver(f"/queues/{name}", credit=2, name="other")
    for expected in (b"1", b"2"):
        assert bytes(other.receive().body) == expected
        other.accept()
    other.close()
    slow.reject()
    channel.basic_publish("", name, b"3")
    assert bytes(slow.receive().body) == b"3"
    slow.accept()
    slow.close()
    for queue in (name, f"{name}-dead"):
        assert channel.queue_delete(queue).method.message_count == 0


# -- errors and ends --------------------------------------------------------------------------------------------


def test_a_connection_that_is_closed_over_http(open_connection: Open, api: httpx.Client, name: str) -> None:
    """Its peer is told why, in the words that RabbitMQ's clients look for; no other connection is closed."""
    other = open_connection()
    other_names = {each["name"] for each in api.get("/api/connections").json()}
    connection = open_connection()
    (made,) = [each for each in api.get("/api/connections").json() if each["name"] not in other_names]
    assert made["protocol"] == "AMQP 1-0"
    path = f"/api/connections/{quote(made['name'])}"
    assert api.delete(path, headers={"X-Reason": "no more of that"}).status_code == 204
    with pytest.raises(ConnectionClosed):
        connection.wait(lambda: False)
    condition = connection.conn.remote_condition
    assert condition.name == "amqp:connection:forced"
    assert condition.description == "Connection forced: no more of that"
    other.create_receiver(None, dynamic=True).close()


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("/exchanges/no-such-exchange/key", "amqp:not-found"),
        ("nonsense/x", "amqp:precondition-failed"),
        (None, "amqp:precondition-failed"),
    ],
    ids=["no exchange", "no address", "nothing"],
)
def test_a_settled_message_to_nowhere(open_connection: Open, address: str | None, condition: str) -> None:
    """The anonymous terminus detaches its link, and says which delivery that is about."""
    connection = open_connection()
    sender = connection.create_sender(None, options=AtMostOnce())
    sender.link.send(Message("m", address=address), tag="the tag")
    with pytest.raises(LinkDetached):
        connection.wait(lambda: False)
    told = sender.link.remote_condition
    assert told.name == condition
    assert bytes(told.info[symbol("delivery-tag")]) == b"the tag"


def test_an_unsettled_message_to_nowhere(open_connection: Open) -> None:
    """It is rejected or released, and the link goes on."""
    connection = open_connection()
    sender = connection.create_sender(None)
    for address, state in (
        ("/exchanges/no-such-exchange/key", Delivery.REJECTED),
        ("/queues/no-such-queue", Delivery.RELEASED),
        ("nonsense/x", Delivery.REJECTED),
    ):
        assert sender.send(Message("m", address=address), error_states=[]).remote_state == state, address


# -- /management ------------------------------------------------------------------------------------------------


def asked(connection: BlockingConnection) -> BlockingReceiver:
    """A request was sent; its response comes by this link, which has no credit."""
    sender = connection.create_sender(ADDRESS, name="management", options=Paired())
    receiver = connection.create_receiver(ADDRESS, credit=0, name="management", options=Paired())
    sender.link.send(Message({}, id=1, subject="PUT", address="/queues/q", reply_to="$me"))
    return receiver


def test_a_request_without_credit_for_its_response(open_connection: Open, api: httpx.Client) -> None:
    """The session ends with an error, as in RabbitMQ, and nothing was done."""
    connection = open_connection()
    session = asked(connection).link.session
    connection.wait(lambda: session.state & Endpoint.REMOTE_CLOSED)
    assert session.remote_condition.name == "amqp:precondition-failed"
    assert api.get("/api/queues/%2F/q").status_code == 404


def test_a_request_without_credit_in_strict(open_connection: Open, strict: str) -> None:
    """The response comes as soon as there is credit for it."""
    receiver = asked(open_connection(strict))
    assert silent(receiver)
    receiver.link.flow(1)
    answer = receiver.receive(WAIT_SECONDS)
    assert (answer.correlation_id, answer.subject) == (1, "201")
