"""/management as clients use it: a pair of links, requests on one and responses on the other."""

import pytest

from flintmq.base.errors import EndedByPeer
from flintmq.base.limits import STEP_UNITS
from flintmq.broker.ports import VHostRecord
from flintmq.gateway.conversion.parts import write_properties
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.sections import decode_amqp_value, decode_properties, encode_amqp_value, scan
from flintmq.wire.amqp10.spec import SND_SETTLED
from flintmq.wire.amqp10.states import Accepted
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import ULong
from tests.unit.broker.memory import MemoryPages, message
from tests.unit.gateway.amqp10.pair import Client, Receiver, Sender, Server


@pytest.fixture
def server() -> Server:
    return Server()


def attach(paired: bool = True) -> Attach:
    return Attach(name="pair", snd_settle_mode=SND_SETTLED, properties={"paired": paired})


def asking(client: Client) -> Sender:
    return client.sender(target=Target(address="/management"), attach=attach())


def hearing(client: Client, credit: int = 10) -> Receiver:
    return client.receiver(source=Source(address="/management"), attach=attach(), credit=credit)


def ask(sender: Sender, method: str, target: str, body: object = None, number: int = 1) -> None:
    request = Properties(message_id=str(number), subject=method, to=target, reply_to="$me")
    sender.send_encoded(write_properties(request) + encode_amqp_value(body), True)


def heard(receiver: Receiver) -> list[tuple[object, str | None, object]]:
    """The correlation-ids, statuses and bodies of the responses that came."""
    found = []
    for delivery, payload in receiver.take():
        assert delivery is None or delivery.is_settled
        sections = scan(payload)
        properties = decode_properties(payload, sections.properties)
        found.append((properties.correlation_id, properties.subject, decode_amqp_value(payload, sections.body)))
    return found


@pytest.mark.parametrize("hears_first", [True, False])
def test_requests_are_answered_in_order_once_they_are_safe(client: Client, server: Server, hears_first: bool) -> None:
    """Whichever half is attached first."""
    if hears_first:
        receiver = hearing(client)
        sender = asking(client)
    else:
        sender = asking(client)
        receiver = hearing(client)
    assert sender.answer.properties == {"paired": True}
    ask(sender, "PUT", "/exchanges/x", {}, 1)
    ask(sender, "GET", "/queues/none", None, 2)
    client.tick()
    assert heard(receiver) == []
    client.durable()
    assert heard(receiver) == [("1", "204", None), ("2", "404", "queue 'none' in vhost '/' not found")]
    assert "x" in server.vhost.exchanges.by_name


def test_a_request_without_credit_for_its_response_ends_the_session(client: Client) -> None:
    """RabbitMQ's rule: nothing is done, and the client is told what to do. Each response takes its credit."""
    sender, receiver = asking(client), hearing(client, credit=1)
    ask(sender, "PUT", "/exchanges/x", {}, 1)
    client.durable()
    assert [each[:2] for each in heard(receiver)] == [("1", "204")]
    ask(sender, "PUT", "/exchanges/y", {}, 2)
    client.durable()
    (error,) = client.ended
    assert isinstance(error, EndedByPeer)
    assert error.condition == "amqp:precondition-failed"
    assert error.text.startswith("insufficient credit (0)")
    assert "y" not in client.server.vhost.exchanges.by_name


def test_requests_under_way_take_credit(client: Client) -> None:
    """Two requests at once need credit for both responses."""
    sender = asking(client)
    hearing(client, credit=1)
    ask(sender, "GET", "/queues/none", None, 1)
    ask(sender, "GET", "/queues/none", None, 2)
    client.durable()
    assert len(client.ended) == 1


def test_responses_wait_for_credit_and_requests_for_responses(client: Client, server: Server) -> None:
    """In the strict dialect, a client that does not listen cannot go on asking."""
    server.broker.put_vhost(VHostRecord("/", "strict"))
    sender = asking(client)
    receiver = hearing(client, credit=0)
    credit = sender.link.credit
    for number in range(credit):
        ask(sender, "GET", "/queues/none", None, number)
    client.durable()
    assert (heard(receiver), sender.link.credit) == ([], 0)
    receiver.link.grant(100)
    client.durable()
    assert [each[0] for each in heard(receiver)] == [str(number) for number in range(credit)]
    assert sender.link.credit == credit


