"""The commands that are clients: `flintmq publish` and `flintmq consume` against a running broker."""

import json
import os
import pty
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import flintmq.client
from tests.commands import run_here, run_process
from tests.servers import START_SECONDS, BrokerProcess, command, environment
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("cli"))) as running:
        yield running


def run(broker: BrokerProcess, *arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return run_here(*arguments, text=text, FLINTMQ_URL=broker.url)


def declare(broker: BrokerProcess, queue: str, **arguments: object) -> None:
    with flintmq.client.connect(f"amqp://127.0.0.1:{broker.port}/") as connection:
        connection.channel().declare_queue(queue, arguments=arguments or None)


def test_what_is_published_is_consumed(broker: BrokerProcess) -> None:
    """Bodies come out as they went in, from arguments and from standard input, in order, and once."""
    declare(broker, "cli")
    assert run(broker, "publish", "cli", "first", "second").stderr == "2 confirmed\n"
    assert run(broker, "publish", "cli", text="third\nfourth\n").stderr == "2 confirmed\n"
    assert run(broker, "consume", "cli", "--count", "3").stdout == "first\nsecond\nthird\n"
    assert run(broker, "consume", "cli", "--count", "1").stdout == "fourth\n"
    assert run(broker, "consume", "cli", "--wait", "0.5").stdout == ""


def test_a_stream_is_read_from_an_offset(broker: BrokerProcess) -> None:
    """A stream gives its messages as often as it is asked."""
    declare(broker, "cli-stream", **{"x-queue-type": "stream"})
    run(broker, "publish", "cli-stream", "a", "b", "c")
    for offset, expected in (("first", "a\nb\nc\n"), ("1", "b\nc\n"), ("last", "c\n")):
        ran = run(broker, "consume", "cli-stream", "--offset", offset, "--count", str(len(expected) // 2))
        assert ran.stdout == expected


def test_a_reader_of_a_stream_comes_back(broker: BrokerProcess) -> None:
    """A name stands for what was printed before; a filter leaves out what has no such value."""
    declare(broker, "cli-reader", **{"x-queue-type": "stream"})
    run(broker, "publish", "cli-reader", "a", "b", "c")
    named = ("consume", "cli-reader", "--offset", "first", "--reader", "r")
    assert run(broker, *named, "--count", "2").stdout == "a\nb\n"
    assert run(broker, *named, "--count", "1").stdout == "c\n"
    assert run(broker, "consume", "cli-reader", "--offset", "1h", "--filter", "x", "--wait", "0.5").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("publish", "nowhere", "x"), "NO_ROUTE"),
        (("consume", "nowhere"), "no queue 'nowhere'"),
        (("publish", "q", "x", "--exchange", "nowhere"), "no exchange 'nowhere'"),
        (("consume", "q", "--url", "http://localhost"), "amqp://"),
        (("consume", "q", "--url", "amqp://guest:wrong@127.0.0.1:{port}/"), "Login was refused"),
    ],
)
def test_failures_are_one_line(broker: BrokerProcess, arguments: tuple[str, ...], words: str) -> None:
    """What goes wrong is said in one line without a traceback, and the status is not 0."""
    ran = run_process(*(argument.format(port=broker.port) for argument in arguments), FLINTMQ_URL=broker.url)
    assert ran.returncode != 0
    assert words in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == ""


def answered(broker: BrokerProcess, answer: bytes, *arguments: str) -> int:
    """The status of a command at whose terminal somebody types this."""
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}/%2f"
    try:
        return subprocess.run(  # noqa: S603 - our own command
            command(*arguments), env=environment(FLINTMQ_URL=url), stdin=theirs, capture_output=True, check=False
        ).returncode
    finally:
        os.close(ours)
        os.close(theirs)


def test_what_deletes_messages_asks_first(broker: BrokerProcess) -> None:
    """Purge and delete do nothing unless somebody agrees or --yes is given; without a terminal they say so."""
    declare(broker, "kept")
    run(broker, "publish", "kept", "x")
    for arguments in (("purge", "kept"), ("delete", "queue", "kept"), ("delete", "queue", "kept", "--if-unused")):
        refused = run(broker, *arguments)
        assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
        assert answered(broker, b"n\n", *arguments) == 1
    assert run(broker, "get", "kept", "--requeue").returncode == 0
    assert answered(broker, b"y\n", "purge", "kept") == 0
    assert answered(broker, b"y\n", "delete", "queue", "kept") == 0
    assert "no queue 'kept'" in run(broker, "consume", "kept").stderr


