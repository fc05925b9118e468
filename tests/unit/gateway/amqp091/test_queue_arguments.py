"""Arguments of queues beyond RabbitMQ's: what they can be, where they are refused, and when two declarations agree."""

import pytest

from flintmq.broker.dialect import STRICT
from flintmq.broker.message import PAUSE, Table
from flintmq.wire.amqp091.methods import QueueDeclare, QueueDeclareOk
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import Client, Server

STREAM: Table = {"x-queue-type": "stream"}


def declared(arguments: Table, again: Table | None = None) -> str:
    """Why this is refused, or the second declaration; empty if it is not."""
    channel = Client(Server()).channel()
    for table in (arguments,) if again is None else (arguments, again):
        answers = channel.call(QueueDeclare(queue="q", durable=True, arguments=table))
        if not answers:
            return str(channel.closed)
        assert isinstance(answers[0], QueueDeclareOk)
    return ""


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("x-dedup-window", 1, ""),
        ("x-dedup-window", 0, "{value_zero,0}"),
        ("x-dedup-window", -1, "{value_negative,-1}"),
        ("x-dedup-window", 2**60, "{value_too_large,1152921504606846976}"),
        ("x-dedup-window", "1h", '"expected integer, got longstr"'),
        ("x-dedup-size", 10_000_000, ""),
        ("x-dedup-size", 0, "{value_zero,0}"),
        ("x-dedup-size", 10_000_001, "{max_value_exceeded,10000001}"),
        ("x-dedup-size", True, '"expected integer, got bool"'),
        ("x-paused", False, ""),
        ("x-paused", 1, "{unacceptable_type,signedint}"),
    ],
)
def test_values(name: str, value: object, fault: str) -> None:
    """Only what makes sense is taken; a stream takes none of it."""
    told = f"406 PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/'"
    assert declared({name: value}) == (f"{told}: {fault}" if fault else "")
    assert declared({**STREAM, name: value}) == f"{told} of queue type stream"


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("client-local", ""),
        ("balanced", ""),
        ("min-masters", ""),
        ("somewhere", "invalid_queue_locator_arg"),
        ("", "invalid_queue_locator_arg"),
        (1, "{unacceptable_type,signedint}"),
    ],
)
def test_where_a_queue_is_to_be(kind: str, value: object, fault: str) -> None:
    """There is one node; an answer that RabbitMQ does not know is a mistake all the same."""
    told = "406 PRECONDITION_FAILED - invalid arg 'x-queue-leader-locator' for queue 'q' in vhost '/'"
    arguments: Table = {"x-queue-type": kind, "x-queue-leader-locator": value}
    assert declared(arguments) == (f"{told}: {fault}" if fault else "")


@pytest.mark.parametrize(
    ("value", "fault"),
    [("lazy", ""), ("default", ""), ("fast", "invalid_queue_mode"), (True, "{unacceptable_type,bool}")],
)
def test_how_a_classic_queue_is_kept(value: object, fault: str) -> None:
    """There is one way; a word that was never one of RabbitMQ's is a mistake all the same."""
    told = "406 PRECONDITION_FAILED - invalid arg 'x-queue-mode' for queue 'q' in vhost '/'"
    assert declared({"x-queue-mode": value}) == (f"{told}: {fault}" if fault else "")


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize("name", ["x-queue-mode", "x-queue-version", "x-queue-master-locator"])
def test_what_is_of_classic_queues_alone(kind: str, name: str) -> None:
    """RabbitMQ refuses it on queues of other types, whatever the value."""
    told = f"406 PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/' of queue type {kind}"
    assert declared({"x-queue-type": kind, name: "default"}) == told


@pytest.mark.parametrize("name", ["x-dedup-window", "x-dedup-size"])
def test_what_has_to_agree(name: str) -> None:
    """A queue that deduplicates is declared again as such."""
    assert declared({name: 5}, {name: 5}) == ""
    assert f"inequivalent arg '{name}'" in declared({name: 5}, {name: 6})
    assert f"inequivalent arg '{name}'" in declared({name: 5}, {})


def test_a_pause_does_not_have_to() -> None:
    """Who declares a queue need not know whether somebody paused it: in the strict dialect neither."""
    assert declared({"x-paused": True}, {}) == ""
    server = Server(STRICT)
    client = Client(server)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    channel.publish("", properties=encode_properties(Properties(headers={"x-queue-command": PAUSE})))
    client.tick()
    assert server.vhost.queues["q"].arguments == {"x-paused": True}
    assert len(channel.call(QueueDeclare(queue="q"))) == 1
