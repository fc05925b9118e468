"""Metrics: Prometheus's own library parses the text, and the values are what the broker counted."""

import json
import re
import shutil
import subprocess

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import TRANSIENT, Message
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.management.api.table import ROUTES
from flintmq.management.metrics import exposition
from flintmq.management.metrics.endpoint import open_to_all
from tests.unit.broker.memory import got, message, put_routed
from tests.unit.management.fake_node import Alarmed, Api, three_nodes

ENDPOINTS = ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_coarse_metrics")
# What the dashboard RabbitMQ-Overview reads.
OVERVIEW = (
    "rabbitmq_alarms_memory_used_watermark",
    "rabbitmq_build_info",
    "rabbitmq_channels",
    "rabbitmq_channel_consumers",
    "rabbitmq_channel_messages_published_total",
    "rabbitmq_channels_closed_total",
    "rabbitmq_channels_opened_total",
    "rabbitmq_connections",
    "rabbitmq_connections_closed_total",
    "rabbitmq_connections_opened_total",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_disk_space_available_limit_bytes",
    "rabbitmq_global_consumers",
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_delivered_consume_auto_ack_total",
    "rabbitmq_global_messages_delivered_consume_manual_ack_total",
    "rabbitmq_global_messages_delivered_get_auto_ack_total",
    "rabbitmq_global_messages_delivered_get_manual_ack_total",
    "rabbitmq_global_messages_delivered_total",
    "rabbitmq_global_messages_get_empty_total",
    "rabbitmq_global_messages_received_confirm_total",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_publishers",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_identity_info",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_max_tcp_sockets",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_open_tcp_sockets",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_queues",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_deleted_total",
    "rabbitmq_resident_memory_limit_bytes",
)


@pytest.fixture
def api() -> Api:
    return Api()


def _queue(api: Api, name: str, *, vhost: str = "/", **arguments: object) -> Queue:
    return api.broker.vhosts[vhost].declare_queue(name, True, False, False, arguments, None)


def _publish(api: Api, key: str, vhost: str = "/") -> None:
    published = message("body", key=key)
    put_routed(api.broker.vhosts[vhost], Route(published.address), published)


def _families(api: Api, path: str) -> list[Metric]:
    response = api.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return list(text_string_to_metric_families(response.text))


