"""Ways to spoil a session of AMQP 1.0: in the bytes, within frames, and in their order."""

from collections.abc import Callable
from random import Random
from typing import Final

from librt.strings import BytesWriter

from flintmq.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
)
from tests.amqp10_wire import write_frame
from tests.fuzz.mutation import INTERESTING, Frames, spoil

_KINDS: Final = (0, 1, 2, 255)

_PERFORMATIVES: Final[tuple[Performative, ...]] = (
    Open(),
    Begin(),
    Attach(),
    Attach(role=True),
    Flow(),
    Flow(handle=0, link_credit=100, drain=True, echo=True),
    Transfer(delivery_tag=b"t", message_format=0, delivery_id=100),
    Transfer(more=True, aborted=True, resume=True, delivery_tag=b"", delivery_id=7),
    Disposition(),
    Disposition(True, 0, 0x7FFF_FFFF, True),
    Detach(),
    Detach(closed=True),
    End(),
    Close(),
)


def frames(data: bytes) -> Frames:
    """Whole frames, and protocol headers, each by itself."""
    found = []
    pos = 0
    while pos < len(data):
        size = 8 if data.startswith(b"AMQP", pos) else int.from_bytes(data[pos : pos + 4], "big")
        found.append(data[pos : pos + size])
        pos += size
    return found


def make_frame(head: bytes, body: bytes) -> bytes:
    """`head` is what stands between a frame's size and its body."""
    return (4 + len(head) + len(body)).to_bytes(4, "big") + head + body


def _bytes(random: Random, session: Frames, others: list[Frames]) -> None:
    """Anywhere, so that frames do not end where they say."""
    data = bytearray(b"".join(session[1:]))
    if data:
        spoil(random, data)
    session[1:] = [bytes(data)]


def _body(random: Random, session: Frames, others: list[Frames]) -> None:
    """Within a frame that stays whole: most often in its performative."""
    at = random.randrange(len(session))
    frame = session[at]
    if len(frame) > 8:
        size = random.choice((len(frame), min(len(frame), 60)))
        body = bytearray(frame[8:size])
        spoil(random, body)
        session[at] = make_frame(frame[4:8], bytes(body) + frame[size:])


def _head(random: Random, session: Frames, others: list[Frames]) -> None:
    """Another size, data offset, type or channel."""
    at = random.randrange(len(session))
    frame = bytearray(session[at])
    if len(frame) >= 8:
        part = random.randrange(4)
        if part == 0:
            frame[0:4] = random.choice(INTERESTING).to_bytes(4, "big")
        elif part == 1:
            frame[4] = random.choice((0, 1, 3, 255))
        elif part == 2:
            frame[5] = random.choice(_KINDS)
        else:
            frame[6:8] = random.choice((0, 1, 63, 64, 0xFFFF)).to_bytes(2, "big")
        session[at] = bytes(frame)


def _drop(random: Random, session: Frames, others: list[Frames]) -> None:
    del session[random.randrange(len(session))]


def _double(random: Random, session: Frames, others: list[Frames]) -> None:
    at = random.randrange(len(session))
    session[at:at] = [session[at]] * random.choice((1, 2, 50))


def _swap(random: Random, session: Frames, others: list[Frames]) -> None:
    a, b = random.randrange(len(session)), random.randrange(len(session))
    session[a], session[b] = session[b], session[a]


def _splice(random: Random, session: Frames, others: list[Frames]) -> None:
    """The rest of another session from here on."""
    other = random.choice(others)
    session[random.randrange(len(session)) :] = other[random.randrange(len(other)) :]


def _performative(random: Random, session: Frames, others: list[Frames]) -> None:
    """One that says nothing but what it must."""
    w = BytesWriter()
    write_frame(w, random.choice((0, 0, 0, 1)), random.choice(_PERFORMATIVES))
    session.insert(random.randrange(len(session) + 1), w.getvalue())


_MUTATIONS: Final[tuple[Callable[[Random, Frames, list[Frames]], None], ...]] = (
    _bytes,
    _body,
    _body,
    _body,
    _body,
    _head,
    _drop,
    _double,
    _swap,
    _splice,
    _performative,
)


def mutated(random: Random, sessions: list[Frames]) -> bytes:
    """One of the sessions with a few things wrong. Mostly not in its handshake: nothing would come of it."""
    session = list(random.choice(sessions))
    # Two headers, what SASL says, and open: of a server one frame more.
    handshake = session[:4] if random.random() < 0.9 else []
    rest = session[len(handshake) :]
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        if rest:
            random.choice(_MUTATIONS)(random, rest, sessions)
    return b"".join(handshake + rest)
