"""A broker inside a program is a broker like any other, and leaves the program as it was."""

import asyncio
import gc
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import aio_pika
import pika
import pytest

import flintmq.client
from flintmq.embedded import Broker, ConfigurationError, FlintError, StorageError
from flintmq.server import logs
from tests.servers import free_port


def publish(url: str, queue: str, body: bytes) -> None:
    """A persistent message on a durable queue, confirmed."""
    with flintmq.client.connect(url) as connection:
        channel = connection.channel(confirms=True)
        channel.declare_queue(queue, durable=True)
        channel.publish(body, routing_key=queue, properties=flintmq.client.Properties(delivery_mode=2))
        channel.wait_for_confirms()


def get(url: str, queue: str) -> bytes | None:
    with flintmq.client.connect(url) as connection:
        delivery = connection.channel().get(queue)
        return None if delivery is None else bytes(delivery.body)


def test_a_message_by_pika() -> None:
    """pika publishes and gets as from any broker, and nothing is left once the block has ended."""
    threads = set(threading.enumerate())
    broker = Broker()
    with broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"m", pika.BasicProperties(delivery_mode=2))
        assert channel.basic_get("q", auto_ack=True)[2] == b"m"
        connection.close()
        url = broker.url
        directory = broker._settings.storage.directory
        assert directory.is_dir()
    assert not directory.exists()
    assert set(threading.enumerate()) <= threads
    assert not broker.is_running
    with pytest.raises(flintmq.client.ConnectFailed):
        flintmq.client.connect(url)
    with pytest.raises(RuntimeError, match="was not started"):
        _ = broker.url


def test_brokers_are_alone() -> None:
    """Two brokers of one process have a port and queues each; one that is started again is new."""
    with Broker() as one, Broker() as other:
        assert one.port != other.port
        publish(one.url, "q", b"m")
        with pytest.raises(flintmq.client.ChannelClosed, match="no queue 'q'"):
            get(other.url, "q")
    with one, pytest.raises(flintmq.client.ChannelClosed, match="no queue 'q'"):
        get(one.url, "q")


def test_in_a_running_loop() -> None:
    """With `async with` it runs in asyncio's own loop, and leaves nothing in there."""

    async def use() -> set[str]:
        broker = Broker()
        async with broker:
            connection = await aio_pika.connect(broker.url)
            channel = await connection.channel()
            queue = await channel.declare_queue("q", durable=True)
            # A timer of the broker is left, for later.
            await channel.declare_queue("expires", durable=True, arguments={"x-expires": 600_000})
            await channel.default_exchange.publish(aio_pika.Message(b"m", delivery_mode=2), "q")
            message = await queue.get(timeout=60)
            await message.ack()
            assert message.body == b"m"
            # A connection that stays open is closed by the broker.
        assert not broker.is_running
        await connection.close()
        deadline = asyncio.get_running_loop().time() + 60
        while left() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.01)
        return left()

    def left() -> set[str]:
        timers: Any = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        callbacks = {timer._callback.__module__ for timer in timers if not timer.cancelled()}
        tasks = {str(task) for task in asyncio.all_tasks() - {asyncio.current_task()}}
        return {text for text in tasks | callbacks if "flintmq" in text}

    threads = set(threading.enumerate())
    assert asyncio.run(use()) == set()
    assert set(threading.enumerate()) <= threads


def test_a_directory_is_kept(tmp_path: Path) -> None:
    """What is confirmed is there for the next broker on that directory, and two cannot have it at once."""
    with Broker(tmp_path / "data") as broker:
        publish(broker.url, "q", b"m")
        with pytest.raises(StorageError, match="in use by another broker"):
            Broker(tmp_path / "data").start()
    with Broker(tmp_path / "data") as broker:
        assert get(broker.url, "q") == b"m"


def test_restart() -> None:
    """A broker that restarts closes connections with 320, and has its port and what was durable again."""
    with Broker(port=free_port()) as broker:
        publish(broker.url, "q", b"m")
        before = broker.port
        with flintmq.client.connect(broker.url) as connection:
            broker.restart()
            with pytest.raises(flintmq.client.ConnectionClosed) as closed:
                connection.channel()
        assert closed.value.code == 320
        assert broker.port == before
        assert get(broker.url, "q") == b"m"
        broker.restart()
    with pytest.raises(RuntimeError, match="restarted"):
        broker.restart()


def test_settings() -> None:
    """Settings are those of a configuration file; URLs name the users and virtual hosts there are."""
    settings = {
        "limits": {"message_max_bytes": 10},
        "vhosts": [{"name": "a/b"}],
        "users": [{"name": "me", "password": "p@ss", "vhosts": ["a/b"]}],
    }
    with Broker(settings=settings) as broker:
        url = broker.url_of("a/b", "me", "p@ss")
        assert url == f"amqp://me:p%40ss@127.0.0.1:{broker.port}/a%2Fb"
        publish(url, "q", b"0123456789")
        with pytest.raises(flintmq.client.ChannelClosed, match="larger than"):
            publish(url, "q", b"0123456789!")


