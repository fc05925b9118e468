"""RabbitMQ's own command for its management API, in its first version, which asks for everything by HTTP."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest

from tests.servers import BrokerProcess

_SCRIPT = files("rabbitmqadmin") / "upstream" / "rabbitmqadmin_original.py"
Admin = Callable[..., str]


@pytest.fixture
def attempt(broker: BrokerProcess) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run it with some arguments."""

    def attempt(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(_SCRIPT), "-P", str(urlsplit(broker.http_url).port), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - ours

    return attempt


@pytest.fixture
def admin(attempt: Callable[..., subprocess.CompletedProcess[str]]) -> Admin:
    """The same, which has to succeed; returns what it printed."""

    def run(*arguments: str) -> str:
        done = attempt(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    return run


def rows(admin: Admin, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(admin("-f", "raw_json", "list", *arguments))
    return found


def test_a_topology(admin: Admin) -> None:
    """Declared, listed, published to, taken from, purged and deleted."""
    assert admin("declare", "queue", "name=adm", 'arguments={"x-max-length":10}') == "queue declared"
    admin("declare", "exchange", "name=adm.topic", "type=topic")
    admin("declare", "binding", "source=adm.topic", "destination=adm", "routing_key=a.#")
    assert admin("publish", "exchange=adm.topic", "routing_key=a.b", "payload=hello") == "Message published"
    assert admin("publish", "exchange=adm.topic", "routing_key=b", "payload=x") == "Message published but NOT routed"
    assert "hello" in admin("get", "queue=adm", "ackmode=ack_requeue_true")
    (shown,) = [row for row in rows(admin, "queues", "name", "messages", "arguments") if row["name"] == "adm"]
    assert (shown["messages"], shown["arguments"]) == (1, {"x-max-length": 10})
    (binding,) = [row for row in rows(admin, "bindings") if row["source"] == "adm.topic"]
    assert admin("purge", "queue", "name=adm") == "queue purged"
    which = ("source=adm.topic", "destination_type=queue", "destination=adm")
    admin("delete", "binding", *which, f"properties_key={binding['properties_key']}")
    admin("delete", "exchange", "name=adm.topic")
    assert admin("delete", "queue", "name=adm") == "queue deleted"
    assert "adm" not in admin("list", "queues", "name")


def test_administration(admin: Admin) -> None:
    """Virtual hosts, users, permissions, policies and limits."""
    admin("declare", "vhost", "name=adm-v")
    admin("declare", "user", "name=adm-u", "password=secret", "tags=monitoring")
    admin("declare", "permission", "vhost=adm-v", "user=adm-u", "configure=.*", "write=.*", "read=.*")
    admin("declare", "policy", "name=adm-p", "pattern=^adm", 'definition={"max-length":5}', "apply-to=queues")
    admin("declare", "operator_policy", "name=adm-o", "pattern=^adm", 'definition={"expires":60000}', "apply-to=queues")
    admin("declare", "vhost_limit", "vhost=adm-v", "name=max-queues", "value=5")
    listed = {
        kind: [str(row.get("name", row)) for row in rows(admin, kind)]
        for kind in ("vhosts", "users", "permissions", "policies", "operator_policies", "vhost_limits", "nodes")
    }
    assert "adm-v" in listed["vhosts"]
    assert "adm-u" in listed["users"]
    assert listed["policies"] == ["adm-p"]
    assert listed["operator_policies"] == ["adm-o"]
    assert any("max-queues" in row for row in listed["vhost_limits"])
    assert admin("-u", "adm-u", "-p", "secret", "-V", "adm-v", "list", "queues") == "No items"
    admin("delete", "operator_policy", "name=adm-o")
    admin("delete", "policy", "name=adm-p")
    admin("delete", "vhost_limit", "vhost=adm-v", "name=max-queues")
    admin("delete", "permission", "vhost=adm-v", "user=adm-u")
    admin("delete", "user", "name=adm-u")
    admin("delete", "vhost", "name=adm-v")


def test_definitions(admin: Admin, tmp_path: Path) -> None:
    """What it exports, it imports."""
    admin("declare", "queue", "name=adm.kept")
    admin("export", str(tmp_path / "definitions.json"))
    admin("delete", "queue", "name=adm.kept")
    admin("import", str(tmp_path / "definitions.json"))
    assert "adm.kept" in admin("list", "queues", "name")
    admin("delete", "queue", "name=adm.kept")


def test_connections(admin: Admin, broker: BrokerProcess) -> None:
    """Listed with their channels and consumers, and closed, which the client is told."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("adm.consumed", exclusive=True)
    channel.basic_consume("adm.consumed", lambda *_: None, consumer_tag="adm-tag")
    assert all(" -> " in str(row["name"]) for row in rows(admin, "connections", "name"))
    assert any(str(row["name"]).endswith(" (1)") for row in rows(admin, "channels", "name"))
    assert any(row["consumer_tag"] == "adm-tag" for row in rows(admin, "consumers"))
    owner = next(row for row in rows(admin, "queues") if row["name"] == "adm.consumed")["owner_pid_details"]
    assert isinstance(owner, dict)
    admin("close", "connection", f"name={owner['name']}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(60)
    assert (closed.value.reply_code, closed.value.reply_text) == (
        320,
        "CONNECTION_FORCED - Closed via management plugin",
    )


def test_refusals(attempt: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """It understands why, and says so."""
    assert "Not found" in attempt("delete", "queue", "name=adm.none").stderr
    assert "Access refused" in attempt("-u", "guest", "-p", "wrong", "list", "queues").stderr
    refusal = attempt("declare", "exchange", "name=adm.wrong", "type=nonsense")
    assert (refusal.returncode, "nonsense" in refusal.stderr) == (1, True)


def test_overview(admin: Admin) -> None:
    """What it shows of the node."""
    shown = admin("show", "overview")
    assert "queue_totals.messages" in shown
    assert "object_totals.queues" in shown
