"""A number makes a case: the same number, the same case, on every machine."""

from random import Random
from typing import Final

from tests.fuzz import laws
from tests.fuzz.mutation import Frames, frames, mutated
from tests.fuzz.sessions import record

_RECORDED: Final = record()
CLIENTS: Final[list[Frames]] = [frames(up) for up, _ in _RECORDED]
SERVERS: Final[list[Frames]] = [frames(down) for _, down in _RECORDED]


def run(seed: int) -> None:
    """Raises whatever breaks a law."""
    random = Random(seed)
    sent = mutated(random, CLIENTS)
    laws.check_server(sent)
    laws.check_client(mutated(random, SERVERS))
    for frame in frames_of(sent):
        laws.check_codec(frame)


def frames_of(data: bytes) -> Frames:
    """What the codec gets to see of a spoiled session: payloads, and what stands behind a content header's start."""
    found = frames(data)
    payloads = [frame[7:-1] for frame in found]
    return payloads + [frame[19:-1] for frame in found if frame[:1] == b"\2"]
