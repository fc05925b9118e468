"""Partial messages on links of AMQP 1.0 that can be resumed, in frames written here, by clients that go."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pika
import pytest

from tests.hostile.amqp10_frames import (
    ACCEPTED,
    DATA,
    DISPOSITION,
    NULL,
    TARGET,
    TRUE,
    Described,
    Peer,
    binary,
    described,
    section,
    symbol,
    table,
    text,
    uint,
    ulong,
)
from tests.hostile.test_greed import MIB, resident_bytes
from tests.servers import BrokerProcess
from tests.waiting import WAIT_SECONDS

QUEUE: Final = "halves"
UNSETTLED_STATE: Final = 2
KEPT: Final = described(TARGET, text(f"/queues/{QUEUE}"), uint(UNSETTLED_STATE), symbol("never"), uint(0))
FRAME_BYTES: Final = 100_000
# received, of the delivery-states.
RECEIVED: Final = 0x23


@contextmanager
def opened(broker: BrokerProcess) -> Iterator[httpx.Client]:
    """The API of a broker that has the queue."""
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_SECONDS) as api:
        assert api.put(f"/api/queues/%2F/{QUEUE}", json={"durable": True}).is_success
        yield api


def message(size: int) -> bytes:
    """A data section, of a few more bytes than that."""
    return section(DATA, binary(bytes(range(256)) * (size // 256)))


def begin(broker: BrokerProcess, container: str, size: int, user: str = "guest") -> None:
    """Send so many bytes of a message that is a little larger, and go."""
    with Peer(broker.port) as peer:
        peer.start(container, user=user)
        peer.sender("link", KEPT)
        part = message(size)[:size]
        for at in range(0, size, FRAME_BYTES):
            peer.transfer(0, part[at : at + FRAME_BYTES], more=TRUE)
        peer.leave()


def partial_messages(api: httpx.Client) -> dict[str, Any]:
    """Ends of links with parts of messages, by their containers."""
    listed = api.get("/api/resumable-links").json()
    assert not any(each["attached"] for each in listed)
    return {each["container"]: each for each in listed if each["partial_messages"]}


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
def test_half_a_message_is_listed_and_forgotten(tmp_path: Path, is_killed: bool) -> None:
    """The API tells who left it and how large it is; forgotten there, its sender finds nothing of it."""
    with BrokerProcess(tmp_path / "data") as broker:
        with opened(broker) as api:
            begin(broker, "left", MIB)
            begin(broker, "stays", MIB)
            # What is answered after the parts came is on the disk behind them: a kill takes none of them.
            assert api.put("/api/queues/%2F/behind", json={"durable": True}).is_success
        if is_killed:
            broker.kill()
            broker.start()
        with opened(broker) as api:
            forget_one(broker, api)
        assert broker.stop() == 0


def forget_one(broker: BrokerProcess, api: httpx.Client) -> None:
    """Forget what the one has left, and let the other one end it."""
    found = partial_messages(api)
    assert found.keys() == {"left", "stays"}
    left = found["left"]
    assert (left["name"], left["user"], left["partial_messages"], left["expiry"]) == ("link", "guest", 1, "never")
    assert MIB <= left["partial_bytes"] < 2 * MIB
    place = f"/api/resumable-links/%2F/{left['id']}"
    assert api.get(place).json() == left
    assert api.delete(place).status_code == 204
    assert api.get(place).status_code == 404
    assert partial_messages(api).keys() == {"stays"}
    with Peer(broker.port) as peer:
        peer.start("left")
        assert not peer.sender("link", KEPT, unsettled=table(binary(b"0"), NULL)).fields[7]
        # In use, an end is nobody's to forget.
        (used,) = [each for each in api.get("/api/resumable-links").json() if each["attached"]]
        assert api.delete(f"/api/resumable-links/%2F/{used['id']}").status_code == 400
        # The message comes from its beginning.
        peer.transfer(0, section(DATA, binary(b"whole")))
        assert peer.expect(DISPOSITION).fields[4].descriptor == ACCEPTED
    with Peer(broker.port) as peer:
        peer.start("stays")
        state = peer.sender("link", KEPT, unsettled=table(binary(b"0"), NULL)).fields[7][b"0"]
        assert state == Described(RECEIVED, [0, MIB])
        peer.transfer(0, message(MIB)[MIB:], resumed_at=described(RECEIVED, uint(0), ulong(MIB)))
        assert peer.expect(DISPOSITION).fields[4].descriptor == ACCEPTED
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    got = [connection.channel().basic_get(QUEUE, auto_ack=True)[2] for _ in range(3)]
    connection.close()
    assert got == [b"whole", message(MIB)[8:], None]
    assert partial_messages(api) == {}


def add_user(api: httpx.Client, name: str) -> None:
    """Its password is its name."""
    assert api.put(f"/api/users/{name}", json={"password": name, "tags": ""}).is_success
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.put(f"/api/permissions/%2F/{name}", json=everything).is_success


def test_halves_of_a_user_are_bounded(tmp_path: Path) -> None:
    """Beyond 64 MiB, those that have waited longest are dropped; what is another user's stays."""
    with BrokerProcess(tmp_path / "data") as broker, opened(broker) as api:
        add_user(api, "other")
        begin(broker, "other's", MIB, "other")
        before = resident_bytes(broker.process.pid)
        for number in range(16):
            begin(broker, str(number), 8 * MIB)
        found = partial_messages(api)
        assert found.pop("other's")["user"] == "other"
        assert sum(each["partial_bytes"] for each in found.values()) <= 64 * MIB
        assert len(found) >= 6
        assert found.keys() == {str(number) for number in range(16 - len(found), 16)}
        assert resident_bytes(broker.process.pid) - before < 100 * MIB
        broker.wait_for_log("parts of messages on suspended links given up")
        assert broker.stop() == 0


def test_halves_of_all_users_are_bounded(tmp_path: Path) -> None:
    """Users have no more together than an eighth of the memory that the broker may have."""
    watermark = 300_000_000
    with (
        BrokerProcess(tmp_path / "data", FLINTMQ_ALARMS_MEMORY_HIGH_WATERMARK=str(watermark)) as broker,
        opened(broker) as api,
    ):
        for number in range(8):
            add_user(api, f"user{number}")
            begin(broker, str(number), 8 * MIB, f"user{number}")
        found = partial_messages(api)
        assert found.keys() == {str(number) for number in range(8 - len(found), 8)}
        assert len(found) >= 3
        assert sum(each["partial_bytes"] for each in found.values()) <= watermark // 8
        assert broker.stop() == 0