def test_the_http_api() -> None:
    """It is there where settings ask for it, on a port of its own, which it keeps when the broker restarts."""
    threads = set(threading.enumerate())
    with Broker(port=free_port(), settings={"management": {"enabled": True, "port": free_port()}}) as broker:
        before = broker.http_url
        broker.restart()
        assert broker.http_url == before
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"{before}/api/overview")  # noqa: S310 - our own
    with pytest.raises(RuntimeError, match="no HTTP API"):
        _ = broker.http_url
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"limit": {}}, r"settings: there is no section \[limit\]; did you mean limits"),
        ({"limits": {"channel_mux": 1}}, "did you mean limits.channel_max"),
        ({"limits": {"channel_max": 0}}, "settings: limits.channel_max: expected `int` >= 1"),
        ({"limits": 1}, "limits is a section"),
        ({"users": [{"name": "u"}]}, r"settings: users\[0\].*password"),
    ],
)
def test_wrong_settings(settings: dict[str, dict[str, object]], says: str) -> None:
    """What is wrong is said before anything starts."""
    with pytest.raises(ConfigurationError, match=says):
        Broker(settings=settings)


def test_a_port_that_is_taken() -> None:
    """Who cannot listen says so, and has left nothing; once the port is free, the same broker starts."""
    threads = set(threading.enumerate())
    with Broker(port=free_port()) as other:
        broker = Broker(port=other.port)
        with pytest.raises(FlintError, match=f"cannot listen on 127.0.0.1:{other.port}"):
            broker.start()
        with pytest.raises(RuntimeError, match="runs already"):
            other.start()
    with broker:
        publish(broker.url, "q", b"m")
    broker.stop()
    assert set(threading.enumerate()) <= threads


def test_its_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has to say are records of the logger "flintmq", and nothing is printed."""
    monkeypatch.setattr(logs, "_logger", logs._library_logger())
    caplog.set_level(logging.INFO, "flintmq")
    with Broker() as broker:
        publish(broker.url, "q", b"m")
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("connection opened") and "user='guest'" in line for line in said)
    assert capfd.readouterr() == ("", "")


LOOKS = """
import asyncio, gc, json, logging, os, resource, signal, sys, threading
def look():
    import structlog
    return {
        "signals": [str(signal.getsignal(number)) for number in signal.valid_signals() if number not in (9, 19)],
        "wakeup": str(signal.set_wakeup_fd(-1)),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "policy": type(asyncio.get_event_loop_policy()).__name__,
        "root": [str(handler) for handler in logging.root.handlers] + [logging.root.level],
        "structlog": structlog.is_configured(),
        "frozen": gc.get_freeze_count(),
        "gc": [gc.get_threshold(), gc.isenabled()],
        "environment": dict(os.environ),
        "hooks": [str(sys.excepthook), str(threading.excepthook), sys.getswitchinterval()],
        "directory": os.getcwd(),
        "umask": os.umask(0o22),
    }
os.umask(0o22)
resource.setrlimit(resource.RLIMIT_NOFILE, (900, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
seen = [look()]
from flintmq.embedded import Broker
seen.append(look())
with Broker() as broker:
    seen.append(look())
async def use():
    async with Broker():
        # A loop wakes by it, whoever runs in there.
        seen.append(look() | {"wakeup": seen[0]["wakeup"], "signals": seen[0]["signals"]})
asyncio.run(use())
seen.append(look())
print(json.dumps(seen))
"""


def test_the_process_is_left_alone() -> None:
    """Signals, limits, policies, logging, collector and environment are what they were before, while and after."""
    result = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, check=False)  # noqa: S603
    assert result.returncode == 0, result.stderr
    before, *others = json.loads(result.stdout)
    for other in others:
        assert other == before
    assert gc.isenabled()


def test_a_program_may_end_with_it() -> None:
    """A program that does not stop its broker ends without a word."""
    script = "from flintmq.embedded import Broker; broker = Broker(); broker.start(); print(broker.url)"
    result = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")


_FORKS = """
import os, sys
from flintmq.embedded import Broker

with Broker() as broker:
    directory = broker._settings.storage.directory
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    print(directory.is_dir())
print(directory.exists())
"""


def test_a_forked_child_leaves_the_files() -> None:
    """It ends in the ordinary way, out of the block: the broker and its files are its parent's."""
    program = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", _FORKS], capture_output=True, text=True, timeout=60, check=True
    )
    assert program.stdout.split() == ["True", "False"]
