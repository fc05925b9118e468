"""What those may cost who have not logged in: nobody knows them, and there may be many."""

import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from flintmq.base.limits import HANDSHAKE_FRAME_MAX_BYTES, LOGIN_FRAME_MAX_BYTES, SCRAM_MESSAGE_MAX_BYTES
from flintmq.wire.amqp091.frames import FRAME_METHOD, PROTOCOL_HEADER
from flintmq.wire.amqp10.performatives import SaslInit, SaslPerformative, SaslResponse
from flintmq.wire.amqp10.spec import SASL_HEADER
from tests.conformance.amqp10.peer import SASL_FRAME
from tests.conformance.amqp10.peer import frame as frame_10
from tests.hostile.test_greed import resident_bytes
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, frame

# The first ones take what starting has left free.
FIRST: Final = 2_000
CONNECTIONS: Final = 400
# The median of the growth from any round to any later one: what a login is checked with comes and goes, 19 MiB at a
# time, and what one round said may be decoded in the next.
ROUNDS: Final = 5
# Of the broker's own memory: the kernel's socket buffers come on top.
STRANGER_MAX_BYTES: Final = 16 * 1024


def start_ok(properties: bytes, response: bytes, mechanism: bytes = b"PLAIN") -> bytes:
    payload = (
        bytes.fromhex("000a000b")
        + struct.pack(">I", len(properties))
        + properties
        + bytes([len(mechanism)])
        + mechanism
        + struct.pack(">I", len(response))
        + response
        + b"\x05en_US"
    )
    return frame(FRAME_METHOD, 0, payload)


def sasl_frame(performative: SaslPerformative) -> bytes:
    return frame_10(0, performative, kind=SASL_FRAME)


def names(room: int) -> bytes:
    """As many entries without values as fit: a few bytes each, and a hundred as objects."""
    entries = b""
    while True:
        name = b"%x" % (len(entries) // 5)
        entry = bytes([len(name)]) + name + b"V"
        if len(entries) + len(entry) > room:
            return entries
        entries += entry


# What fits a frame beside the response of somebody unknown.
ROOM = HANDSHAKE_FRAME_MAX_BYTES - len(start_ok(b"", b"\0nobody\0x"))
# Where a login is decided, frames are smaller still.
HALF_CLOSE = struct.pack(">BHI", FRAME_METHOD, 0, LOGIN_FRAME_MAX_BYTES - 8) + bytes(LOGIN_FRAME_MAX_BYTES - 9)
# A client's first message by SCRAM, as long as it may be.
FIRST_MESSAGE: Final = b"n,,n=nobody,r=".ljust(SCRAM_MESSAGE_MAX_BYTES, b"a")
STRANGERS: Final = {
    "who say nothing": b"",
    "who say hello": PROTOCOL_HEADER,
    "who end within a frame": PROTOCOL_HEADER + start_ok(names(ROOM), b"\0nobody\0x")[:-1],
    "with a thousand properties": PROTOCOL_HEADER + start_ok(names(ROOM), b"\0nobody\0x") + HALF_CLOSE,
    "with a long password": PROTOCOL_HEADER + start_ok(b"", b"\0nobody\0" + b"x" * ROOM) + HALF_CLOSE,
    "who were challenged": PROTOCOL_HEADER + start_ok(b"", FIRST_MESSAGE, b"SCRAM-SHA-256") + HALF_CLOSE,
    "who were challenged by AMQP 1.0": SASL_HEADER
    + sasl_frame(SaslInit(mechanism="SCRAM-SHA-256", initial_response=FIRST_MESSAGE))
    + sasl_frame(SaslResponse(response=bytes(LOGIN_FRAME_MAX_BYTES - 32)))[:-1],
    "with half a token of AMQP 1.0": SASL_HEADER
    + sasl_frame(SaslInit(mechanism="PLAIN", initial_response=bytes(HANDSHAKE_FRAME_MAX_BYTES - 64)))[:-1],
}


@pytest.fixture
def descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_after(broker: BrokerProcess, seconds: float) -> int:
    time.sleep(seconds)
    return resident_bytes(broker.process.pid)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("said", STRANGERS.values(), ids=STRANGERS.keys())
def test_memory_of_an_unauthenticated_connection(tmp_path: Path, descriptors: None, said: bytes) -> None:
    """Any number of strangers, whatever they say before they are known, cost 16 KiB each at most."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_MANAGEMENT_ENABLED="false") as broker, ExitStack() as strangers:

        def come(count: int) -> int:
            """What the broker holds once so many more are there."""
            for number in range(count):
                # From many addresses, as a machine has only so many ports to one.
                source = (f"127.3.{number >> 8}.{number & 0xFF}", 0)
                stranger = strangers.enter_context(socket.create_connection(("127.0.0.1", broker.port), 30, source))
                stranger.sendall(said)
            # It has come to the last one when it answers somebody behind it.
            with AmqpSocket(broker.port) as probe:
                probe.begin()
            # A password is hashed now and then, in 19 MiB that are returned at once: the least is what stays.
            return min(resident_after(broker, 0.02) for _ in range(50))

        held = [come(count) for count in (FIRST, *[CONNECTIONS] * ROUNDS)]
        slopes = [
            (after - before) / (last - first) / CONNECTIONS
            for (first, before), (last, after) in combinations(enumerate(held), 2)
        ]
        assert median(slopes) < STRANGER_MAX_BYTES
        faults = [line for line in broker.log if line["event"] == "connection ended" and "ERROR" in line["reason"]]
        assert not faults, faults[0]
        broker.kill()


def test_memory_of_those_who_were_refused(tmp_path: Path) -> None:
    """What a stranger said of itself is forgotten with the refusal, not decoded and kept until somebody tidies up."""
    said = PROTOCOL_HEADER + start_ok(names(ROOM), b"\0nobody\0x")
    with BrokerProcess(tmp_path / "data", FLINTMQ_MANAGEMENT_ENABLED="false") as broker:

        def be_refused(count: int) -> int:
            for number in range(2, count + 2):
                # Logins from an address with refusals wait, so each comes from another one.
                with socket.create_connection(("127.0.0.1", broker.port), 30, (f"127.0.0.{number}", 0)) as stranger:
                    stranger.sendall(said)
                    while stranger.recv(65_536):
                        pass
            return resident_bytes(broker.process.pid)

        before = be_refused(10)
        assert be_refused(30) - before < 30 * STRANGER_MAX_BYTES
        broker.kill()


def test_a_frame_in_tiny_pieces(tmp_path: Path) -> None:
    """Pieces of a few bytes are put together as they come, or each would cost ten times what it holds."""
    with BrokerProcess(tmp_path / "data", FLINTMQ_MANAGEMENT_ENABLED="false") as broker, ExitStack() as strangers:
        said = PROTOCOL_HEADER + start_ok(names(ROOM), b"\0nobody\0x")[:-1]
        many = [strangers.enter_context(socket.create_connection(("127.0.0.1", broker.port), 30)) for _ in range(50)]
        for stranger in many:
            stranger.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        before = resident_bytes(broker.process.pid)
        for at in range(0, len(said), 3):
            for stranger in many:
                stranger.send(said[at : at + 3])
        time.sleep(0.5)
        assert (resident_bytes(broker.process.pid) - before) / len(many) < 4 * STRANGER_MAX_BYTES
        broker.kill()
