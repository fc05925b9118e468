"""The commands `list-<noun>` against a stub of the API."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from flintmq.cli.main import app
from tests.unit.cli.stub import QUEUE, StubApi, run

PAGE = "page=1&page_size=500"


def test_lists_for_people_and_programs() -> None:
    """A table has headings and units and escapes names; JSON is the answer of the API."""
    answer = {"items": [QUEUE], "filtered_count": 1, "page_count": 1}
    with StubApi({f"GET queues?{PAGE}": (200, answer)}) as stub:
        table = run(stub, "list-queues")
        for words in ("ready", "[bold]a\\x1b[31m\\n", "12,345", "1.5 KiB", "2.5/s", "x-max-length=1"):
            assert words in table
        assert json.loads(run(stub, "list-queues", "--json")) == [QUEUE]


@pytest.mark.parametrize(
    ("noun", "path"),
    [
        ("exchanges", "exchanges/%2F"),
        ("connections", "vhosts/%2F/connections"),
        ("channels", "vhosts/%2F/channels"),
    ],
)
def test_lists_of_one_virtual_host(noun: str, path: str) -> None:
    """The path has the virtual host as one part, at the place where RabbitMQ's API has it."""
    with StubApi({f"GET {path}?{PAGE}": (200, [])}) as stub:
        run(stub, f"list-{noun}", "--vhost", "/")
        assert stub.asked == [(f"GET {path}?{PAGE}", None)]


def test_streams_with_what_is_in_them() -> None:
    """`list-streams` shows sizes, segments and offsets."""
    stream = QUEUE | {"name": "s", "type": "stream", "segments": 3, "first_offset": 17, "next_offset": 2345}
    with StubApi({f"GET streams/%2F?{PAGE}": (200, [stream])}) as stub:
        table = run(stub, "list-streams", "--vhost", "/")
        for words in ("1.5 KiB", "segments", "17", "2,345"):
            assert words in table


def test_a_list_is_read_in_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal of 80 columns, names of queues stay on one line, and the columns that do not fit are named."""
    rates = {key: {"rate": 12.0} for key in ("publish_details", "deliver_get_details")}
    figures = {"messages_ready": 5, "messages_unacknowledged": 1, "message_bytes": 10**6, "consumers": 3}
    common = {"vhost": "/", "type": "classic", "state": "running", "message_stats": rates, "policy": "short"}
    queues = [{"name": name, **common, **figures} for name in ("orders", "warehouse.shipments")]
    monkeypatch.setattr("flintmq.cli.tables.console_for_tables", lambda: Console(width=80, no_color=True))
    with StubApi({f"GET queues?{PAGE}": (200, queues)}) as stub:
        printed = CliRunner().invoke(app, ["list-queues"], env={"FLINTMQ_API": stub.url})
    assert max(map(len, printed.stdout.splitlines())) <= 80
    rows = [line.split() for line in printed.stdout.splitlines()]
    assert ["/", "orders", "classic", "running", "5", "1"] in [row[:6] for row in rows]
    assert ["/", "warehouse.shipments"] in [row[:2] for row in rows]
    assert "Columns that do not fit:" in printed.stderr
    assert "consumers, policy" in printed.stderr
