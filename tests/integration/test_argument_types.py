"""Types of integers in arguments at a real broker: AMQP 0-9-1 in, HTTP out, over a restart, and unbound for good."""

from pathlib import Path
from typing import Any

import httpx

import flintmq.client as fc
from flintmq.base.values import UInt8, UInt32
from tests.servers import BrokerProcess


def _bound(broker: BrokerProcess) -> list[tuple[Any, Any]]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as client:
        found = client.get("/api/exchanges/%2F/amq.headers/bindings/source").json()
    return [(each["arguments"], each["argument_types"]) for each in found]


def test_types_survive_a_restart(tmp_path: Path) -> None:
    """A binding has the types it was made with after a restart; unbound by its values, it does not come back."""
    wanted = [({"n": 5, "m": 6, "text": "t"}, {"n": "uint", "m": "ubyte"})]
    with BrokerProcess(tmp_path / "data") as broker:
        with fc.connect(broker.url) as connection:
            channel = connection.channel()
            channel.declare_queue("q", durable=True)
            channel.bind("q", "amq.headers", "", {"n": UInt32(5), "m": UInt8(6), "text": "t"})
        assert _bound(broker) == wanted
        assert broker.stop() == 0
        broker.start()
        assert _bound(broker) == wanted
        with fc.connect(broker.url) as connection:
            connection.channel().unbind("q", "amq.headers", "", {"n": 5, "m": 6, "text": "t"})
        assert _bound(broker) == []
        assert broker.stop() == 0
        broker.start()
        assert _bound(broker) == []
        assert broker.stop() == 0
