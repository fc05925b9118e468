"""Commands of several nouns against a stub of the API: their requests and their exit codes."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from flintmq.base.errors import FlintError
from flintmq.cli import commands
from flintmq.cli.main import app, exit_code
from tests.unit.cli.stub import StubApi, run


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
    """Each command sends one request, as RabbitMQ's API defines it."""
    with StubApi() as stub:
        assert run(stub, *arguments.split()) == ""
        assert stub.asked == [asked]


@pytest.mark.parametrize(("status", "code"), [(401, 4), (404, 5), (400, 1)])
def test_statuses(status: int, code: int) -> None:
    """A script can distinguish a missing permission from a missing object."""
    with StubApi({"DELETE users/u": (status, {})}) as stub:
        with pytest.raises(FlintError) as caught:
            run(stub, "user", "delete", "u")
        assert exit_code(caught.value) == code


@pytest.mark.parametrize(
    "arguments", ["policy set p q {", "limit set max-queues 1", "limit set max-queues 1 --vhost v --user u"]
)
def test_wrong_calls(arguments: str) -> None:
    """Wrong arguments are reported with exit code 2 before a request is sent."""
    with StubApi() as stub:
        with pytest.raises(FlintError) as caught:
            run(stub, *arguments.split())
        assert exit_code(caught.value) == 2
        assert stub.asked == []


def test_every_file_with_commands_is_listed() -> None:
    """A file of the package that registers commands is one of those that are imported for them."""
    package = Path(commands.__file__).parent
    found = {file.stem: file.read_text() for file in package.glob("*.py")}
    with_commands = [
        name
        for name, text in found.items()
        if re.search(r"^(@(api_)?command|(vhost_)?list_command)\(", text, re.MULTILINE)
    ]
    assert sorted(with_commands) == sorted(commands._MODULES)


def test_a_new_group_needs_help() -> None:
    """A command of two words says at its registration if its first word is not a known group."""
    with pytest.raises(AssertionError, match="add 'rebalance' with its help text to _GROUPS"):
        commands.command("rebalance queues")


def test_every_command_has_help() -> None:
    """All commands can be loaded, those of two words below the group of their first word, and all have a help text."""
    root: Any = get_command(app)
    for name, command in root.commands.items():
        each = {name: command} | {f"{name} {word}": sub for word, sub in getattr(command, "commands", {}).items()}
        assert all(found.help for found in each.values()), each


@pytest.mark.parametrize(("words", "expected"), [("list-q", ["list-queues"]), ("user ", ["add", "delete", "password"])])
def test_shells_complete_commands(words: str, expected: list[str]) -> None:
    """Shells complete commands and groups, although these are imported only when they are needed."""
    environment = {"_FLINTMQ_COMPLETE": "complete_bash", "COMP_WORDS": f"flintmq {words}", "COMP_CWORD": "1"}
    if " " in words:
        environment["COMP_CWORD"] = "2"
    ran = CliRunner().invoke(app, [], prog_name="flintmq", env=environment)
    assert ran.stdout.split()[: len(expected)] == expected
