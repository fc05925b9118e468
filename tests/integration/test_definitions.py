"""Definitions as an operator brings them: by a file at the start, by the command line, and what clients find then."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ProbableAccessDeniedError, ProbableAuthenticationError

from tests.commands import run_here
from tests.servers import BrokerProcess, command, environment
from tests.waiting import wait_until

EXPORT = Path(__file__).parents[1] / "unit/management/definitions/rabbitmq.json"
SETTINGS = f"""
[definitions]
load = "{EXPORT}"
[[vhosts]]
name = "strict"
dialect = "strict"
[[users]]
name = "anna"
password = "anna's"
tags = ["administrator"]
vhosts = ["/", "strict", "shop"]
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that began with RabbitMQ's export and a few settings."""
    directory = tmp_path_factory.mktemp("definitions")
    file = directory / "flintmq.toml"
    file.write_text(SETTINGS)
    with BrokerProcess(directory / "data", "--config", str(file)) as running:
        yield running


def connect(broker: BrokerProcess, user: str, password: str, vhost: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.port, vhost, pika.PlainCredentials(user, password))
    )


@pytest.fixture
def orders(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    """A channel of the user who may do what the export says."""
    connection = connect(broker, "orders", "orders-secret", "shop")
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.mark.parametrize(
    ("user", "password", "vhost"),
    [("orders", "orders-secret", "shop"), ("billing", "billing-secret", "shop"), ("old", "old-secret", "/")],
)
def test_imported_passwords(broker: BrokerProcess, user: str, password: str, vhost: str) -> None:
    """Users log in with the passwords they have at RabbitMQ, by each of its hashes, again and again; by no other."""
    for _ in range(2):
        connect(broker, user, password, vhost).close()
    for wrong in ("", password.upper()):
        with pytest.raises(ProbableAuthenticationError, match="ACCESS_REFUSED - Login was refused"):
            connect(broker, user, wrong, vhost)


def test_a_user_without_a_password(broker: BrokerProcess) -> None:
    """Nobody logs in as a user who has no password, not even with none."""
    for password in ("", "x"):
        with pytest.raises(ProbableAuthenticationError):
            connect(broker, "certificate-only", password, "/")


def test_closed_vhosts(broker: BrokerProcess) -> None:
    """A virtual host is closed to whom it says nothing of."""
    with pytest.raises(ProbableAccessDeniedError) as caught:
        connect(broker, "old", "old-secret", "shop")
    assert "(530) \"NOT_ALLOWED - access to vhost 'shop' refused for user 'old'\"" in str(caught.value)


def test_imported_topology(broker: BrokerProcess, orders: BlockingChannel) -> None:
    """A message goes the way the export says: to a queue, and through an exchange to a stream."""
    orders.confirm_delivery()
    orders.basic_publish(
        "orders.events", "orders.created.1", b"new", pika.BasicProperties(headers={"kind": "audit"}), mandatory=True
    )
    found = orders.basic_get("orders.new", auto_ack=True)
    assert found[2] == b"new"
    reader = connect(broker, "anna", "anna's", "shop").channel()
    assert reader.queue_declare("orders.log", passive=True).method.message_count == 1


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("queue_declare", {"queue": "mine"}, "configure access to queue 'mine'"),
    ("queue_delete", {"queue": "legacy.orders"}, "configure access to queue 'legacy.orders'"),
    ("queue_purge", {"queue": "legacy.orders"}, "read access to queue 'legacy.orders'"),
    ("queue_bind", {"queue": "legacy.orders", "exchange": "orders.dead"}, "write access to queue 'legacy.orders'"),
    ("queue_bind", {"queue": "orders.new", "exchange": "amq.fanout"}, "read access to exchange 'amq.fanout'"),
    ("queue_unbind", {"queue": "orders.new", "exchange": "amq.fanout"}, "read access to exchange 'amq.fanout'"),
    ("exchange_declare", {"exchange": "mine"}, "configure access to exchange 'mine'"),
    ("exchange_delete", {"exchange": "mine"}, "configure access to exchange 'mine'"),
    ("exchange_bind", {"destination": "amq.fanout", "source": "orders.dead"}, "write access to exchange 'amq.fanout'"),
    ("exchange_unbind", {"destination": "orders.dead", "source": "amq.fanout"}, "read access to exchange 'amq.fanout'"),
    ("basic_get", {"queue": "legacy.orders"}, "read access to queue 'legacy.orders'"),
    ("basic_consume", {"queue": "legacy.orders", "on_message_callback": print}, "read access to queue 'legacy.orders'"),
    (
        "queue_declare",
        {"queue": "orders.x", "arguments": {"x-dead-letter-exchange": "amq.fanout"}},
        "write access to exchange 'amq.fanout'",
    ),
    (
        "exchange_declare",
        {"exchange": "orders.x", "arguments": {"alternate-exchange": "amq.fanout"}},
        "write access to exchange 'amq.fanout'",
    ),
]


@pytest.mark.parametrize(("method", "arguments", "words"), REFUSED)
def test_what_a_client_is_refused(orders: BlockingChannel, method: str, arguments: dict[str, Any], words: str) -> None:
    """A real client is told which permission it lacks, and loses its channel and nothing else."""
    with pytest.raises(ChannelClosedByBroker) as caught:
        getattr(orders, method)(**arguments)
    assert caught.value.reply_code == 403
    assert caught.value.reply_text == f"ACCESS_REFUSED - {words} in vhost 'shop' refused for user 'orders'"
    assert orders.connection.is_open


