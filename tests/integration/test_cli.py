"""The commands that are clients: `flintmq publish` and `flintmq consume` against a running broker."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import flintmq.client
from tests.servers import BrokerProcess, command, environment


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("cli"))) as running:
        yield running


def run(broker: BrokerProcess, *arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}/%2f"
    return subprocess.run(  # noqa: S603 - our own command
        command(*arguments), env=environment(FLINTMQ_URL=url), input=text, capture_output=True, text=True, check=False
    )


def declare(broker: BrokerProcess, queue: str, **arguments: object) -> None:
    with flintmq.client.connect(f"amqp://127.0.0.1:{broker.port}/") as connection:
        connection.channel().declare_queue(queue, arguments=arguments or None)


def test_what_is_published_is_consumed(broker: BrokerProcess) -> None:
    """Bodies come out as they went in, from arguments and from standard input, in order, and once."""
    declare(broker, "cli")
    assert run(broker, "publish", "cli", "first", "second").stderr == "2 confirmed\n"
    assert run(broker, "publish", "cli", text="third\nfourth\n").stderr == "2 confirmed\n"
    assert run(broker, "consume", "cli", "--count", "3").stdout == "first\nsecond\nthird\n"
    assert run(broker, "consume", "cli", "--wait", "0.5").stdout == "fourth\n"


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
    ran = run(broker, *(argument.format(port=broker.port) for argument in arguments))
    assert ran.returncode != 0
    assert words in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stdout == ""
