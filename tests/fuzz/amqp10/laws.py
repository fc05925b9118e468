"""What has to hold of any input in AMQP 1.0: it is understood, or refused with a condition, and nobody hangs."""

from contextlib import suppress
from typing import Final

from librt.strings import BytesWriter

from flintmq.base.errors import DecodeError, FramingError
from flintmq.gateway.amqp10.connection import ServerConnection
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.wire.amqp10.frames import decode_body, decode_sasl_body, write_body
from flintmq.wire.amqp10.performatives import Attach, Begin, Close, Detach, End, Open, Performative
from flintmq.wire.amqp10.sections import scan
from flintmq.wire.amqp10.states import Accepted, Released
from flintmq.wire.amqp10.termini import Source, Target
from tests.fuzz.laws import TICK_BYTES, settle
from tests.fuzz.mutation import Frames
from tests.unit.gateway.amqp10.pair import Client, Server
from tests.unit.protocol.amqp10.pair import Meets, Receives, Sends, Side


def check_codec(body: bytes) -> None:
    """What can be read is written the same from then on, and what cannot be is an error of the codec's."""
    with suppress(DecodeError):
        scan(body)
    for is_sasl in (False, True):
        try:
            value = decode_sasl_body(body, 0, len(body)) if is_sasl else decode_body(body, 0, len(body))[0]
        except (DecodeError, FramingError):
            continue
        w = BytesWriter()
        write_body(w, value)
        written = w.getvalue()
        again = decode_sasl_body(written, 0, len(written)) if is_sasl else decode_body(written, 0, len(written))[0]
        w = BytesWriter()
        write_body(w, again)
        assert w.getvalue() == written, value


def check_server(data: bytes) -> None:
    """Whole and byte by byte, a server says the same of sessions and links, and goes on serving others."""
    assert _served(data, len(data) or 1) == _served(data, 1)


def _served(data: bytes, step: int) -> list[Performative]:
    server = Server()
    server.queue("q")
    output = Output(Outbox())
    connection = ServerConnection(server.service, output, "test:1")
    engine = connection.engine
    said = b""
    for start in range(0, len(data) + TICK_BYTES, TICK_BYTES):
        tick = data[start : start + TICK_BYTES]
        engine.refresh()
        for at in range(0, len(tick), step):
            engine.receive(tick[at : at + step], 0.0)
        settle(server.gateway, server.storage)
        said += b"".join(output.take())
    found = answered(said)
    other = Client(server, container="other")
    (state,) = other.sender("/exchanges/amq.fanout").publish("still served")
    assert isinstance(state, (Accepted, Released))
    engine.lost(None)
    settle(server.gateway, server.storage)
    return found


def answered(data: bytes) -> list[Performative]:
    """What an answer says of connections, sessions and links. All of its frames are whole and can be read.

    How often a flow or a disposition comes depends on how many bytes came together.
    """
    found: list[Performative] = []
    for frame in whole_frames(data):
        if frame[5] == 1:
            decode_sasl_body(frame, 8, len(frame))
        elif len(frame) > 8:
            performative, _ = decode_body(frame, 8, len(frame))
            if isinstance(performative, (Open, Begin, Attach, Detach, End, Close)):
                found.append(performative)
            if isinstance(performative, Close):
                break
    return [_without_words(each) for each in found]


def _without_words(performative: Performative) -> Performative:
    """Words may say where in the bytes that came together an error was found."""
    if isinstance(performative, (Detach, End, Close)) and performative.error is not None:
        assert performative.error.condition.startswith("amqp:"), performative
        performative.error.description = None
    return performative


def whole_frames(data: bytes) -> Frames:
    found = []
    pos = 0
    while pos < len(data):
        if data.startswith(b"AMQP", pos):
            pos += 8
            continue
        size = int.from_bytes(data[pos : pos + 4], "big")
        assert 8 <= size <= len(data) - pos
        found.append(data[pos : pos + size])
        pos += size
    return found


_LINKS: Final = ("to /queues/q", "from /queues/q", "control", "pair", "lasting")


def check_client(data: bytes) -> None:
    """A client's engine ends where it ends whatever a server says, whole and byte by byte, with the same reason."""
    assert _connected(data, len(data) or 1) == _connected(data, 1)


def _connected(data: bytes, step: int) -> list[object]:
    side = Side(Role.CLIENT, Tuning(), Open(container_id="client"), logs_in=True)
    at = 0
    while at < len(data) and not side.engine.is_open:
        side.engine.receive(data[at : at + 1], 0.0)
        at += 1
    owner = Meets()
    senders = [Sends() for _ in _LINKS]
    receivers = [Receives() for _ in _LINKS]
    if side.engine.is_open:
        session = side.engine.begin(owner)
        for name, sends, receives in zip(_LINKS, senders, receivers, strict=True):
            sends.link = session.attach_sender(sends, Attach(name=name, source=Source(), target=Target()))
            receives.accepts = True
            receives.link = session.attach_receiver(receives, Attach(name=name, source=Source(), target=Target()))
            receives.link.grant(5)
    for start in range(at, len(data), step):
        side.engine.receive(data[start : start + step], 0.0)
        side.engine.refresh()
    whole_frames(side.take())
    return [
        [type(error) for error in side.closed],
        [type(error) for error in owner.ended],
        [[(delivery and delivery.tag, payload) for delivery, payload in each.messages] for each in receivers],
        [len(each.detached) for each in receivers],
        [[(delivery.tag, state, settled) for delivery, state, settled in each.dispositions] for each in senders],
        [each.flows for each in senders],
    ]