@pytest.mark.parametrize(
    ("exchange", "key", "words"),
    [
        ("amq.fanout", "", "write access to exchange 'amq.fanout' in vhost 'shop'"),
        ("orders.events", "billing.x", "write access to topic 'billing.x' in exchange topic 'orders.events' in vhost"),
    ],
)
def test_publishes_that_are_refused(orders: BlockingChannel, exchange: str, key: str, words: str) -> None:
    """So is a publisher."""
    orders.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker, match=f"ACCESS_REFUSED - {words}"):
        orders.basic_publish(exchange, key, b"")


def test_imported_policies(broker: BrokerProcess) -> None:
    """A policy of the export is in force."""
    channel = connect(broker, "anna", "anna's", "shop").channel()
    channel.queue_declare("limited", durable=True, arguments={"x-queue-type": "classic", "x-max-length": 1})
    for body in (b"1", b"2"):
        channel.basic_publish("", "limited", body)
    assert channel.queue_declare("limited", passive=True).method.message_count == 1
    # What was too many went where the policy sends it, which has a fanout exchange of its own.
    channel.queue_declare("dead", durable=True, arguments={"x-queue-type": "classic"})
    channel.queue_bind("dead", "orders.dead")
    channel.basic_publish("", "limited", b"3")
    # What is behind the publish may be looked for before the tick has ended that dead-letters.
    wait_until(lambda: channel.queue_declare("dead", passive=True).method.message_count > 0)
    assert channel.basic_get("dead", auto_ack=True)[2] == b"2"


def test_a_strict_vhost(broker: BrokerProcess) -> None:
    """A virtual host of the settings has the dialect they say."""
    channel = connect(broker, "anna", "anna's", "strict").channel()
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        channel.queue_delete("missing")


# -- the command line ---------------------------------------------------------------------------------------------


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return run_here("definitions", *arguments)


def test_import_and_export(tmp_path: Path) -> None:
    """What is imported into a stopped broker is there when it runs, and is exported again, messages left alone."""
    data, file = tmp_path / "data", tmp_path / "exported.json"
    ran = run("import", str(EXPORT), "--data", str(data))
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr.startswith("flintmq: the federation-upstream 'elsewhere' is kept")
    with BrokerProcess(data) as broker:
        channel = connect(broker, "orders", "orders-secret", "shop").channel()
        channel.confirm_delivery()
        channel.basic_publish("", "orders.new", b"kept", pika.BasicProperties(delivery_mode=2), mandatory=True)
        while_running = run("export", "--data", str(data))
        assert while_running.returncode == 1
        assert "flintmq: " in while_running.stderr
        broker.stop()
        assert run("export", str(file), "--data", str(data)).returncode == 0
        assert (file.stat().st_mode & 0o777) == 0o600
        exported = json.loads(file.read_text())
        original = json.loads(EXPORT.read_text())
        hashes, originals = _hashes(exported), _hashes(original)
        # Whoever logged in has a hash of ours from then on.
        assert hashes.pop("orders").startswith("$argon2id$")
        assert originals.pop("orders") != ""
        assert hashes == originals
        assert {queue["name"] for queue in exported["queues"]} == {"orders.new", "legacy.orders", "orders.log"}
        assert run("import", str(file), "--data", str(data)).returncode == 0
        broker.start()
        channel = connect(broker, "orders", "orders-secret", "shop").channel()
        assert channel.basic_get("orders.new", auto_ack=True)[2] == b"kept"


def _hashes(document: dict[str, Any]) -> dict[str, str]:
    return {user["name"]: user["password_hash"] for user in document["users"]}


def test_a_mistake_leaves_everything(tmp_path: Path) -> None:
    """A file with a mistake anywhere brings nothing, by either way, and is a usage error."""
    data, file = tmp_path / "data", tmp_path / "wrong.json"
    file.write_text(
        json.dumps(
            {
                "vhosts": [{"name": "new"}],
                "bindings": [{"source": "amq.direct", "vhost": "new", "destination": "missing"}],
            }
        )
    )
    words = f"flintmq: {file}: bindings[0] ('amq.direct to missing in new'): no queue 'missing' in vhost 'new'\n"
    ran = run("import", str(file), "--data", str(data))
    assert (ran.returncode, ran.stderr) == (2, words)
    served = subprocess.run(  # noqa: S603 - our own command
        command("serve", "--port", "0", "--data", str(data)),
        env=environment(FLINTMQ_DEFINITIONS_LOAD=str(file)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert served.returncode == 2
    # Behind what it logged of its start.
    assert served.stderr.endswith("\n" + words)
    assert "Traceback" not in served.stderr
    assert json.loads(run("export", "--data", str(data)).stdout)["vhosts"] == []


def test_there_is_nothing_to_export(tmp_path: Path) -> None:
    """A directory that is not there is not made by looking into it."""
    ran = run("export", "--data", str(tmp_path / "missing"))
    assert ran.returncode == 2
    assert "there is no data directory" in ran.stderr
    assert not (tmp_path / "missing").exists()