def test_an_exclusive_queue_is_the_connection_s(client: Client, server: Server) -> None:
    """It goes with it."""
    sender, receiver = asking(client), hearing(client)
    ask(sender, "PUT", "/queues/q", {"exclusive": True})
    client.durable()
    assert heard(receiver)[0][1] == "201"
    client.receiver("/queues/q")
    assert server.vhost.queues["q"].consumer_count == 1
    client.engine.close()
    client.tick()
    assert "q" not in server.vhost.queues


def test_a_pair_says_that_it_is_one(client: Client) -> None:
    """RabbitMQ's rule."""
    sender = client.sender(target=Target(address="/management"), attach=attach(False))
    assert sender.refusal == (
        "amqp:precondition-failed",
        "Link property 'paired' is not set to boolean value 'true'",
    )


def test_a_request_that_nobody_would_hear_the_answer_to_ends_the_link(client: Client) -> None:
    """RabbitMQ's rule, too."""
    sender = asking(client)
    ask(sender, "GET", "/queues/q")
    client.tick()
    assert sender.refusal == (
        "amqp:precondition-failed",
        "received transfer on half open management link pair",
    )


def test_a_request_that_is_none_ends_the_link(client: Client) -> None:
    """The session goes on."""
    sender, receiver = asking(client), hearing(client)
    sender.send_encoded(encode_amqp_value(None), True)
    client.tick()
    assert sender.refusal[0] == "amqp:invalid-field"
    ask(asking(client), "GET", "/queues/none")
    client.durable()
    assert heard(receiver)[0][1] == "404"


def test_what_a_user_may_not_do_ends_the_session(client: Client, server: Server) -> None:
    """As RabbitMQ has it."""
    sender = asking(client)
    hearing(client)
    server.allow("^$", "^$", "^$")
    ask(sender, "PUT", "/queues/q", {})
    client.tick()
    assert "amqp:unauthorized-access" in str(client.ended)
    assert "q" not in server.vhost.queues


def test_a_pair_can_be_attached_again(client: Client) -> None:
    """After both halves, or one, were detached."""
    sender, receiver = asking(client), hearing(client)
    sender.link.detach()
    client.tick()
    again = asking(client)
    ask(again, "GET", "/queues/none")
    client.durable()
    assert len(heard(receiver)) == 1
    assert asking(client).refusal[0] == "amqp:precondition-failed"


def test_a_request_may_be_sent_unsettled(client: Client) -> None:
    """It is accepted once it was read."""
    sender = client.sender(
        target=Target(address="/management"), attach=Attach(name="pair", properties={"paired": True})
    )
    receiver = hearing(client)
    request = Properties(message_id="1", subject="GET", to="/queues/none", reply_to="$me")
    sender.send_encoded(write_properties(request) + encode_amqp_value(None))
    client.durable()
    assert len(heard(receiver)) == 1
    ((_, state, settled),) = sender.said
    assert isinstance(state, Accepted)
    assert settled


def test_a_long_queue_is_purged_in_steps(client: Client, server: Server) -> None:
    """The response comes when the last message is gone, and those to later requests come behind it."""
    receiver = hearing(client)
    sender = asking(client)
    server.queue()
    queue = server.vhost.queues["q"]
    for _ in range(3 * STEP_UNITS):
        server.vhost.deliver(message("m", True), [queue])
    ask(sender, "DELETE", "/queues/q/messages", None, 1)
    ask(sender, "GET", "/queues/none", None, 2)
    counts = []
    while client.single_tick():
        server.storage.sync()
        server.gateway.on_durable()
        counts.append(queue.message_count)
        assert heard(receiver) == []
    assert counts[0] == STEP_UNITS
    client.durable()
    assert queue.message_count == 0
    assert heard(receiver) == [
        ("1", "200", {"message_count": ULong(3 * STEP_UNITS)}),
        ("2", "404", "queue 'none' in vhost '/' not found"),
    ]


def test_a_purge_that_fails_ends_the_pair(client: Client, server: Server) -> None:
    """The client is told why. Some of the messages may be gone."""
    receiver = hearing(client)
    sender = asking(client)
    pages = server.broker.tick.pages = MemoryPages()
    server.queue()
    queue = server.vhost.queues["q"]
    for _ in range(40 * STEP_UNITS):
        server.vhost.deliver(message("m", True), [queue])
    ask(sender, "DELETE", "/queues/q/messages", None, 1)
    assert client.single_tick()
    assert 0 < queue.message_count < 40 * STEP_UNITS
    pages.is_readable = False
    client.tick()
    for link in (sender, receiver):
        (error,) = link.detached
        assert isinstance(error, EndedByPeer)
        assert (error.condition, error.text) == ("amqp:internal-error", "damaged")
