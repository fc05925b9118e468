"""`flintmq status` and `flintmq top` against a stub of the API."""

import json
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from flintmq.cli import status
from flintmq.cli.main import app
from flintmq.cli.tables import table_of
from tests.unit.cli.stub import QUEUE, StubApi, run


def test_status_names_alarms() -> None:
    """`status` prints counts and limits; with an alarm, its exit code is 1."""
    overview = {"node": "flintmq@h", "object_totals": {"queues": 3}, "listeners": [{"protocol": "amqp", "port": 5672}]}
    node = {"name": "flintmq@h", "mem_used": 1500, "mem_alarm": False}
    answers: dict[str, Any] = {"GET overview": (200, overview), "GET nodes": (200, [node])}
    with StubApi(answers) as stub:
        shown = run(stub, "status")
        for words in ("flintmq@h", "1.5 KiB", "queues", "amqp on", "none"):
            assert words in shown
        answers["GET nodes"] = (200, [node | {"mem_alarm": True}])
        ran = CliRunner().invoke(app, ["status", "--json"], env={"FLINTMQ_API": stub.url})
        assert ran.exit_code == 1
        assert json.loads(ran.stdout)["alarms"] == ["flintmq@h low on memory"]


def test_status_shows_the_nodes_of_a_cluster() -> None:
    """`status` says which node leads, who is in sync, and how far others are behind; a shortage is an alarm."""
    leader = {"name": "flintmq@a", "running": True, "is_leader": True, "is_in_sync": True, "mem_used": 1500}
    nodes = [
        leader,
        {"name": "flintmq@b", "running": True, "is_leader": False, "is_in_sync": True, "behind_bytes": 0},
        {
            "name": "flintmq@c",
            "running": True,
            "is_leader": False,
            "is_in_sync": False,
            "behind_bytes": 2048,
            "behind_seconds": 1.26,
        },
        {"name": "flintmq@d", "running": False, "is_leader": False, "is_in_sync": False, "behind_bytes": None},
    ]
    overview = {"node": "flintmq@a", "cluster": {"shortage": ""}}
    with StubApi({"GET overview": (200, overview), "GET nodes": (200, nodes)}) as stub:
        lines = [line.split(maxsplit=1)[1] for line in run(stub, "status").splitlines() if line.startswith("  node")]
        assert lines == [
            "flintmq@a: leads",
            "flintmq@b: in sync",
            "flintmq@c: not in sync, 2.0 KiB and 1.3 s behind",
            "flintmq@d: does not run",
        ]
    overview["cluster"] = {"shortage": "1 of 2 nodes in sync"}
    with StubApi({"GET overview": (200, overview), "GET nodes": (200, nodes)}) as stub:
        ran = CliRunner().invoke(app, ["status"], env={"FLINTMQ_API": stub.url})
        assert ran.exit_code == 1
        assert "alarms        1 of 2 nodes in sync" in ran.stdout


def test_top_shows_the_busiest() -> None:
    """`top` asks for one sorted page and shows its queues and the broker's rates, or prints a line of JSON."""
    overview = {"node": "n", "message_stats": {"publish_details": {"rate": 7.0}}, "object_totals": {"queues": 3}}
    query = "page=1&page_size=5&sort=messages_ready&sort_reverse=true"
    answers = {"GET overview": (200, overview), f"GET queues?{query}": (200, {"items": [QUEUE]})}
    with StubApi(answers) as stub:
        shown = run(stub, "top", "--sort", "ready", "--rows", "5", "--times", "1")
        for words in ("in 7.0/s", "3 queues", "12,345"):
            assert words in shown
        lines = run(stub, "top", "--sort", "ready", "--rows", "5", "--times", "2", "--every", "0.5", "--json")
        assert [json.loads(line)["queues"] for line in lines.splitlines()] == [[QUEUE], [QUEUE]]


@pytest.mark.parametrize(
    ("order", "vhosts", "headings"),
    [
        ("in", "//", "queue in out ready unacked"),
        ("in", "/v", "vhost queue in out ready"),
        ("bytes", "//", "queue in out ready bytes"),
    ],
)
def test_top_is_read_in_eighty_columns(order: str, vhosts: str, headings: str) -> None:
    """In 80 columns, `top` shows whole names, the column to sort by, and the virtual host if there are several."""
    rates = {key: {"rate": 1_234_567.0} for key in ("publish_details", "deliver_get_details", "ack_details")}
    figures = {"messages_ready": 1_234_567, "messages_unacknowledged": 12_345, "message_bytes": 10**9, "consumers": 3}
    queues = [{"vhost": vhost, "name": "warehouse.shipments", "message_stats": rates} | figures for vhost in vhosts]
    console = Console(width=80, no_color=True)
    with console.capture() as captured:
        console.print(table_of(queues, status._top_columns(status.Order(order), queues), 80))
    assert captured.get().split("\u2500")[0].split() == headings.split()
    assert captured.get().count("warehouse.shipments") == 2
    assert captured.get().count("1,234,567/s") == 4
