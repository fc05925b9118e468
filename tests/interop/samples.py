"""Properties to send: every one there is, and headers of every type."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from tests.interop.peer import Peer, Properties

# 2.5 is itself in 32 bits too, which is what aio-pika sends; amqplib has no negative decimals.
HEADERS: Final = {
    "text": "π is about 3",
    "empty": "",
    "long-text": "x" * 30_000,
    "yes": True,
    "no": False,
    "zero": 0,
    "negative": -7,
    "16 bits": 40_000,
    "32 bits": 3_000_000_000,
    "64 bits": -(2**40),
    "fraction": 2.5,
    "price": Decimal("19.99"),
    "when": datetime(2026, 8, 1, 12, 30, 15, tzinfo=UTC),
    "nothing": None,
    "table": {"deep": {"deeper": {"list": [1, "two", None, {"three": [3]}]}}, "empty": {}},
    "list": ["a", 1, True, [-2, []]],
    "bytes": b"\x00\xff\xfe",
}
PROPERTIES: Final[Properties] = {
    "content_type": "application/octet-stream",
    "content_encoding": "identity",
    "headers": HEADERS,
    "delivery_mode": 2,
    "priority": 5,
    "correlation_id": "correlated",
    "reply_to": "answers",
    "expiration": "60000",
    "message_id": "m-1",
    "timestamp": 1_785_587_415,
    "type": "event",
    "user_id": "guest",
    "app_id": "interop",
}


def headers_of(*peers: Peer) -> dict[str, Any]:
    """HEADERS, without what one of these clients does not have."""
    unknown = tuple(type for peer in peers for type in peer.unknown)
    if [peer.name for peer in peers] == ["kombu", "amqplib"]:
        # py-amqp writes long integers under a tag, L, that amqplib does not read.
        return {key: value for key, value in headers_of(peers[0]).items() if key not in {"32 bits", "64 bits"}}
    return {key: value for key, value in HEADERS.items() if not isinstance(value, unknown)}
