"""Requests to /management by Proton: types of arguments, which come back as they were sent, whatever keeps them."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pika
from proton import Link, Message, byte, int32, short, symbol, ubyte, uint, ushort
from proton.utils import BlockingConnection

from tests.interop.peer import WAIT_SECONDS
from tests.interop.test_proton_answers import opened
from tests.servers import BrokerProcess

ADDRESS: Final = "/management"
ARGUMENTS: Final[dict[str, object]] = {
    "uint": uint(2**32 - 1),
    "ubyte": ubyte(255),
    "short": short(-(2**15)),
    "ushort": ushort(2**16 - 1),
    "byte": byte(-128),
    "int": int32(-(2**31)),
    "long": 2**63 - 1,
    "text": "5",
    "yes": True,
    "map": {"uint": uint(5), "list": [ubyte(5), short(5), 5]},
}


class Paired:
    """Half of a pair of links to /management."""

    def apply(self, link: Link) -> None:
        link.source.address = link.target.address = ADDRESS
        link.properties = {symbol("paired"): True}
        link.snd_settle_mode = Link.SND_SETTLED

    def test(self, link: Link) -> bool:
        return True


class Management:
    """HTTP over AMQP, as RabbitMQ has it."""

    def __init__(self, connection: BlockingConnection) -> None:
        self._sender = connection.create_sender(ADDRESS, name="management", options=Paired())
        self._receiver = connection.create_receiver(ADDRESS, credit=1, name="management", options=Paired())
        self._count = 0

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The body of the answer, which has to be one of success."""
        self._count += 1
        request = Message(body, id=self._count, subject=method, address=path, reply_to="$me", inferred=False)
        self._sender.send(request)
        answer = self._receiver.receive(WAIT_SECONDS)
        self._receiver.link.flow(1)
        assert answer.correlation_id == self._count
        assert answer.subject.startswith("2"), (answer.subject, answer.body)
        return answer.body

    def bindings(self, source: str, queue: str) -> list[Any]:
        return list(self.call("GET", f"/bindings?src={quote(source)}&dstq={quote(queue)}&key="))


def typed(value: object) -> object:
    """A value that is equal only to one of the same types."""
    if isinstance(value, dict):
        return {str(key): typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value), value


def is_listed(management: Management) -> bool:
    """Whether queue and binding have these arguments, of these types."""
    queue = management.call("GET", "/queues/q")["arguments"]
    del queue["x-queue-type"]
    (binding,) = management.bindings("amq.headers", "q")
    return typed(queue) == typed(binding["arguments"]) == typed(ARGUMENTS)


def test_types_of_arguments(tmp_path: Path) -> None:
    """They survive a restart, and an import of what was exported; the binding that is listed can be unbound."""
    binding = {"source": "amq.headers", "destination_queue": "q", "binding_key": "", "arguments": ARGUMENTS}
    with BrokerProcess(tmp_path / "data") as broker:
        connection = opened(broker)
        management = Management(connection)
        management.call("PUT", "/queues/q", {"durable": True, "arguments": ARGUMENTS})
        management.call("POST", "/bindings", binding)
        assert is_listed(management)
        connection.close()

        broker.restart()
        connection = opened(broker)
        management = Management(connection)
        assert is_listed(management)

        with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_SECONDS) as api:
            exported = api.get("/api/definitions").text
            management.call("DELETE", "/queues/q")
            assert management.bindings("amq.headers", "q") == []
            headers = {"content-type": "application/json"}
            assert api.post("/api/definitions", content=exported, headers=headers).is_success
        assert is_listed(management)

        (listed,) = management.bindings("amq.headers", "q")
        management.call("DELETE", listed["location"])
        assert management.bindings("amq.headers", "q") == []

        # AMQP 0-9-1 unbinds by the same values, which pika sends with types of its own.
        management.call("POST", "/bindings", {**binding, "arguments": {"uint": uint(5), "ubyte": ubyte(5)}})
        assert len(management.bindings("amq.headers", "q")) == 1
        by_pika = pika.BlockingConnection(pika.URLParameters(broker.url))
        by_pika.channel().queue_unbind("q", "amq.headers", "", {"uint": 5, "ubyte": 5})
        by_pika.close()
        assert management.bindings("amq.headers", "q") == []
        connection.close()

        broker.restart()
        connection = opened(broker)
        assert Management(connection).bindings("amq.headers", "q") == []
        connection.close()
        assert broker.stop() == 0
