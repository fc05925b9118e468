"""Ways to spoil a session: in the bytes, in the fields of frames, and in their order."""

from collections.abc import Callable
from random import Random
from typing import Final

from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import METHODS

Frames = list[bytes]
# What lengths and counts are most often wrong about.
INTERESTING: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)
_KINDS: Final = (0, 1, 2, 3, 4, 8, 206, 255)


def frames(data: bytes) -> Frames:
    """Whole frames, and a protocol header before them, each by itself."""
    found = []
    pos = 0
    while pos < len(data):
        size = 8 if data.startswith(b"AMQP", pos) else int.from_bytes(data[pos + 3 : pos + 7], "big") + 8
        found.append(data[pos : pos + size])
        pos += size
    return found


def make_frame(kind: int, channel: int, payload: bytes) -> bytes:
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def _flip(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data))
    data[at] ^= 1 << random.randrange(8)


def _overwrite(random: Random, data: bytearray) -> None:
    size = random.choice((1, 2, 4, 8))
    at = random.randrange(len(data))
    data[at : at + size] = (random.choice(INTERESTING) & ((1 << 8 * size) - 1)).to_bytes(size, "big")


def _cut(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data))
    del data[at : at + random.randrange(1, 20)]


def _repeat(random: Random, data: bytearray) -> None:
    at = random.randrange(len(data))
    data[at:at] = data[at : at + random.randrange(1, 20)] * random.choice((1, 2, 50))


_SPOIL: Final[tuple[Callable[[Random, bytearray], None], ...]] = (_flip, _overwrite, _cut, _repeat)


def spoil(random: Random, data: bytearray) -> None:
    """Something wrong in these bytes, of which there must be one at least."""
    random.choice(_SPOIL)(random, data)


def _bytes(random: Random, session: Frames, others: list[Frames]) -> None:
    """Anywhere, so that frames do not end where they say."""
    data = bytearray(b"".join(session[1:]))
    if data:
        spoil(random, data)
    session[1:] = [bytes(data)]


def _payload(random: Random, session: Frames, others: list[Frames]) -> None:
    """Within a frame that stays whole."""
    at = random.randrange(len(session))
    frame = session[at]
    payload = bytearray(frame[7:-1])
    if len(frame) >= 8 and payload:
        spoil(random, payload)
        session[at] = make_frame(frame[0], int.from_bytes(frame[1:3], "big"), bytes(payload))


def _head(random: Random, session: Frames, others: list[Frames]) -> None:
    """Another type, channel or size."""
    at = random.randrange(len(session))
    frame = bytearray(session[at])
    if len(frame) >= 8:
        part = random.randrange(3)
        if part == 0:
            frame[0] = random.choice(_KINDS)
        elif part == 1:
            frame[1:3] = random.choice((0, 1, 2, 2047, 2048, 0x8000, 0xFFFF)).to_bytes(2, "big")
        else:
            frame[3:7] = random.choice(INTERESTING).to_bytes(4, "big")
        session[at] = bytes(frame)


def _drop(random: Random, session: Frames, others: list[Frames]) -> None:
    del session[random.randrange(len(session))]


def _double(random: Random, session: Frames, others: list[Frames]) -> None:
    at = random.randrange(len(session))
    session[at:at] = [session[at]] * random.choice((1, 2, 100))


def _swap(random: Random, session: Frames, others: list[Frames]) -> None:
    a, b = random.randrange(len(session)), random.randrange(len(session))
    session[a], session[b] = session[b], session[a]


def _splice(random: Random, session: Frames, others: list[Frames]) -> None:
    """The rest of another session from here on."""
    other = random.choice(others)
    session[random.randrange(len(session)) :] = other[random.randrange(len(other)) :]


def _method(random: Random, session: Frames, others: list[Frames]) -> None:
    """Some method of the table, in either direction, with its defaults."""
    method = random.choice(list(METHODS.values()))
    channel = 0 if method.id >> 16 == 10 else 1
    session.insert(random.randrange(len(session) + 1), make_frame(1, channel, encode_method(method())))


_MUTATIONS: Final[tuple[Callable[[Random, Frames, list[Frames]], None], ...]] = (
    _bytes,
    _payload,
    _payload,
    _payload,
    _head,
    _drop,
    _double,
    _swap,
    _splice,
    _method,
    _method,
)


def mutated(random: Random, sessions: list[Frames]) -> bytes:
    """One of the sessions with a few things wrong. Mostly not in its handshake: nothing would come of it."""
    session = list(random.choice(sessions))
    # Protocol header, start-ok, tune-ok and open; or start, tune and open-ok.
    handshake = session[:4] if random.random() < 0.9 else []
    rest = session[len(handshake) :]
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        if rest:
            random.choice(_MUTATIONS)(random, rest, sessions)
    return b"".join(handshake + rest)
