"""A peer is read unless there is a reason not to, and its silence counts only once all its input has been read."""

import asyncio
from typing import Any, cast

import pytest

from flintmq.base.errors import ConnectionForced, FlintError
from flintmq.base.limits import (
    CREDIT_MESSAGES_PER_SECOND,
    INTAKE_SECONDS,
    OUTPUT_BACK_PRESSURE_BYTES,
    SEND_TIMEOUT_SECONDS,
    TICK_READ_BYTES,
)
from flintmq.broker.broker import Broker
from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.gateway.amqp091.service import ServerProperties
from flintmq.protocol.amqp091.connection import Login, Tuning
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import plain
from flintmq.server.amqp import AmqpServer
from flintmq.server.back_pressure import ALARM, CREDIT, JOURNAL, OUTPUT, TICK
from flintmq.server.host import Logins
from flintmq.server.peer import Peer
from flintmq.wire.amqp091.frames import HEARTBEAT_FRAME
from flintmq.wire.amqp091.method_codec import encode_method
from flintmq.wire.amqp091.methods import BasicConsume, BasicPublish, ConnectionClose, QueueDeclare
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.sim.loop import VirtualLoop
from tests.sockets import method_frame
from tests.unit.broker.memory import MemoryStorage
from tests.unit.protocol.amqp091.pair import Recorder, Side

TUNING = Tuning(heartbeat=10)


class OpenDoor:
    def check(self, *arguments: Any) -> None:  # noqa: ANN401 - what there is to say of a login
        arguments[-1]("")

    def close(self) -> None:
        pass


class Wire(asyncio.Transport):
    """What the server writes goes to the client at once; what the client says is read when the test says so."""

    def __init__(self, client: Side) -> None:
        super().__init__()
        self._client = client
        self.is_over = False
        self.is_read = True
        self.unsent = 0

    def write(self, data: Any) -> None:  # noqa: ANN401 - bytes of some kind
        self._client.engine.receive(bytes(data), 0.0)

    def writelines(self, list_of_data: Any) -> None:  # noqa: ANN401
        self.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        return ("127.0.0.1", 1) if name.endswith("name") else default

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_over

    def abort(self) -> None:
        self.is_over = True

    def close(self) -> None:
        self.is_over = True


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop(100.0)


@pytest.fixture
def opened(loop: VirtualLoop) -> tuple[Peer, Wire]:
    """A connection with a heartbeat of ten seconds, of which the client has just said something."""
    client = Side(Role.CLIENT, TUNING, Login("PLAIN", plain.response("u", "secret"), "/", {}))
    wire = Wire(client)

    async def accept() -> Peer:
        broker = Broker(MemoryStorage())
        broker.add_vhost("/")
        broker.put_user(UserRecord("u", ""))
        broker.put_rule(PermissionRecord("/", "u", ".*", ".*", ".*"))
        logins = cast(Logins, OpenDoor())
        server = AmqpServer(broker, ServerProperties({}, TUNING), logins, bytes, 10, lambda: int(loop.time() * 1000))
        peer = server.protocol()
        peer.connection_made(wire)
        return peer

    peer = loop.complete(accept(), loop.time())
    while not peer.has_spoken or not peer.connection.engine.is_open:
        if said := client.sent():
            peer.data_received(said)
        loop.run(loop.time())
    return peer, wire


def closed(peer: Peer) -> FlintError | None:
    return peer.connection.closed