def _samples(api: Api, path: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The value of each sample, by its name and labels."""
    found = {}
    for family in _families(api, path):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def _plain(api: Api, path: str = "/metrics") -> dict[str, float]:
    """Samples without labels, and the sums of totals that have protocols and types of queues as labels."""
    found: dict[str, float] = {}
    for (name, labels), value in _samples(api, path).items():
        if not labels or name.startswith("rabbitmq_global_"):
            found[name] = found.get(name, 0) + value
    return found


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/metrics", "rabbitmq_"),
        ("/metrics/per-object", "rabbitmq_"),
        ("/metrics/detailed?family=auth_attempt_metrics", "rabbitmq_detailed_"),
    ],
)
def test_logins(api: Api, path: str, prefix: str) -> None:
    """Logins are counted by protocol, including refused ones, so that password guessing is visible."""
    for succeeded in (True, False, False):
        api.node.attempts.count("amqp091", "192.0.2.1", succeeded)
    samples = _samples(api, path)
    found = [
        samples[f"{prefix}auth_attempts_{name}total", (("protocol", "amqp091"),)]
        for name in ("", "succeeded_", "failed_")
    ]
    assert found == [3, 1, 2]


@pytest.mark.parametrize("path", ENDPOINTS)
def test_the_text_is_well_formed(api: Api, path: str) -> None:
    """Each family is there once, says what it is, and has a name and a type that go together."""
    _queue(api, "q")
    names = []
    for family in _families(api, path):
        names.append(family.name)
        assert family.documentation
        assert family.type in ("counter", "gauge", "histogram", "unknown")
        assert re.fullmatch(r"(rabbitmq|flintmq)_[a-z0-9_]+", family.name)
        if family.type == "counter":
            assert all(sample.name == f"{family.name}_total" for sample in family.samples)
    assert len(names) == len(set(names))


def test_dashboards_of_rabbitmq_find_what_they_read(api: Api) -> None:
    """Everything that RabbitMQ's overview shows is there under its name."""
    found = {name for name, _ in _samples(api, "/metrics")}
    assert found.issuperset(OVERVIEW)


def test_nodes_are_told_apart(api: Api) -> None:
    """The identity metric has the labels that dashboards join by, and names the endpoint."""
    samples = _samples(api, "/metrics/per-object")
    (labels,) = [dict(labels) for name, labels in samples if name == "rabbitmq_identity_info"]
    assert labels == {
        "rabbitmq_node": "flintmq@test",
        "rabbitmq_cluster": "flintmq@test",
        "rabbitmq_cluster_permanent_id": "flintmq@test",
        "rabbitmq_endpoint": "per-object",
    }


def test_sums(api: Api) -> None:
    """/metrics has the sum of all queues, and what was published and delivered."""
    one, _ = _queue(api, "one"), _queue(api, "two")
    for key in ("one", "one", "two"):
        _publish(api, key)
    assert got(one) is not None
    found = _plain(api)
    assert found["rabbitmq_queues"] == 2
    assert found["rabbitmq_queue_messages"] == 3
    assert found["rabbitmq_queue_messages_ready"] == 2
    assert found["rabbitmq_queue_messages_unacked"] == 1
    assert found["rabbitmq_queue_messages_bytes"] == 12
    assert found["rabbitmq_global_messages_received_total"] == 3
    assert found["rabbitmq_global_messages_delivered_get_manual_ack_total"] == 1
    assert found["rabbitmq_global_messages_delivered_total"] == 1


def test_fetching_nothing(api: Api) -> None:
    """basic.get on an empty queue is counted, also after the queue or virtual host is deleted."""
    api.broker.add_vhost("other")
    for vhost in ("/", "other"):
        assert got(_queue(api, f"q in {vhost}", vhost=vhost)) is None
    assert _plain(api)["rabbitmq_global_messages_get_empty_total"] == 2
    assert _plain(api)["rabbitmq_global_messages_delivered_total"] == 0
    api.broker.vhosts["/"].delete_queue("q in /", False, False, None)
    api.broker.delete_vhost("other")
    assert _plain(api)["rabbitmq_global_messages_get_empty_total"] == 2


def test_each_object(api: Api) -> None:
    """/metrics/per-object has them one by one, whatever they are called."""
    api.broker.add_vhost('a"\\\n')
    _queue(api, "q\u00e9", vhost='a"\\\n')
    _publish(api, "q\u00e9", 'a"\\\n')
    found = _samples(api, "/metrics/per-object")
    assert found["rabbitmq_queue_messages_ready", (("queue", "q\u00e9"), ("vhost", 'a"\\\n'))] == 1
    assert found["rabbitmq_exchange_messages_published_total", (("exchange", ""), ("vhost", 'a"\\\n'))] == 1


def test_what_is_asked_for(api: Api) -> None:
    """/metrics/detailed has the families and virtual hosts that the query names, under names of their own."""
    api.broker.add_vhost("other")
    for vhost in ("/", "other"):
        _queue(api, "q", vhost=vhost)
    path = "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count&vhost=other"
    names = {name for name, _ in _samples(api, path)}
    assert names - {"rabbitmq_identity_info", "rabbitmq_build_info"} == {
        "rabbitmq_detailed_queue_messages",
        "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_consumers",
    }
    assert all(dict(labels)["vhost"] == "other" for name, labels in _samples(api, path) if "detailed" in name)
    assert {name for name, _ in _samples(api, "/metrics/detailed?family=exchange_bindings&family=vhost_status")} > {
        "rabbitmq_cluster_exchange_bindings",
        "rabbitmq_cluster_vhost_status",
    }


def test_totals_only_grow(api: Api) -> None:
    """Totals include deleted queues and virtual hosts: a decrease would look like a restart."""
    api.broker.add_vhost("other")
    queue = _queue(api, "q", vhost="other")
    _publish(api, "q", "other")
    entry = got(queue)
    assert entry is not None
    queue.settle(entry)
    before = _plain(api)
    api.broker.delete_vhost("other")
    after = _plain(api)
    for what in ("received", "delivered", "acknowledged", "routed"):
        name = f"rabbitmq_global_messages_{what}_total"
        assert before[name] == after[name] == 1


def test_alarms_and_failures(api: Api) -> None:
    """An alarm or failure has the value 1, and processes that ended are counted."""
    assert _plain(api)["rabbitmq_alarms_free_disk_space_watermark"] == 0
    api.node.alarms.append(Alarmed("disk"))
    api.node.failure = "the disk is gone"
    api.broker.tick.churn.io_workers_ended = 2
    found = _plain(api)
    assert found["rabbitmq_alarms_free_disk_space_watermark"] == 1
    assert found["rabbitmq_alarms_memory_used_watermark"] == 0
    assert found["flintmq_storage_fenced"] == 1
    assert found["flintmq_io_workers_ended_total"] == 2


def test_how_long_things_take(api: Api) -> None:
    """Histograms have every bucket, the last one with all there is."""
    api.node.timings["tick"].observe(0.003)
    api.node.timings["tick"].observe(70.0)
    found = _samples(api, "/metrics")
    buckets = [value for (name, _), value in found.items() if name == "flintmq_tick_seconds_bucket"]
    assert buckets == sorted(buckets)
    assert found["flintmq_tick_seconds_bucket", (("le", "0.0025"),)] == 0
    assert found["flintmq_tick_seconds_bucket", (("le", "0.005"),)] == 1
    assert found["flintmq_tick_seconds_bucket", (("le", "+Inf"),)] == 2
    assert found["flintmq_tick_seconds_count", ()] == 2
    assert found["flintmq_tick_seconds_sum", ()] == pytest.approx(70.003)


def test_dead_letters(api: Api) -> None:
    """Dead letters are counted by queue type and strategy, as in RabbitMQ."""
    api.broker.tick.churn.dead_lettered("quorum", "at_least_once", "expired")
    key = (("dead_letter_strategy", "at_least_once"), ("queue_type", "rabbit_quorum_queue"))
    assert _samples(api, "/metrics")["rabbitmq_global_messages_dead_lettered_expired_total", key] == 1


def test_the_lag_of_streams(api: Api) -> None:
    """Only streams have a lag."""
    _queue(api, "q")
    _queue(api, "s", **{"x-queue-type": "stream"})
    found = [labels for name, labels in _samples(api, "/metrics/per-object") if "offset_lag" in name]
    assert found == [(("queue", "s"), ("vhost", "/"))]


def test_pipelines(api: Api) -> None:
    """Metrics come from the last status of each pipeline; invalid values and statuses are skipped."""
    _queue(api, "flintmq.pipelines")
    for status in (
        {
            "pipeline": 'p"1',
            "state": "running",
            "updated_ms": api.node.now,
            "flows": [{"name": "f", "lag": 7, "rows": True, "batches": "many", "batch_ms": 250}, {"name": 5}, "flow"],
        },
        {"pipeline": "dead", "state": "failed", "flows": None},
        {"state": "running"},
    ):
        published = message(json.dumps(status), key="flintmq.pipelines")
        in_091 = Message(published.address, CODEC_091, CODEC_091.nothing, published.body, TRANSIENT, 0)
        put_routed(api.broker.vhosts["/"], Route(published.address), in_091)
    found = _samples(api, "/metrics")
    of_flow = (("flow", "f"), ("pipeline", 'p"1'), ("vhost", "/"))
    assert {key: value for key, value in found.items() if "pipeline" in key[0]} == {
        ("flintmq_pipeline_up", of_flow[1:]): 1,
        ("flintmq_pipeline_up", (("pipeline", "dead"), ("vhost", "/"))): 0,
        ("flintmq_pipeline_lag_messages", of_flow): 7,
        ("flintmq_pipeline_batch_seconds", of_flow): 0.25,
    }


def test_many_objects_are_read_in_slices(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """If every slice is over at once, only a few objects are read between two pauses."""
    rests = 0

    class Impatient:
        is_over = True

        async def pause(self) -> None:
            nonlocal rests
            rests += 1

        def waited(self) -> None:
            pass

    monkeypatch.setattr(exposition, "Slice", Impatient)
    for number in range(200):
        _queue(api, f"q{number}")
    _families(api, "/metrics/detailed?family=queue_coarse_metrics")
    # Labels first, then three families.
    assert rests == 4 * 200 / 8


def test_who_may_see_it(api: Api) -> None:
    """Metrics name every queue of every virtual host: they are for those who may monitor all of them."""
    for path in ENDPOINTS:
        assert api.get(path, by="monitoring").status_code == 200
        assert api.get(path, by="management").status_code == 401
        assert api.get(path, by=None).status_code == 401


def test_who_may_see_it_where_it_is_open() -> None:
    """Anybody, and nothing else."""
    api = Api(open_to_all(ROUTES))
    for path in ENDPOINTS:
        assert api.get(path, by=None).status_code == 200
    assert api.get("/api/overview", by=None).status_code == 401


_PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(_PROMTOOL is None, reason="promtool (Debian's package prometheus) is not installed")
@pytest.mark.parametrize("path", ENDPOINTS)
def test_promtool_has_no_objection(api: Api, path: str) -> None:
    """Prometheus' own judge of names, types and help; it would have one name of RabbitMQ's be another."""
    assert _PROMTOOL is not None
    _queue(api, "q")
    arguments = [_PROMTOOL, "check", "metrics"]
    judged = subprocess.run(  # noqa: S603 - our own command
        arguments, input=api.get(path).text, text=True, capture_output=True, check=False
    )
    objections = [line for line in judged.stderr.splitlines() if "rabbitmq_unreachable_cluster_peers_count" not in line]
    assert objections == []


def test_a_cluster(api: Api) -> None:
    """Without a cluster there are no metrics of one; in a cluster, they are its numbers, and those of each node."""
    before = _samples(api, "/metrics")
    assert not any(name.startswith("flintmq_cluster_") for name, _ in before)
    assert before["rabbitmq_unreachable_cluster_peers_count", ()] == 0
    api.node.cluster = three_nodes("a")
    api.node.shortage = "1 node is in sync"
    found = _samples(api, "/metrics")
    assert _samples(api, "/metrics/per-object").keys() >= {
        key for key in found if key[0].startswith("flintmq_cluster_")
    }
    assert {name.removeprefix("flintmq_cluster_"): value for (name, labels), value in found.items()
            if name.startswith("flintmq_cluster_") and not labels} == {
        "term": 7, "nodes": 3, "nodes_in_sync": 1, "min_in_sync": 2, "shortage": 1,
    }  # fmt: skip
    of_nodes = {
        name: {labels[0][1]: value for (each, labels), value in found.items() if each == f"flintmq_cluster_node_{name}"}
        for name in ("is_leader", "is_alive", "is_in_sync", "behind_bytes", "behind_seconds")
    }
    assert of_nodes == {
        "is_leader": {"flintmq@b": 0, "flintmq@c": 0, "flintmq@test": 1},
        "is_alive": {"flintmq@b": 1, "flintmq@c": 0, "flintmq@test": 1},
        "is_in_sync": {"flintmq@b": 0, "flintmq@c": 0, "flintmq@test": 1},
        "behind_bytes": {"flintmq@b": 300, "flintmq@test": 0},
        "behind_seconds": {"flintmq@b": 0.25, "flintmq@test": 0},
    }
    assert found["rabbitmq_unreachable_cluster_peers_count", ()] == 1
    (identity,) = [dict(labels) for name, labels in found if name == "rabbitmq_identity_info"]
    assert (identity["rabbitmq_node"], identity["rabbitmq_cluster"]) == ("flintmq@test", "c1")
