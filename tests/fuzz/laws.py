"""What has to hold of any input: it is understood, or refused with a typed error of the protocol, and nobody hangs."""

from typing import Final

from flintmq.base.errors import NotImplementedHere, SyntaxFault
from flintmq.client.session import Session
from flintmq.client.waitable import Request
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.gateway import Gateway
from flintmq.protocol.amqp091.connection import Login, Tuning
from flintmq.protocol.amqp091.states import State
from flintmq.protocol.output import Outbox, Output
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from flintmq.wire.amqp091.properties import decode_properties, scan
from flintmq.wire.amqp091.tables import check_table, decode_table
from tests.unit.broker.memory import MemoryStorage
from tests.unit.gateway.amqp091.pair import Client, Server

REPLY_CODES: Final = {
    *(200, 311, 312, 313, 320, 402, 403, 404, 405, 406),
    *(501, 502, 503, 504, 505, 506, 530, 540),
}
# More rounds than any input of a few kilobytes can ask for.
_ROUNDS_MAX: Final = 10_000
# What comes between two ticks: enough for some methods, so that their consequences come before the next ones.
TICK_BYTES: Final = 200
_STATES: Final = (
    State.HEADER,
    State.START_OK,
    State.TUNE_OK,
    State.AWAIT_OPEN,
    State.OPEN,
    State.CLOSING,
    State.CLOSED,
)
_LOGIN: Final = Login("PLAIN", b"\0u\0secret")


def check_codec(data: bytes) -> None:
    """Each decoder reads it or raises its error, and the checks that decode nothing agree."""
    outcomes = []
    for read in (decode_properties, scan):
        try:
            read(data)
            outcomes.append("")
        except SyntaxFault as fault:
            outcomes.append(fault.text)
    assert bool(outcomes[0]) == bool(outcomes[1]), outcomes
    ends = []
    for is_checked in (False, True):
        try:
            ends.append(check_table(data, 0, data.isascii()) if is_checked else decode_table(data, 0)[1])
        except SyntaxFault:
            ends.append(-1)
    assert ends[0] == ends[1], ends
    try:
        method = decode_method(data)
    except (SyntaxFault, NotImplementedHere):
        return
    assert decode_method(encode_method(method)) == method


def check_server(data: bytes) -> None:
    """Whole and byte by byte, a server says the same, and goes on serving others."""
    assert _served(data, len(data) or 1) == _served(data, 1)


def _served(data: bytes, step: int) -> list[tuple[int, int, bytes]]:
    server = Server()
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
    assert engine.state in _STATES, engine.state
    other = Client(server).channel()
    (answer,) = other.call(QueueDeclare(queue="still served", exclusive=True))
    assert isinstance(answer, QueueDeclareOk)
    engine.lost(None)
    settle(server.gateway, server.storage)
    return found


def settle(gateway: Gateway, storage: MemoryStorage) -> None:
    """Ticks until nothing is left to do, and a disk that keeps up."""
    for _ in range(_ROUNDS_MAX):
        if not gateway.end_tick():
            break
    else:
        raise AssertionError("the tick finds no end")
    storage.sync()
    gateway.on_durable()


def answered(data: bytes) -> list[tuple[int, int, bytes]]:
    """The frames of an answer, which are whole, and whose closes have codes of the specification."""
    if data.startswith(b"AMQP"):
        return []
    found = []
    is_over = False
    pos = 0
    while pos < len(data):
        size = int.from_bytes(data[pos + 3 : pos + 7], "big")
        payload = data[pos + 7 : pos + 7 + size]
        assert data[pos + 7 + size] == 0xCE
        if data[pos] == 1:
            method = decode_method(payload)
            if method.id in (methods.CONNECTION_CLOSE, methods.CHANNEL_CLOSE):
                assert int.from_bytes(payload[4:6], "big") in REPLY_CODES, method
            is_over |= method.id == methods.CONNECTION_CLOSE
        found.append((data[pos], int.from_bytes(data[pos + 1 : pos + 3], "big"), payload))
        if is_over:
            # Where frames begin and end is not known behind a broken one: what comes by chance is not compared.
            break
        pos += 8 + size
    return found


def check_client(data: bytes) -> None:
    """A client ends where it ends whatever a server says, whole and byte by byte, with the same reason."""
    assert _connected(data, len(data) or 1) == _connected(data, 1)


def _connected(data: bytes, step: int) -> str:
    session = Session(_LOGIN, Tuning())
    at = 0
    while at < len(data) and not session.opened.is_ready:
        session.receive(data[at : at + 1], 0.0)
        at += 1
    if session.opened.is_ready and session.closed is None:
        # So much was asked, and may be answered.
        channel, _ = session.open_channel()
        channel.ask(Request(QueueDeclare(queue="q"), QueueDeclareOk))
        channel.ask(Request(ConfirmSelect(), ConfirmSelectOk))
        channel.subscribe(Request(BasicConsume(queue="q", no_ack=True), BasicConsumeOk))
        channel.ask(Request[Method](BasicGet(queue="q"), BasicGetOk, BasicGetEmpty))
    for start in range(at, len(data), step):
        session.receive(data[start : start + step], 0.0)
    answered(b"".join(session.take_output())[8:])
    return str(session.closed)
