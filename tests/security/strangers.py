"""Strangers in numbers: half-open and dripping connections, and wrong passwords; and what a client feels of them."""

import asyncio
import resource
import select
import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pika

from flintmq.wire.amqp091.frames import PROTOCOL_HEADER
from tests.hostile.test_greed import resident_bytes
from tests.hostile.test_strangers import start_ok
from tests.servers import BrokerProcess

# What each says; a dripping one says it byte by byte, and begins again.
SAYINGS: Final = {
    "nothing": b"",
    "half a header": PROTOCOL_HEADER[:4],
    "a header": PROTOCOL_HEADER,
    "a header of AMQP 1.0": b"AMQP\x03\x01\x00\x00",
    "half a frame": PROTOCOL_HEADER + b"\x01\x00\x00\x00\x00\x0f\xff\x00\x0a\x00\x0b",
    "half a TLS greeting": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
_DRIP_SECONDS: Final = 0.5
# How fast they come, and how often those are looked after who are there. They are strangers to each other, too: where
# this machine kept all of them waiting, they do not catch up in one go.
_PER_SECOND: Final = 2_500
_TURN_SECONDS: Final = 0.001
_AT_ONCE: Final = 32
# Ports of one address are not enough for all.
_PER_ADDRESS: Final = 200


@dataclass(frozen=True)
class Outcome:
    """`slowest_seconds` is how long the last one stayed; `bytes_each` what the broker held for one, its own memory."""

    count: int
    slowest_seconds: float
    bytes_each: float


def allow_files(count: int) -> None:
    """Raises ValueError where the system does not let this process have so many sockets."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if count + 500 > hard:
        raise ValueError(f"{count} sockets, and {hard} files may be open: raise the limit with ulimit -n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def come_and_wait(broker: BrokerProcess, count: int) -> Outcome:
    """Connect so many strangers, half of them dripping, and wait until the broker is rid of them."""
    pid = broker.process.pid
    # What starting has left free goes to the first ones.
    before = resident_bytes(pid)
    held = before
    waiting = asyncio.ensure_future(asyncio.to_thread(_crowd, broker.port, count))
    while not waiting.done():
        held = max(held, await asyncio.to_thread(resident_bytes, pid))
        await asyncio.sleep(0.2)
    return Outcome(count, max(await waiting), (held - before) / count)


@dataclass
class _Stranger:
    """`at` is how far a dripping one is with what it says."""

    socket: socket.socket
    said: bytes
    began: float
    at: int = 0


def _crowd(port: int, count: int) -> list[float]:
    """All strangers, with as little of this machine as that takes; returns how long each of them stayed, in seconds."""
    sayings = list(SAYINGS.values())
    stayed: list[float] = []
    there: dict[int, _Stranger] = {}
    dripping: deque[tuple[float, _Stranger]] = deque()
    came = 0
    began = now = time.monotonic()
    with select.epoll() as poll:
        while came < count or there:
            for _ in range(_AT_ONCE):
                if came >= min(count, (now - began) * _PER_SECOND):
                    break
                said = sayings[came % len(sayings)]
                source = (f"127.4.{came // _PER_ADDRESS >> 8}.{came // _PER_ADDRESS % 256 + 1}", 0)
                stranger = _Stranger(_connected(port, source), said or b"AMQP", time.monotonic())
                there[stranger.socket.fileno()] = stranger
                poll.register(stranger.socket, select.EPOLLIN)
                if came % 2 == 0:
                    dripping.append((now, stranger))
                elif said:
                    stranger.socket.sendall(said)
                came += 1
            for _ in range(_AT_ONCE):
                if not dripping or dripping[0][0] > now:
                    break
                due, stranger = dripping.popleft()
                if stranger.socket.fileno() in there:
                    _drip(stranger)
                    dripping.append((due + _DRIP_SECONDS, stranger))
            for descriptor, _ in poll.poll(_TURN_SECONDS):
                if _is_over(there[descriptor].socket):
                    stranger = there.pop(descriptor)
                    stranger.socket.close()
                    stayed.append(time.monotonic() - stranger.began)
            now = time.monotonic()
    return stayed


def _connected(port: int, source: tuple[str, int]) -> socket.socket:
    made = socket.socket()
    made.bind(source)
    made.connect(("127.0.0.1", port))
    return made


def _drip(stranger: _Stranger) -> None:
    # Whether it may still say so, reading tells.
    with suppress(OSError):
        stranger.socket.send(stranger.said[stranger.at :][:1])
    stranger.at = min(stranger.at + 1, len(stranger.said) - 1)


def _is_over(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1024)
    except OSError:
        return True


def round_trips(url: str, seconds: float) -> list[float]:
    """How long messages take there and back meanwhile, in order of time taken. To be called in a process of its own."""
    connection = pika.BlockingConnection(pika.URLParameters(url + "?heartbeat=0"))
    channel = connection.channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    took = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        channel.basic_publish("", queue, b"m", mandatory=True)
        assert channel.basic_get(queue, auto_ack=True)[2] == b"m"
        took.append(time.perf_counter() - began)
        time.sleep(0.002)
    connection.close()
    return sorted(took)


async def guess(broker: BrokerProcess, per_second: int, seconds: float) -> int:
    """So many wrong passwords a second, by connections that come for that; returns how many were refused by the end."""
    said = PROTOCOL_HEADER + start_ok(b"", b"\0guest\0wrong")
    refused = 0

    async def one() -> None:
        nonlocal refused
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(said)
        with suppress(OSError):
            while await reader.read(4096):
                pass
            refused += 1
        writer.close()

    guesses = []
    began = time.monotonic()
    for number in range(int(per_second * seconds)):
        guesses.append(asyncio.create_task(one()))
        await asyncio.sleep(max(began + (number + 1) / per_second - time.monotonic(), 0))
    await asyncio.gather(*guesses)
    return refused


def p99(values: list[float]) -> float:
    """In milliseconds, of values in order."""
    return values[int(len(values) * 0.99)] * 1000
