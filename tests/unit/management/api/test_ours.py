"""Streams, leases and pipelines over HTTP: what RabbitMQ's API has no word for."""

import asyncio
import json

import pytest

from flintmq.broker.ports import ReaderOffset
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.stream import StreamQueue
from tests.unit.management.api.test_live_objects import publish
from tests.unit.management.fake_node import Api, refused


@pytest.fixture
def api() -> Api:
    return Api()


def test_streams(api: Api) -> None:
    """A stream has first and last offsets; its messages can be browsed by offset, but not moved."""
    api.put("/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    assert api.found("/api/streams/%2F/s")["last_offset"] is None
    for number in range(5):
        publish(api, f"m{number}", "s")
    asyncio.run(api.node.durable())
    (stream,) = api.found("/api/streams")
    assert (stream["first_offset"], stream["last_offset"], stream["messages"]) == (0, 4, 5)
    assert stream["message_stats"]["publish"] == 5
    assert (stream["message_bytes"], stream["segments"]) == (10, 1)
    assert api.found("/api/queues/%2F/s")["message_bytes"] == 10
    page = api.found("/api/queues/%2F/s/messages?count=2")
    assert [(each["position"], each["payload"]) for each in page["messages"]] == [(0, "m0"), (1, "m1")]
    page = api.found(f"/api/queues/%2F/s/messages?after={page['next']}")
    assert [each["position"] for each in page["messages"]] == [2, 3, 4]
    assert page["next"] is None
    assert refused(api.post("/api/queues/%2F/s/move", {"destination": "s"}))[0] == 400
    api.put("/api/queues/%2F/q", {"durable": True})
    assert refused(api.get("/api/streams/%2F/q"))[0] == 404


def test_places_of_readers(api: Api) -> None:
    """A reader with a name is known while it does not read, and how far it is behind."""
    api.put("/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    publish(api, "m", "s")
    publish(api, "m", "s")
    stream = api.broker.vhosts["/"].queues["s"]
    assert isinstance(stream, StreamQueue)
    stream.reader_offsets.restore(ReaderOffset(stream.id, "archive", 1))
    assert api.found("/api/streams/%2F/s")["places"] == [{"name": "archive", "offset": 1, "lag": 1}]


def test_ranges_that_were_read(api: Api) -> None:
    """Reads by ranges leave no consumer, but the furthest offset and the time of the last read, at first null."""
    api.put("/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    stream = api.broker.vhosts["/"].queues["s"]
    assert isinstance(stream, StreamQueue)
    shown = api.found("/api/streams/%2F/s")
    assert (shown["fetched_offset"], shown["fetched_at"]) == (None, None)
    stream.fetched(7, 3)
    shown = api.found("/api/streams/%2F/s")
    assert (shown["fetched_offset"], shown["fetched_at"]) == (7, api.node.now)
    assert shown["message_stats"]["deliver_get"] == 3


def test_leases(api: Api) -> None:
    """A lease is listed with its messages; releasing it returns them."""
    api.put("/api/queues/%2F/q", {"durable": True})
    for _ in range(3):
        publish(api, "m", "q", delivery_mode=2)
    vhost = api.broker.vhosts["/"]
    queue = vhost.queues["q"]
    assert isinstance(queue, ClassicQueue)
    lease = vhost.leases.open(queue, "spark", 0, 0)
    lease.extend(lease.epoch, 2, 0)
    (shown,) = api.found("/api/leases")
    assert (shown["name"], shown["queue"], shown["messages"], shown["next"]) == ("spark", "q", 2, 2)
    assert api.found("/api/leases/%2F/q/spark") == shown
    found = api.found("/api/queues/%2F/q")
    assert (found["messages_ready"], found["messages_unacknowledged"], found["leases"]) == (1, 2, 1)
    assert api.delete("/api/leases/%2F/q/spark").status_code == 204
    found = api.found("/api/queues/%2F/q")
    assert (found["messages_ready"], found["messages_unacknowledged"], found["leases"]) == (3, 0, 0)
    assert refused(api.get("/api/leases/%2F/q/spark"))[0] == 404


def test_pipelines(api: Api) -> None:
    """The last word of each; one that has not been heard of for long is silent, unless it has ended."""
    api.put("/api/queues/%2F/flintmq.pipelines", {"durable": True, "arguments": {"x-last-value-key": "pipeline"}})
    now = api.node.now
    for name, state, updated in (("a", "running", now), ("b", "running", now - 60_000), ("c", "failed", 0)):
        status = {"pipeline": name, "state": state, "updated_ms": updated, "flows": [{"name": "f", "rows": 1}]}
        publish(api, json.dumps(status), "flintmq.pipelines", headers={"pipeline": name})
    publish(api, "no status", "flintmq.pipelines", headers={"pipeline": "d"})
    told = api.found("/api/pipelines")
    assert [(each["pipeline"], each["state"]) for each in told] == [("a", "running"), ("b", "silent"), ("c", "failed")]
    assert api.found("/api/pipelines/%2F") == told


def test_the_course_of_the_node(api: Api) -> None:
    """The overview has rates and, where they are asked for, samples, the newest first."""
    api.put("/api/queues/%2F/q", {"durable": True})
    for _ in range(4):
        publish(api, "m")
        asyncio.run(api.stats.sample())
        api.node.now += 5_000
    query = "?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=10"
    overview = api.found(f"/api/overview{query}")
    assert overview["queue_totals"]["messages"] == 4
    lengths = overview["queue_totals"]["messages_details"]
    assert [each["sample"] for each in lengths["samples"]] == [4, 3, 2, 1]
    assert (lengths["rate"], lengths["avg"], lengths["avg_rate"]) == (0.2, 2.5, 0.2)
    published = overview["message_stats"]["publish_details"]["samples"]
    assert [each["sample"] for each in published] == [4, 2]
    assert published[0]["timestamp"] - published[1]["timestamp"] == 10_000
    assert api.found("/api/overview")["message_stats"]["deliver_get_details"] == {"rate": 0.0}
