"""rhea, the AMQP 1.0 client for Node.js."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.interop.conftest import Connect
from tests.interop.node_agent import Agent, missing
from tests.interop.peer import WAIT_SECONDS, PeerChannel, Refused
from tests.servers import BrokerProcess

pytestmark = pytest.mark.skipif(bool(missing("rhea")), reason=missing("rhea"))

SILENCE_SECONDS: Final = 0.3
LOGIN: Final = {"username": "guest", "password": "guest"}


class Rhea:
    """A connection of rhea, in a process of its own."""

    def __init__(self, port: int, **options: Any) -> None:
        self._agent = Agent("rhea.mjs")
        self._links = 0
        self._is_open = False
        try:
            self.server = self._agent.command("connect", 0, {"host": "127.0.0.1", "port": port, **LOGIN, **options})
        except Refused:
            self._agent.end()
            raise
        self._is_open = True

    def sender(self, address: str | None, **options: Any) -> int:
        self._links += 1
        self._agent.command("sender", self._links, {"target": {"address": address}, **options})
        return self._links

    def send(self, sender: int, **message: Any) -> str:
        """The outcome."""
        return str(self._agent.command("send", sender, message))

    def send_all(self, sender: int, messages: list[dict[str, Any]]) -> int:
        return int(self._agent.command("sendAll", sender, messages))

    def receiver(
        self, address: str | None, credit: int = 0, filters: dict[str, object] | None = None, **options: Any
    ) -> tuple[int, Any]:
        """The link, and what the broker says of its source."""
        self._links += 1
        source = {"address": address, **options.pop("source", {})}
        told = self._agent.command("receiver", self._links, {"source": source, **options}, filters or {})
        if credit:
            self._agent.command("credit", self._links, credit)
        return self._links, told

    def credit(self, receiver: int, count: int) -> None:
        self._agent.command("credit", receiver, count)

    def drain(self, receiver: int) -> None:
        self._agent.command("drain", receiver)

    def event(self, link: int, kind: str = "message", seconds: float = WAIT_SECONDS) -> dict[str, Any] | None:
        """The next event of that link and kind; None when there is none in time."""
        while True:
            for event in self._agent.events:
                if (event["channel"], event["event"]) == (link, kind):
                    self._agent.events.remove(event)
                    return event
            if not self._agent.wait(seconds):
                return None

    def take(self, link: int, how: str = "accept", *arguments: object) -> Any:
        """The next message, settled that way."""
        event = self.event(link)
        assert event is not None, "no message came"
        self._agent.command("settle", link, event["number"], how, *arguments)
        return event["message"]

    def is_silent(self, link: int) -> bool:
        return self.event(link, seconds=SILENCE_SECONDS) is None

    def close_link(self, link: int) -> None:
        self._agent.command("close", link)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._agent.command("disconnect", 0)
            self._agent.end()


@pytest.fixture
def open_rhea(broker: BrokerProcess) -> Iterator[Callable[..., Rhea]]:
    made: list[Rhea] = []

    def open_rhea(**options: Any) -> Rhea:
        made.append(Rhea(broker.port, **options))
        return made[-1]

    yield open_rhea
    for rhea in made:
        rhea.close()


@pytest.fixture
def rhea(open_rhea: Callable[..., Rhea]) -> Rhea:
    return open_rhea()


@pytest.fixture
def channel(connect: Connect) -> PeerChannel:
    return connect("pika").channel(confirms=True)


@pytest.fixture
def queue(channel: PeerChannel, name: str) -> Iterator[str]:
    channel.declare_queue(name, durable=True)
    yield name
    channel.delete_queue(name)


def test_send_and_receive(rhea: Rhea, queue: str) -> None:
    """Messages come in their order, with what they carry."""
    sender = rhea.sender(f"/queues/{queue}")
    sent = [{"body": {"n": number}, "subject": "s", "application_properties": {"n": number}} for number in range(100)]
    assert rhea.send_all(sender, sent) == 100
    receiver, _ = rhea.receiver(f"/queues/{queue}", credit=100)
    got = [rhea.take(receiver) for _ in range(100)]
    assert [message["body"] for message in got] == [message["body"] for message in sent]
    assert [message["application_properties"] for message in got] == [{"n": number} for number in range(100)]
    assert {message["subject"] for message in got} == {"s"}
    assert rhea.is_silent(receiver)


def test_settled_transfers(rhea: Rhea, queue: str) -> None:
    """A sender that wants no answer gets none, and its messages are there all the same."""
    sender = rhea.sender(f"/queues/{queue}", snd_settle_mode=1)
    assert [rhea.send(sender, body=number) for number in range(10)] == ["settled"] * 10
    receiver, _ = rhea.receiver(f"/queues/{queue}", credit=10, snd_settle_mode=1)
    for number in range(10):
        event = rhea.event(receiver)
        assert event is not None
        assert event["message"]["body"] == number


def test_large_messages(open_rhea: Callable[..., Rhea], queue: str) -> None:
    """A message of many small frames arrives whole."""
    rhea = open_rhea(max_frame_size=4096)
    body = bytes(range(256)) * 4000
    assert rhea.send(rhea.sender(f"/queues/{queue}"), body={"$data": {"$bytes": base64(body)}}) == "accepted"
    receiver, _ = rhea.receiver(f"/queues/{queue}", credit=1)
    assert rhea.take(receiver)["body"] == {"$data": body}


def base64(body: bytes) -> str:
    return b64encode(body).decode()


def test_outcomes_for_a_sender(rhea: Rhea, channel: PeerChannel, name: str) -> None:
    """Accepted, released for want of a queue, rejected by a full one."""
    channel.declare_queue(name, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    sender = rhea.sender(f"/queues/{name}")
    assert rhea.send(sender, body="x") == "accepted"
    assert rhea.send(sender, body="x") == "rejected"
    assert rhea.send(rhea.sender("/exchanges/amq.direct/nowhere"), body="x") == "released"
    channel.delete_queue(name)


def test_outcomes_of_a_receiver(rhea: Rhea, channel: PeerChannel, queue: str, name: str) -> None:
    """Released and modified messages come again, and say whether they were delivered; rejected ones are dead."""
    work = f"{name}-work"
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.declare_queue(work, durable=True, arguments=arguments)
    assert rhea.send(rhea.sender(f"/queues/{work}"), body="x") == "accepted"
    receiver, _ = rhea.receiver(f"/queues/{work}", credit=4)
    assert "delivery_count" not in rhea.take(receiver, "release")
    assert not rhea.take(receiver, "modified", {"delivery_failed": True, "message_annotations": {"x-opt-a": 1}}).get(
        "delivery_count"
    )
    again = rhea.take(receiver, "reject", {"condition": "app:bad", "description": "not for me"})
    assert (again["delivery_count"], again["message_annotations"]["x-opt-a"]) == (1, 1)
    dead, _ = rhea.receiver(f"/queues/{queue}", credit=1)
    assert rhea.take(dead)["body"] == "x"
    channel.delete_queue(work)


def test_credit_and_drain(rhea: Rhea, queue: str) -> None:
    """No more comes than there is credit for, and a drain gives back what is not used."""
    sender = rhea.sender(f"/queues/{queue}")
    rhea.send_all(sender, [{"body": number} for number in range(5)])
    receiver, _ = rhea.receiver(f"/queues/{queue}", credit=2)
    assert [rhea.take(receiver)["body"] for _ in range(2)] == [0, 1]
    assert rhea.is_silent(receiver)
    rhea.credit(receiver, 10)
    assert [rhea.take(receiver)["body"] for _ in range(3)] == [2, 3, 4]
    rhea.drain(receiver)
    assert rhea.event(receiver, "drained") is not None
    rhea.send(sender, body="later")
    assert rhea.is_silent(receiver)


def test_selector(rhea: Rhea, queue: str) -> None:
    """A receiver gets what its selector selects, and the broker says that the selector is in place."""
    sender = rhea.sender(f"/queues/{queue}")
    rhea.send_all(sender, [{"body": n, "application_properties": {"n": n}} for n in range(6)])
    receiver, source = rhea.receiver(f"/queues/{queue}", credit=10, filters={"selector": "n BETWEEN 2 AND 4"})
    assert source["filter"] == ["jms-selector"]
    assert [rhea.take(receiver)["body"] for _ in range(3)] == [2, 3, 4]
    assert rhea.is_silent(receiver)


def test_browsing(rhea: Rhea, queue: str) -> None:
    """A browser takes nothing away."""
    rhea.send_all(rhea.sender(f"/queues/{queue}"), [{"body": number} for number in range(3)])
    for mode in ("copy", "copy", "move"):
        receiver, _ = rhea.receiver(f"/queues/{queue}", credit=10, source={"distribution_mode": mode})
        assert [rhea.take(receiver)["body"] for _ in range(3)] == [0, 1, 2]
        rhea.close_link(receiver)
    receiver, _ = rhea.receiver(f"/queues/{queue}", credit=1)
    assert rhea.is_silent(receiver)


def test_request_and_response(open_rhea: Callable[..., Rhea], queue: str) -> None:
    """The reply comes to the address that the broker made for it."""
    client, server = open_rhea(), open_rhea()
    replies, source = client.receiver(None, credit=1, source={"dynamic": True})
    requests, _ = server.receiver(f"/queues/{queue}", credit=1)
    client.send(client.sender(f"/queues/{queue}"), body="ping", reply_to=source["address"], correlation_id="1")
    request = server.take(requests)
    assert server.send(server.sender(None), to=request["reply_to"], correlation_id="1", body="pong") == "accepted"
    reply = client.take(replies)
    assert (reply["body"], reply["correlation_id"]) == ("pong", "1")


def test_streams(rhea: Rhea, channel: PeerChannel, name: str) -> None:
    """A stream is read from an offset."""
    channel.declare_queue(name, durable=True, arguments={"x-queue-type": "stream"})
    rhea.send_all(rhea.sender(f"/queues/{name}"), [{"body": number} for number in range(10)])
    receiver, _ = rhea.receiver(f"/queues/{name}", credit=5, filters={"offset": "first"})
    assert [rhea.take(receiver)["body"] for _ in range(5)] == [0, 1, 2, 3, 4]
    channel.delete_queue(name)


def test_refusals(rhea: Rhea) -> None:
    """What does not exist is refused by name, and the connection goes on."""
    for _ in range(2):
        with pytest.raises(Refused, match="amqp:not-found"):
            rhea.sender("/queues/no-such-queue")
        with pytest.raises(Refused, match="amqp:not-found"):
            rhea.receiver("/queues/no-such-queue")


def test_logins(open_rhea: Callable[..., Rhea]) -> None:
    """A wrong password is refused."""
    with pytest.raises(Refused, match=re.compile("auth|failed|Failed", re.IGNORECASE)):
        open_rhea(password="wrong")


def test_a_connection_that_is_idle_stays(open_rhea: Callable[..., Rhea], queue: str) -> None:
    """Each side sends heartbeats at the rate that the other one asked for."""
    # It gives up a broker that says nothing for twice as long, which a broker may do that stands still for a while.
    rhea = open_rhea(idle_time_out=6_000)
    receiver, _ = rhea.receiver(f"/queues/{queue}", credit=1)
    assert rhea.event(receiver, seconds=14.0) is None
    assert rhea.send(rhea.sender(f"/queues/{queue}"), body="still there") == "accepted"
    assert rhea.take(receiver)["body"] == "still there"