def test_what_came_during_a_standstill_is_read_first(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """A heartbeat that the event loop finds in its next turn, behind the timers that are late, counts."""
    peer, wire = opened
    for _ in range(3):
        loop.stand_still(30.0)
        loop.call_later(0.001, peer.data_received, HEARTBEAT_FRAME)
        loop.run(loop.time() + 1.0)
        assert closed(peer) is None
    assert not wire.is_over


def test_silence_ends_a_connection_after_a_standstill(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """Where nothing came meanwhile, the peer is lost as it would have been."""
    peer, wire = opened
    loop.stand_still(30.0)
    loop.run(loop.time() + 1.0)
    assert "missed heartbeats" in str(closed(peer))
    assert wire.is_over


def test_the_end_of_one_reason_leaves_the_others(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """The end of an alarm does not resume a client that does not read its output; reading its output does."""
    peer, wire = opened
    peer.gate.add(ALARM)
    peer.gate.add(OUTPUT)
    peer.go_on(ALARM)
    loop.run(loop.time())
    assert not wire.is_read
    peer.resume_writing()
    loop.run(loop.time())
    assert wire.is_read


def test_unread_output_stops_reading(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """The tick stops reading a client with too much output that it has not read, until it has."""
    peer, wire = opened
    wire.unsent = OUTPUT_BACK_PRESSURE_BYTES + 1
    peer.data_received(HEARTBEAT_FRAME)
    loop.run(loop.time())
    assert peer.gate.reasons == OUTPUT
    assert not wire.is_read
    wire.unsent = 0
    peer.resume_writing()
    assert wire.is_read


def test_one_tick_of_input(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """A client that has sent as much as a tick takes in is read again when the tick has run."""
    peer, wire = opened
    peer.data_received(HEARTBEAT_FRAME * (TICK_READ_BYTES // len(HEARTBEAT_FRAME) + 1))
    assert peer.gate.reasons == TICK
    assert not wire.is_read
    loop.run(loop.time())
    assert wire.is_read


def test_a_small_share_of_a_tick(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """The event loop gets a buffer of the size of the share, and a client that has filled it waits for the tick."""
    peer, wire = opened
    intake = peer._connections.intake
    intake.share = 10 * len(HEARTBEAT_FRAME)
    buffer = peer.get_buffer(-1)
    assert len(buffer) == intake.share
    buffer[:] = HEARTBEAT_FRAME * 10
    before = peer.received_bytes
    peer.buffer_updated(len(buffer))
    assert peer.received_bytes == before + len(buffer)
    assert (peer.gate.reasons, wire.is_read) == (TICK, False)
    loop.run(loop.time())
    assert wire.is_read


def test_turns(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """While clients wait for each other, one that has sent its share is read again when its turn has come."""
    peer, wire = opened
    intake = peer._connections.intake
    peer.data_received(HEARTBEAT_FRAME)
    intake.end_tick([1_000, 1_000], 100, 1.0, 1.0, False, False, 0)
    assert intake.is_contended
    intake.share = 2 * len(HEARTBEAT_FRAME)
    peer.data_received(HEARTBEAT_FRAME)
    assert (peer.gate.reasons, wire.is_read) == (TICK, False)
    loop.run(loop.time())
    assert wire.is_read


def test_a_tick_is_short_for_a_modest_publisher(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """That is one with less than its share, whose message a consumer of an empty queue waits for."""
    peer, wire = opened
    intake = peer._connections.intake
    client = wire._client
    channel = client.engine.open_channel(Recorder())
    channel.send(QueueDeclare("q", exclusive=True))
    channel.send(BasicConsume("q", no_ack=True))
    peer.data_received(client.sent())
    loop.run(loop.time())
    intake.end_tick([1_000, 1_000], 100, 1.0, 1.0, False, False, 0)
    peer.data_received(HEARTBEAT_FRAME)
    loop.run(loop.time())
    assert intake.is_contended
    assert intake.dispatch_seconds >= 2 * INTAKE_SECONDS
    channel.send_content(encode_method(BasicPublish("", "q")), encode_properties(Properties()), b"polite")
    peer.data_received(client.sent())
    loop.run(loop.time())
    assert intake.dispatch_seconds < 2 * INTAKE_SECONDS


def test_credit(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """A client that has published more than consumers take is read again when they have taken as much."""
    peer, wire = opened
    credit = peer._connections.credit
    dispatch = peer._dispatch
    credit.charge(peer, 10 * CREDIT_MESSAGES_PER_SECOND)
    peer.data_received(HEARTBEAT_FRAME)
    assert (peer.gate.reasons, wire.is_read, peer.is_slowed) == (CREDIT, False, True)
    # There was some credit left: the client is read, and pays for it with the next credit.
    loop.run(loop.time() + 0.01)
    assert wire.is_read
    credit.charge(peer, 1)
    peer.data_received(HEARTBEAT_FRAME)
    loop.run(loop.time() + 1.0)
    assert not wire.is_read
    dispatch.taken = 10 * CREDIT_MESSAGES_PER_SECOND
    loop.run(loop.time() + 0.01)
    assert wire.is_read
    loop.run(loop.time() + 4.5)
    assert not peer.is_slowed


def test_last_bytes_that_the_client_does_not_read(
    loop: VirtualLoop, opened: tuple[Peer, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is closed ends after the send timeout, also if its transport tells of them only then."""
    peer, wire = opened
    assert peer._timer is not None
    # As without heartbeats, whose timer would end it sooner.
    peer._timer.cancel()
    monkeypatch.setattr(wire, "close", lambda: setattr(wire, "unsent", 10))
    peer.data_received(method_frame(0, ConnectionClose(200, "bye", 0, 0)))
    loop.run(loop.time() + SEND_TIMEOUT_SECONDS / 2)
    assert closed(peer) is not None
    assert not wire.is_over
    loop.run(loop.time() + SEND_TIMEOUT_SECONDS)
    assert wire.is_over


def test_the_answer_to_a_close_is_read(loop: VirtualLoop, opened: tuple[Peer, Wire]) -> None:
    """A connection that waits for close-ok is read, whatever stopped it before."""
    peer, wire = opened
    peer.gate.add(JOURNAL)
    peer.connection.fail(ConnectionForced("test"))
    loop.call_soon(peer.flush, loop.time())
    loop.run(loop.time())
    assert wire.is_read
    assert peer.gate.reasons == 0
