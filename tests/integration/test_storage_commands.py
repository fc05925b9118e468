"""`flintmq storage`: what operators see of a broker's data, and how it comes back from a backup."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flintmq.client as fc
from tests.commands import run_here
from tests.servers import BrokerProcess, command, environment

HEADERS = {"tenant": "a", "numbers": [1, 2.5], "raw": b"\xff"}


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return run_here("storage", *map(str, arguments))


def as_json(*arguments: object) -> Any:  # noqa: ANN401 - whatever the command says
    ran = run(*arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def dumped(*arguments: object) -> list[dict[str, Any]]:
    ran = run("dump", *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Two queues, 100 messages each, of which 40 of the first were taken; a stream of 10."""
    with BrokerProcess(Path(tmp_path_factory.mktemp("storage")) / "data") as running:
        with fc.connect(running.url) as connection:
            channel = connection.channel(confirms=True)
            channel.declare_queue("orders")
            channel.declare_queue("bills")
            channel.declare_queue("log", arguments={"x-queue-type": "stream"})
            properties = fc.encode_properties(
                fc.Properties(delivery_mode=2, content_type="text/plain", priority=3, headers=dict(HEADERS))
            )
            for queue, count in (("orders", 100), ("bills", 100), ("log", 10)):
                channel.publish_batch(("", queue, f"{queue} {n} ü".encode(), properties) for n in range(count))
            channel.publish_batch([fc.Publish("", "bills", b"\x80\x81", properties)])
            for _ in range(40):
                taken = channel.get("orders")
                assert taken is not None
                channel.ack(taken.delivery_tag)
            # What is confirmed behind acknowledgements says that these are synced.
            channel.publish_batch([fc.Publish("", "orders", b"last", properties)])
        yield running


def test_a_dump_is_what_was_published(broker: BrokerProcess) -> None:
    """Each message that is on a queue, with all a publisher said, and none that was taken; without taking any."""
    orders = dumped(broker.data, "--queue", "orders")
    assert [line["body"] for line in orders] == [*(f"orders {n} ü" for n in range(40, 100)), "last"]
    assert dumped(broker.data, "--queue", "orders") == orders
    first = orders[0]
    assert (first["vhost"], first["queue"], first["exchange"], first["routing_key"]) == ("/", "orders", "", "orders")
    assert first["properties"] == {"content_type": "text/plain", "delivery_mode": 2, "priority": 3}
    assert first["headers"] == {"tenant": "a", "numbers": [1, 2.5], "raw": {"$bytes": "/w=="}}
    assert [line["seq"] for line in orders] == sorted({line["seq"] for line in orders})
    assert dumped(broker.data, "--queue", "bills")[-1]["body_base64"] == "gIE="
    stream = dumped(broker.data, "--queue", "log")
    assert [(line["offset"], line["body"]) for line in stream] == [(n, f"log {n} ü") for n in range(10)]
    assert len(dumped(broker.data)) == 61 + 101 + 10
    assert len(dumped(broker.data, "--limit", 7)) == 7


def test_a_dump_of_records_has_what_was_settled_too(broker: BrokerProcess) -> None:
    """Every record that the files have, and where it is."""
    records = dumped(broker.data, "--records", "--queue", "orders")
    assert sum(len(line["places"]) for line in records if line["record"] == "message") == 101
    settled = [each["length"] for line in records if line["record"] == "settlement" for each in line["ranges"]]
    assert sum(settled) == 40
    assert all(line["file"].startswith("journal/") and line["position"] > 64 for line in records)


def test_a_dump_ends_when_its_reader_has_seen_enough(broker: BrokerProcess) -> None:
    """`| head` is no error."""
    with subprocess.Popen(  # noqa: S603 - our own command
        command("storage", "dump", str(broker.data)),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_backup_comes_back(broker: BrokerProcess, tmp_path: Path) -> None:
    """Taken of a running broker, verified, restored, and served: with users, queues, messages and offsets."""
    taken = as_json("backup", broker.data, tmp_path / "backup")
    assert taken["files"] >= 3
    verified = as_json("verify", tmp_path / "backup")
    assert (verified["intact"], verified["messages"], verified["stream_records"]) == (True, 162, 10)
    ran = run("restore", tmp_path / "backup", tmp_path / "data")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1] == "intact"
    with BrokerProcess(tmp_path / "data") as restored, fc.connect(restored.url) as connection:
        channel = connection.channel()
        assert channel.declare_queue("orders", passive=True).message_count == 61
        taken = channel.get("orders")
        assert taken is not None
        assert taken.body.decode() == "orders 40 ü"