def test_a_topology_is_made_and_unmade(broker: BrokerProcess) -> None:
    """Queues, exchanges and bindings, of exchanges too, come and go by commands; what is there already is no error."""
    for _ in range(2):
        assert run(broker, "declare", "queue", "made", "--argument", "x-max-length=2").returncode == 0
    assert run(broker, "declare", "exchange", "one", "--type", "topic").returncode == 0
    assert run(broker, "declare", "exchange", "two", "--type", "fanout").returncode == 0
    assert run(broker, "bind", "one", "two", "a.*", "--exchange").returncode == 0
    assert run(broker, "bind", "two", "made").returncode == 0
    assert run(broker, "publish", "a.b", "x", "--exchange", "one").stderr == "1 confirmed\n"
    assert run(broker, "delete", "queue", "made", "--if-empty").returncode != 0
    assert run(broker, "purge", "made", "--yes").stderr == "1 message deleted\n"
    assert run(broker, "unbind", "one", "two", "a.*", "--exchange").returncode == 0
    assert "NO_ROUTE" in run(broker, "publish", "a.b", "x", "--exchange", "one").stderr
    assert run(broker, "delete", "exchange", "two", "--if-unused").returncode != 0
    assert run(broker, "unbind", "two", "made").returncode == 0
    assert run(broker, "delete", "exchange", "two", "--if-unused").returncode == 0
    assert run(broker, "delete", "queue", "made", "--if-empty").stderr == "deleted with 0 messages\n"


def test_messages_are_looked_at_and_taken(broker: BrokerProcess) -> None:
    """Browsing takes nothing, getting takes what it prints, unless it gives back; bodies may be no text."""
    declare(broker, "looked-at")
    with flintmq.client.connect(broker.url) as connection:
        channel = connection.channel(confirms=True)
        properties = flintmq.client.Properties(message_id="m", headers={"n": 1, "b": b"\xff"})
        channel.publish(b"text", "", "looked-at", properties)
        channel.publish(b"\xff", "", "looked-at")
        channel.wait_for_confirms()
    for _ in range(2):
        first, second = map(json.loads, run(broker, "browse", "looked-at", "--json").stdout.splitlines())
        assert (first["body"], first["properties"]) == ("text", {"message_id": "m"})
        assert first["headers"] == {"n": 1, "b": {"$bytes": "/w=="}}
        assert second["body_base64"] == "/w=="
    assert "text" in run(broker, "get", "looked-at", "--requeue").stdout
    assert json.loads(run(broker, "get", "looked-at", "--json").stdout)["redelivered"] is True
    assert len(run(broker, "get", "looked-at", "--count", "5", "--json").stdout.splitlines()) == 1
    assert run(broker, "browse", "looked-at", "--json").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("get", "nowhere"), 5),
        (("get", "q", "--url", "amqp://127.0.0.1:1/"), 3),
        (("get", "q", "--url", "amqp://guest:wrong@127.0.0.1:{port}/"), 4),
        (("declare", "queue", "q", "--argument", "x"), 2),
        (("list-queues", "--api", "http://127.0.0.1:1"), 3),
    ],
)
def test_statuses_tell_why(broker: BrokerProcess, arguments: tuple[str, ...], code: int) -> None:
    """A script can tell a broker that is not there from a wrong password, a missing queue and a wrong call."""
    assert run(broker, *(argument.format(port=broker.port) for argument in arguments)).returncode == code


def test_a_password_may_stand_in_a_file(broker: BrokerProcess, tmp_path: Path) -> None:
    """It wins over the URL's, which a list of processes may show."""
    file = tmp_path / "password"
    file.write_text("guest\n")
    url = f"amqp://guest:wrong@127.0.0.1:{broker.port}/"
    declare(broker, "secret")
    assert run(broker, "purge", "secret", "--yes", "--url", url, "--password-file", str(file)).returncode == 0


