"""Commands against an API that answers what it is told to: what they ask, what they print, and their statuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from flintmq.base.errors import FlintError
from flintmq.cli import top
from flintmq.cli.exits import exit_code
from flintmq.cli.main import app
from flintmq.cli.tables import table_of
from tests.unit.cli.stub import StubApi

PAGE = "page=1&page_size=500"


def run(stub: StubApi, *arguments: str) -> str:
    """What it prints; raises what it fails with."""
    ran = CliRunner().invoke(app, list(arguments), env={"FLINTMQ_API": stub.url}, terminal_width=200)
    if isinstance(ran.exception, FlintError):
        raise ran.exception
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ("vhost add v --description text --tag a --tag b", ("PUT vhosts/v", {"description": "text", "tags": "a,b"})),
        ("vhost delete v --yes", ("DELETE vhosts/v", None)),
        ("user delete u", ("DELETE users/u", None)),
        (
            "permission set u --configure ^$ --write .* --read ^a",
            ("PUT permissions/%2F/u", {"configure": "^$", "write": ".*", "read": "^a"}),
        ),
        ("permission clear u --vhost v", ("DELETE permissions/v/u", None)),
        (
            'policy set p ^q {"max-length":1} --apply-to queues',
            (
                "PUT policies/%2F/p",
                {"pattern": "^q", "definition": {"max-length": 1}, "apply-to": "queues", "priority": 0},
            ),
        ),
        (
            'policy set p ^q {"max-length":1} --operator --priority 2',
            (
                "PUT operator-policies/%2F/p",
                {"pattern": "^q", "definition": {"max-length": 1}, "apply-to": "queues", "priority": 2},
            ),
        ),
        ("policy clear p", ("DELETE policies/%2F/p", None)),
        ("limit set max-queues 10 --vhost /", ("PUT vhost-limits/%2F/max-queues", {"value": 10})),
        ("limit clear max-channels --user u", ("DELETE user-limits/u/max-channels", None)),
        ("close-connection 127.0.0.1:1", ("DELETE connections/127.0.0.1%3A1", None)),
        ("forget-resumable-link 12 --vhost v --yes", ("DELETE resumable-links/v/12", None)),
    ],
)
def test_what_is_asked_for(arguments: str, asked: object) -> None:
    """Each command is one request, of RabbitMQ's shape."""
    with StubApi() as stub:
        assert run(stub, *arguments.split()) == ""
        assert stub.asked == [asked]


def test_passwords_come_from_files(tmp_path: Path) -> None:
    """A new user's password stands in a file; tags can change without it, and it without them."""
    file = tmp_path / "password"
    file.write_text("n3w\n")
    known = {"tags": ["management"], "password_hash": "h", "hashing_algorithm": "argon2id"}
    with StubApi({"GET users/u": (200, known)}) as stub:
        run(stub, "user", "add", "u", "--tag", "administrator", "--new-password-file", str(file))
        run(stub, "user", "password", "u", "--new-password-file", str(file))
        run(stub, "user", "tags", "u", "monitoring")
        assert [each for each in stub.asked if each[0].startswith("PUT")] == [
            ("PUT users/u", {"password": "n3w", "tags": "administrator"}),
            ("PUT users/u", {"password": "n3w", "tags": ["management"]}),
            ("PUT users/u", {"password_hash": "h", "hashing_algorithm": "argon2id", "tags": "monitoring"}),
        ]


QUEUE: dict[str, Any] = {
    "vhost": "/",
    "name": "[bold]a\x1b[31m\n",
    "type": "classic",
    "messages_ready": 12345,
    "message_bytes": 1500,
    "message_stats": {"publish_details": {"rate": 2.5}},
    "arguments": {"x-max-length": 1},
}


def test_lists_for_people_and_programs() -> None:
    """A table has headings and units, and what clients chose as names does no harm; JSON is what the API said."""
    answer = {"items": [QUEUE], "filtered_count": 1, "page_count": 1}
    with StubApi({f"GET queues?{PAGE}": (200, answer)}) as stub:
        table = run(stub, "list-queues")
        for words in ("ready", "[bold]a\\x1b[31m\\n", "12,345", "1.5 KiB", "2.5/s", "x-max-length=1"):
            assert words in table
        assert json.loads(run(stub, "list-queues", "--json")) == [QUEUE]


