"""A segment that was removed from the middle of the journal, or of a stream: it is named, and the rest is served."""

import json
import subprocess
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.servers import BrokerProcess, command, environment

COUNT = 60
BODY_BYTES = 8_000
# The smallest there are: seven of the messages fill one.
SEGMENT_BYTES = str(64 * 1024)
KINDS = {"classic": "journal/*.journal", "stream": "streams/*/*.stream"}


def opened(broker: BrokerProcess) -> BlockingChannel:
    channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=2 * COUNT)
    return channel


def publish(channel: BlockingChannel, number: int) -> None:
    body = b"%08d" % number + bytes(BODY_BYTES)
    channel.basic_publish("", "kept", body, pika.BasicProperties(delivery_mode=2))


def numbers(channel: BlockingChannel, count: int) -> list[int]:
    """The next messages, as they were numbered; they stay on the queue."""
    found: list[int] = []
    for method, _, body in channel.consume("kept", inactivity_timeout=60, arguments={"x-stream-offset": "first"}):
        assert method is not None, f"{len(found)} of {count} messages came"
        found.append(int(body[:8]))
        if len(found) == count:
            break
    channel.cancel()
    return found


def damaged(data: Path) -> list[tuple[str, str]]:
    """Files that `storage verify` finds damaged, each with the reason."""
    ran = subprocess.run(  # noqa: S603 - our own command
        command("storage", "verify", "--json", str(data)),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    found = [
        (str(data / file["path"]), damage["reason"])
        for file in json.loads(ran.stdout)["files"]
        for damage in file["damage"]
    ]
    assert ran.returncode == (1 if found else 0), ran.stderr
    return found


@pytest.mark.parametrize(("kind", "files"), KINDS.items(), ids=KINDS)
def test_a_segment_from_the_middle_is_missing(tmp_path: Path, kind: str, files: str) -> None:
    """`storage verify` and each start name it, every other message is served in order, and new ones are kept."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_STORAGE_SEGMENT_BYTES=SEGMENT_BYTES) as broker:
        channel = opened(broker)
        channel.queue_declare("kept", durable=True, arguments={"x-queue-type": kind})
        for number in range(COUNT):
            publish(channel, number)
        channel.connection.close()
        assert broker.stop() == 0
        assert damaged(broker.data) == []

        segments = sorted(path for path in broker.data.glob(files) if path.stat().st_size > 5 * BODY_BYTES)
        gone = segments[len(segments) // 2]
        assert segments[0] < gone < segments[-1]
        content = gone.read_bytes()
        left = [number for number in range(COUNT + 2) if b"%08d" % number + bytes(BODY_BYTES) not in content]
        assert len(left) < COUNT
        gone.unlink()

        for number in (COUNT, COUNT + 1):
            ((path, reason),) = damaged(broker.data)
            assert path == str(gone)
            assert "the segment is missing" in reason
            broker.start()
            line = broker.wait_for_log("damaged record set aside")
            assert gone.name in line["damage"]
            assert reason in line["damage"]
            channel = opened(broker)
            publish(channel, number)
            expected = [each for each in left if each <= number]
            assert numbers(channel, len(expected)) == expected
            channel.connection.close()
            assert broker.stop() == 0
