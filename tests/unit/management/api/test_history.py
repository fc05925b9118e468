"""The last minutes of one queue, stream or exchange, in the form that RabbitMQ has for them."""

import asyncio
from typing import Any

import pytest

from tests.unit.broker.memory import got
from tests.unit.management.api.test_live_objects import publish
from tests.unit.management.fake_node import Api, refused

HISTORY = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=10"
Q = "/api/queues/%2F/q"


@pytest.fixture
def api() -> Api:
    return Api()


def sample(api: Api, rounds: int = 1) -> None:
    for _ in range(rounds):
        asyncio.run(api.stats.sample())
        api.node.now += 5_000


def values(details: dict[str, Any]) -> list[int]:
    return [each["sample"] for each in details["samples"]]


def test_the_course_of_a_queue(api: Api) -> None:
    """Samples of all that is counted, the newest first, with their averages, each by its own age and increment."""
    api.put(Q, {"durable": True})
    for _ in range(4):
        publish(api, "m")
        sample(api)
    got(api.broker.vhosts["/"].queues["q"])
    sample(api)
    last_ms = api.node.now - 5_000
    queue = api.found(f"{Q}?{HISTORY}")
    assert queue["messages_ready_details"] == {
        "rate": -0.2,
        "samples": [
            {"sample": ready, "timestamp": last_ms - back * 5_000} for back, ready in enumerate((3, 4, 3, 2, 1))
        ],
        "avg": 2.6,
        "avg_rate": 0.1,
    }
    assert values(queue["messages_unacknowledged_details"]) == [1, 0, 0, 0, 0]
    assert values(queue["messages_details"]) == [4, 4, 3, 2, 1]
    stats = queue["message_stats"]
    assert values(stats["publish_details"]) == [4, 3, 1]
    assert values(stats["get_details"]) == values(stats["deliver_get_details"]) == [1, 0, 0]
    assert [each["timestamp"] for each in stats["ack_details"]["samples"]] == [
        last_ms - back for back in (0, 10_000, 20_000)
    ]
    young = api.found(f"{Q}?lengths_age=9&lengths_incr=5")
    assert values(young["messages_ready_details"]) == [3, 4]
    assert young["message_stats"]["publish_details"] == {"rate": 0.0}


def test_only_where_it_is_asked_for(api: Api) -> None:
    """Without both age and increment there is only a rate, and lists never have a history."""
    api.put(Q, {"durable": True})
    sample(api, 3)
    for query in ("", "?lengths_age=60", "?lengths_age=x&lengths_incr=5"):
        assert api.found(f"{Q}{query}")["messages_details"] == {"rate": 0.0}
    (listed,) = api.found(f"/api/queues?{HISTORY}")
    assert listed["messages_details"] == listed["message_stats"]["publish_details"] == {"rate": 0.0}
    columns = api.found(f"{Q}?{HISTORY}&columns=name,messages_details.samples")
    assert values(columns["messages_details"]) == [0, 0, 0]


@pytest.mark.parametrize(
    "path", [Q, "/api/queues", "/api/overview", "/api/exchanges/%2F/amq.direct", "/api/vhosts/%2F"]
)
@pytest.mark.parametrize("what", ["lengths", "msg_rates"])
@pytest.mark.parametrize(("age", "increment"), [(0, 5), (60, 0), (-60, 5), (60, -5), (501, 1), (10**17, 10**3)])
def test_ranges_that_are_none(api: Api, path: str, what: str, age: int, increment: int) -> None:
    """Ranges that are not positive, or have more than 500 increments, are refused with RabbitMQ's text."""
    api.put(Q, {"durable": True})
    answered = api.get(f"{path}?{what}_age={age}&{what}_incr={increment}")
    assert refused(answered) == (400, "bad_request", f"Invalid range parameters: age {age}, incr {increment}")
    assert api.get(f"{path}?{what}_age=500&{what}_incr=1").status_code == 200


def test_a_stream_and_an_exchange(api: Api) -> None:
    """Streams have it at both of their addresses, and exchanges of what came and went."""
    api.put("/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    for number in range(3):
        publish(api, f"m{number}", "s")
        sample(api)
    for address in ("/api/streams/%2F/s", "/api/queues/%2F/s"):
        stream = api.found(f"{address}?{HISTORY}")
        assert values(stream["messages_details"]) == [3, 2, 1]
        assert values(stream["message_stats"]["publish_details"]) == [3, 1]
    exchange = api.found(f"/api/exchanges/%2F/amq.default?{HISTORY}")
    assert values(exchange["message_stats"]["publish_in_details"]) == [3, 1]
    assert values(exchange["message_stats"]["publish_out_details"]) == [3, 1]
    assert "message_stats" not in api.found(f"/api/exchanges/%2F/amq.topic?{HISTORY}")


def test_a_queue_has_ten_minutes(api: Api) -> None:
    """Older samples are gone; a queue that was idle for so long keeps nothing, and was as it is all the time."""
    api.put(Q, {"durable": True})
    sample(api)
    publish(api, "m")
    sample(api, 3)
    assert api.stats.queues.remembered_bytes > 0
    sample(api, 118)
    whole = api.found(f"{Q}?lengths_age=3600&lengths_incr=8")["messages_details"]
    assert values(whole) == [1] * 61
    assert whole["samples"][0]["timestamp"] - whole["samples"][-1]["timestamp"] == 600_000
    sample(api)
    assert api.stats.queues.remembered_bytes == 0
    assert values(api.found(f"{Q}?{HISTORY}")["messages_details"]) == [1] * 13


def test_a_queue_of_the_same_name_is_another_one(api: Api) -> None:
    """The history of a queue ends with the queue; a new one of its name begins without."""
    api.put(Q, {"durable": True})
    sample(api)
    publish(api, "m")
    sample(api)
    api.delete(Q)
    api.put(Q, {"durable": True})
    assert values(api.found(f"{Q}?{HISTORY}")["messages_details"]) == []
    sample(api)
    assert values(api.found(f"{Q}?{HISTORY}")["messages_details"]) == [0]
    assert (api.stats.queues.kept, api.stats.queues.remembered_bytes) == (1, 0)
