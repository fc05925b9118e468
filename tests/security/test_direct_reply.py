"""Answers that go straight to who asked are nobody else's, over real sockets."""

from collections.abc import Callable, Iterator

import httpx
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.servers import BrokerProcess

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("replies") / "data") as running:
        yield running
        assert running.stop() == 0


@pytest.fixture
def asking(broker: BrokerProcess) -> Iterator[tuple[BlockingChannel, str, list[bytes]]]:
    """Who has asked something and waits: its channel, the address for answers, and the answers that came."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    answers: list[bytes] = []
    channel.basic_consume(REPLY_TO, lambda *delivery: answers.append(delivery[3]), auto_ack=True, consumer_tag="mine")
    channel.queue_declare("questions")
    channel.basic_publish("", "questions", b"?", pika.BasicProperties(reply_to=REPLY_TO))
    _, properties, _ = channel.basic_get("questions", auto_ack=True)
    assert properties is not None
    assert properties.reply_to is not None
    yield channel, properties.reply_to, answers
    connection.close()


THEFTS: dict[str, Callable[[BlockingChannel, str], object]] = {
    "consume": lambda channel, address: channel.basic_consume(address, lambda *_: None, auto_ack=True),
    "get": lambda channel, address: channel.basic_get(address, auto_ack=True),
    "purge": lambda channel, address: channel.queue_purge(address),
    "bind": lambda channel, address: channel.queue_bind(address, "amq.fanout"),
}


@pytest.mark.parametrize("way", THEFTS)
def test_another_user_gets_nothing_of_it(
    broker: BrokerProcess, asking: tuple[BlockingChannel, str, list[bytes]], way: str
) -> None:
    """Whoever knows the address, with all permissions there are, neither reads, nor empties, nor binds what is behind
    it; and who is meant gets the answer.
    """
    channel, address, answers = asking
    thief = pika.BlockingConnection(pika.URLParameters(broker.url))
    other = thief.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        THEFTS[way](other, address)
    assert refusal.value.reply_code == 404
    thief.channel().basic_publish("", address, b"!")
    thief.close()
    while not answers:
        channel.connection.process_data_events(time_limit=1)
    assert answers == [b"!"]


def test_the_api_knows_of_no_address(broker: BrokerProcess, asking: tuple[BlockingChannel, str, list[bytes]]) -> None:
    """No list has it, not for administrators either, and what names it is not found."""
    _, address, _ = asking
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        for path in ("queues", "consumers", "bindings", "definitions", "channels", "overview"):
            assert address not in api.get(f"/api/{path}").raise_for_status().text
        (channel,) = [each for each in api.get("/api/channels").json() if each["consumer_count"]]
        assert address not in api.get(f"/api/channels/{channel['name']}").raise_for_status().text
        assert address not in api.get("/metrics/per-object").raise_for_status().text
        queue = f"/api/queues/%2F/{address}"
        assert api.get(queue).status_code == 404
        assert api.delete(queue).status_code == 404
        assert api.delete(f"{queue}/contents").status_code == 404
        got = api.post(f"{queue}/get", json={"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
        assert got.status_code == 404


@pytest.mark.parametrize("passive", [True, False])
def test_a_framework_that_declares_it_starts(
    broker: BrokerProcess, asking: tuple[BlockingChannel, str, list[bytes]], passive: bool
) -> None:
    """Declaring the plain name, or an address with somebody behind it, tells of one consumer and no message."""
    _, address, _ = asking
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    for name in (REPLY_TO, address):
        declared = channel.queue_declare(name, passive=passive).method
        assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 0, 1)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        channel.queue_declare(f"{REPLY_TO}.nobody", passive=passive)
    assert refusal.value.reply_code == 404
    connection.close()