def test_lists_of_one_virtual_host() -> None:
    """The path has it as one part."""
    with StubApi({f"GET exchanges/%2F?{PAGE}": (200, [])}) as stub:
        run(stub, "list-exchanges", "--vhost", "/")


def test_streams_with_what_is_in_them() -> None:
    """A stream has its size on the disk, and its offsets."""
    stream = QUEUE | {"name": "s", "type": "stream", "segments": 3, "first_offset": 17, "next_offset": 2345}
    with StubApi({f"GET streams/%2F?{PAGE}": (200, [stream])}) as stub:
        table = run(stub, "list-streams", "--vhost", "/")
        for words in ("1.5 KiB", "segments", "17", "2,345"):
            assert words in table


def test_status_names_alarms() -> None:
    """The page has counts and rates; an alarm is the status 1, for scripts."""
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


@pytest.mark.parametrize(("status", "code"), [(401, 4), (404, 5), (400, 1)])
def test_statuses(status: int, code: int) -> None:
    """A script can tell a missing right from a missing thing."""
    with StubApi({"DELETE users/u": (status, {})}) as stub:
        with pytest.raises(FlintError) as caught:
            run(stub, "user", "delete", "u")
        assert exit_code(caught.value) == code


@pytest.mark.parametrize(
    "arguments", ["policy set p q {", "limit set max-queues 1", "limit set max-queues 1 --vhost v --user u"]
)
def test_wrong_calls(arguments: str) -> None:
    """What is wrong with a call is said before the broker is asked, with the status of a wrong call."""
    with StubApi() as stub:
        with pytest.raises(FlintError) as caught:
            run(stub, *arguments.split())
        assert exit_code(caught.value) == 2
        assert stub.asked == []


def test_every_command_is_there() -> None:
    """The table of commands names files and functions that exist, and each says what it does."""
    root: Any = get_command(app)
    for name, command in root.commands.items():
        each = {name: command} | {f"{name} {word}": sub for word, sub in getattr(command, "commands", {}).items()}
        assert all(found.help for found in each.values()), each


def test_top_shows_the_busiest() -> None:
    """The broker sorts and sends one page; a look has its queues and the broker's rates, or is a line of JSON."""
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
    """Names are whole, beside the figures that matter most, what was asked for, and what tells queues apart."""
    rates = {key: {"rate": 1_234_567.0} for key in ("publish_details", "deliver_get_details", "ack_details")}
    figures = {"messages_ready": 1_234_567, "messages_unacknowledged": 12_345, "message_bytes": 10**9, "consumers": 3}
    queues = [{"vhost": vhost, "name": "warehouse.shipments", "message_stats": rates} | figures for vhost in vhosts]
    console = Console(width=80, no_color=True)
    with console.capture() as captured:
        console.print(table_of(queues, top._columns(top.Order(order), queues), 80))
    assert captured.get().split("\u2500")[0].split() == headings.split()
    assert captured.get().count("warehouse.shipments") == 2
    assert captured.get().count("1,234,567/s") == 4


def test_definitions_of_a_broker_that_runs(tmp_path: Path) -> None:
    """They come and go by the API; a file with hashes in it is its owner's only."""
    file = tmp_path / "definitions.json"
    with StubApi({"GET definitions": (200, {"users": []})}) as stub:
        run(stub, "definitions", "export", str(file), "--live")
        assert json.loads(file.read_text()) == {"users": []}
        assert file.stat().st_mode & 0o077 == 0
        run(stub, "definitions", "import", str(file), "--live")
        assert stub.asked[-1] == ("POST definitions", {"users": []})
        file.write_text("[]")
        with pytest.raises(FlintError, match="has no definitions in it"):
            run(stub, "definitions", "import", str(file), "--live")


@pytest.mark.parametrize(("words", "expected"), [("list-q", ["list-queues"]), ("user ", ["add", "delete", "password"])])
def test_shells_complete_commands(words: str, expected: list[str]) -> None:
    """What a shell asks for, it is told: commands that are read only when they are called, too."""
    environment = {"_FLINTMQ_COMPLETE": "complete_bash", "COMP_WORDS": f"flintmq {words}", "COMP_CWORD": "1"}
    if " " in words:
        environment["COMP_CWORD"] = "2"
    ran = CliRunner().invoke(app, [], prog_name="flintmq", env=environment)
    assert ran.stdout.split()[: len(expected)] == expected