@pytest.mark.parametrize("flags", [(), ("--transient", "--publishers", "2"), ("--rate", "1000", "--size", "1000")])
def test_a_small_load(broker: BrokerProcess, flags: tuple[str, ...]) -> None:
    """Everything that is published is consumed, whatever the load; without consumers, publishing is all it tells of."""
    ran = run(broker, "bench", "--seconds", "0.5", "--json", *flags)
    figures = json.loads(ran.stdout)
    assert figures["consumed"] == figures["published"] > 0
    assert figures["latency_p99_ms"] >= figures["latency_p50_ms"] > 0
    if "--rate" in flags:
        assert figures["published"] <= 500
    without = run(broker, "bench", "--seconds", "0.1", "--consumers", "0")
    assert without.stdout.startswith("published  ")
    assert without.stdout.count("\n") == 1


def test_a_start_says_what_it_found(tmp_path: Path) -> None:
    """A new directory is called one; later starts say what was on queues and in streams, and how long that took."""
    with BrokerProcess(tmp_path) as starting:
        assert [each["event"] for each in starting.log][:3] == ["FlintMQ", "new data directory", "listening"]
        assert starting.log[1]["data"] == str(tmp_path)
        declare(starting, "one")
        declare(starting, "two")
        declare(starting, "stream", **{"x-queue-type": "stream"})
        run(starting, "publish", "one", "a", "b")
        run(starting, "publish", "stream", "a", "b", "c")
        starting.restart()
        line = starting.wait_for_log("recovered")
        assert [each["event"] for each in starting.log][:4] == ["FlintMQ", "recovering", "recovered", "listening"]
        assert [line[what] for what in ("queues", "messages", "streams", "records")] == [2, 2, 1, 3]
        assert 0 < line["seconds"] < START_SECONDS


def test_a_broker_is_pinged(broker: BrokerProcess) -> None:
    """A health check needs no login: it hears the first word of AMQP, or nothing; other servers are none."""
    # A broker that stands still for four seconds counts as none.
    wait_until(lambda: run(broker, "ping", "--port", str(broker.port)).returncode == 0)
    assert run(broker, "ping", "--port", "1").returncode == 3
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        waiting = threading.Thread(target=lambda: silent.accept()[0].sendall(b"HTTP/1.1"))
        waiting.start()
        assert "does not speak AMQP" in run(broker, "ping", "--port", str(silent.getsockname()[1])).stderr
        waiting.join()


def test_dead_letters_are_found_and_driven_back(broker: BrokerProcess) -> None:
    """Where they lie and why, what is in them, and the way back; others stay, and who finds no room says so."""
    api = broker.wait_for_log("listening", matches=lambda line: "http" in line)["http"]
    url = ("--api", api.replace("http://", "http://guest:guest@"))
    declare(broker, "dead")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(broker, "alive", **{"x-max-length": 3, "x-overflow": "reject-publish"} | dead)
    run(broker, "publish", "alive", "first", "second", "third")
    with flintmq.client.connect(broker.url) as connection:
        channel = connection.channel()
        for _ in range(3):
            message = channel.get("alive")
            assert message is not None
            channel.nack(message.delivery_tag, requeue=False)
        channel.close()
    (found,) = json.loads(run(broker, "list-dead-letters", "--json", *url).stdout)
    assert (found["queue"], found["messages"]) == ("dead", 3)
    listed = run(broker, "list-dead-letters", *url).stdout
    assert "rejected on alive: 3" in listed
    assert "counted in the oldest" not in listed
    (message,) = map(json.loads, run(broker, "search", "dead", "econ", "--json", *url).stdout.splitlines())
    assert message["payload"] == "second"
    assert run(broker, "redrive", "dead", "--search", "second", *url).stderr == "1 message redriven\n"
    assert run(broker, "get", "alive").stdout.count("second") == 1
    run(broker, "publish", "alive", "x", "y")
    ran = run(broker, "move", "dead", "alive", "--json", *url)
    assert json.loads(ran.stdout) == {"moved": 1, "skipped": 1}
    assert ran.returncode == 1
    assert run(broker, "redrive", "nowhere", *url).returncode == 5