def test_lost_definitions_are_rebuilt(tmp_path: Path) -> None:
    """Queues come back with names, arguments and messages; users do not, so the default one may come in again."""
    with BrokerProcess(tmp_path / "data") as broker:
        with fc.connect(broker.url) as connection:
            channel = connection.channel(confirms=True)
            arguments = {"x-max-length": 5, "x-queue-type": "classic"}
            channel.declare_queue("orders", arguments=arguments)
            channel.declare_queue("log", arguments={"x-queue-type": "stream"})
            channel.declare_exchange("late", "x-delayed-message", arguments={"x-delayed-type": "direct"})
            channel.bind("orders", "late", "k")
            properties = fc.Properties(delivery_mode=2)
            channel.publish_batch([fc.Publish("", queue, b"precious", properties) for queue in ("orders", "log")])
            later = fc.Properties(delivery_mode=2, headers={"x-delay": 3_600_000})
            channel.publish_batch([fc.Publish("late", "k", b"held", later)])
        broker.kill()
        for path in broker.data.glob("definitions.sqlite*"):
            path.unlink()
        ran = run("backup", broker.data, tmp_path / "backup")
        assert (ran.returncode, "restore it from a backup" in ran.stderr) == (1, True)
        ran = run("rebuild", broker.data)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert "rebuilt 1 vhost, 1 exchange, 3 queues" in ran.stdout
        assert "users, permissions, policies and bindings are lost" in ran.stdout
        assert as_json("verify", broker.data)["messages"] == 2
        broker.start()
        with fc.connect(broker.url) as connection:
            channel = connection.channel()
            assert channel.declare_queue("orders", arguments=arguments).message_count == 1
            assert channel.declare_queue("log", passive=True).message_count == 1
            channel.declare_exchange("late", "x-delayed-message", arguments={"x-delayed-type": "direct"})
        broker.stop()
        ran = run("rebuild", broker.data)
        assert (ran.returncode, "no need" in ran.stderr) == (1, True)


def test_a_start_removes_what_a_killed_backup_left(tmp_path: Path) -> None:
    """Second names of files would keep these on the disk for ever."""
    left = tmp_path / "data" / ".backup-1"
    left.mkdir(parents=True)
    (left / "1").touch()
    with BrokerProcess(tmp_path / "data"):
        assert not left.exists()


def test_progress_is_shown_on_a_terminal(broker: BrokerProcess) -> None:
    """And goes when the work is done; the verdict stays."""
    ours, theirs = os.openpty()
    ran = subprocess.run(  # noqa: S603 - our own command
        command("storage", "verify", str(broker.data)),
        env=environment(TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "Reading" in shown
    assert ran.stdout.endswith(b"intact\n")


def test_a_running_broker_is_verified(broker: BrokerProcess) -> None:
    """It is no error that it writes, and it shows."""
    report = as_json("verify", broker.data)
    assert (report["running"], report["backup"], report["intact"], report["messages"]) == (True, False, True, 162)
    assert "written to" in {file["state"] for file in report["files"]}
    assert "162 messages on queues, 10 records in streams\nintact\n" in run("verify", broker.data).stdout


def test_a_spoiled_backup_is_refused(broker: BrokerProcess, tmp_path: Path) -> None:
    """A byte in any file is found, by `verify` and by `restore`, which leaves nothing then."""
    backup = tmp_path / "backup"
    as_json("backup", broker.data, backup)
    for path in sorted(path for path in backup.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :])
        assert run("verify", backup).returncode == 1, path
        refused = run("restore", backup, tmp_path / "data")
        assert refused.returncode == 1, path
        assert refused.stderr.count("\n") == 1
        assert [left.name for left in (tmp_path / "data").glob("*")] in ([], ["lock"])
        path.write_bytes(whole)
    (backup / "journal" / "more").touch()
    assert "the file is not of this backup" in run("verify", backup).stdout
    (backup / "journal" / "more").unlink()
    assert run("restore", backup, tmp_path / "data").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("verify", "{empty}"), "is not a data directory of FlintMQ"),
        (("verify", "{empty}/none"), "there is no directory"),
        (("dump", "{data}", "--queue", "none"), "no durable queue 'none' in vhost '/'"),
        (("dump", "{data}", "--queue", "orders", "--vhost", "v"), "no durable queue 'orders' in vhost 'v'"),
        (("backup", "{empty}", "{empty}/b"), "is not a data directory"),
        (("backup", "{data}", "{data}/b"), "outside"),
        (("backup", "{data}", "{full}"), "not empty"),
        (("restore", "{data}", "{empty}/new"), "is not a backup"),
        (("restore", "{backup}", "{data}"), "in use by another broker"),
        (("restore", "{backup}", "{full}"), "not empty (it contains file)"),
    ],
)
def test_refusals_are_one_line(broker: BrokerProcess, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    """What is wrong, and what to do, without a traceback; and nothing was written."""
    places = {"data": broker.data}
    for name in ("empty", "full"):
        places[name] = tmp_path / name
        places[name].mkdir()
    (places["full"] / "file").touch()
    places["backup"] = tmp_path / "backup"
    if "{backup}" in arguments:
        as_json("backup", broker.data, places["backup"])
    ran = run(*(argument.format(**places) for argument in arguments))
    assert ran.returncode == 1
    assert words in ran.stderr
    assert ran.stderr.startswith("flintmq: ")
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == ""
    assert list(places["empty"].iterdir()) == []
