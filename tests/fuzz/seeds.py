"""A number makes a case: the same number, the same case, on every machine."""

from random import Random
from typing import Final

from tests.fuzz import laws
from tests.fuzz.amqp10 import laws as laws_10
from tests.fuzz.amqp10.mutation import frames as frames_10
from tests.fuzz.amqp10.mutation import mutated as mutated_10
from tests.fuzz.amqp10.sessions import record as record_10
from tests.fuzz.mutation import Frames, frames, mutated
from tests.fuzz.sessions import record

_RECORDED: Final = record()
CLIENTS: Final[list[Frames]] = [frames(up) for up, _ in _RECORDED]
SERVERS: Final[list[Frames]] = [frames(down) for _, down in _RECORDED]
_RECORDED_10: Final = record_10()
CLIENTS_10: Final[list[Frames]] = [frames_10(up) for up, _ in _RECORDED_10]
SERVERS_10: Final[list[Frames]] = [frames_10(down) for _, down in _RECORDED_10]


def run(seed: int) -> None:
    """Raises whatever breaks a law."""
    random = Random(seed)
    _run_091(random)
    _run_10(random)


def _run_091(random: Random) -> None:
    sent = mutated(random, CLIENTS)
    laws.check_server(sent)
    laws.check_client(mutated(random, SERVERS))
    for frame in frames_of(sent):
        laws.check_codec(frame)


def _run_10(random: Random) -> None:
    sent = mutated_10(random, CLIENTS_10)
    laws_10.check_server(sent)
    laws_10.check_client(mutated_10(random, SERVERS_10))
    for frame in _cut(sent):
        laws_10.check_codec(frame[8:])


def _cut(data: bytes) -> Frames:
    """Frames of a spoiled session, as far as they say where they end."""
    found = []
    while len(data) >= 8:
        size = 8 if data.startswith(b"AMQP") else max(int.from_bytes(data[:4], "big"), 8)
        found.append(data[:size])
        data = data[size:]
    return found


def frames_of(data: bytes) -> Frames:
    """What the codec gets to see of a spoiled session: payloads, and what stands behind a content header's start."""
    found = frames(data)
    payloads = [frame[7:-1] for frame in found]
    return payloads + [frame[19:-1] for frame in found if frame[:1] == b"\2"]
