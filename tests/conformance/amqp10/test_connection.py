"""Part 2 §2.1 to §2.4, §2.7.1, §2.7.9: headers, frames, open and close, as a client finds the server."""

import struct
from contextlib import suppress

import pytest

from flintmq.base.limits import CLOSE_WAIT_SECONDS
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.server.config import Settings
from flintmq.wire.amqp091.frames import PROTOCOL_HEADER as OLDER_HEADER
from flintmq.wire.amqp091.methods import ConnectionStartOk
from flintmq.wire.amqp10.performatives import Attach, Begin, Close, Flow, Open, SaslInit, SaslOutcome, Transfer
from flintmq.wire.amqp10.spec import PROTOCOL_HEADER, SASL_HEADER
from flintmq.wire.amqp10.states import ACCEPTED, Error
from flintmq.wire.amqp10.termini import Source, Target
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import data_section, encode_body, text
from tests.conformance.amqp10.links import Receiver
from tests.conformance.amqp10.long_encodings import described, list32, ulong64
from tests.conformance.amqp10.peer import SASL_FRAME, Peer, frame
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import WINDOW, Session
from tests.conformance.brokers import Broker, MemoryBroker
from tests.servers import BrokerProcess
from tests.sockets import method_frame
from tests.unit.protocol.amqp10.pair import Pair

BEGIN = Begin(incoming_window=WINDOW, outgoing_window=WINDOW)
# In any of these ways a server may say which it speaks, as the specifications have it, whatever our sources say.
HEADERS = (b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x00\x09\x01")


# -- §2.1, §2.2 -------------------------------------------------------------------------------------------------------


@rule("2.1.frames-in-order")
def test_2_1_frames_in_order(raw: Peer, queues: Queues) -> None:
    """A session with two messages, byte by byte: both are there, in their order."""
    address = queues.address()
    raw.start()
    session = raw.session()
    sender = session.sender(address)
    raw.wait(lambda: sender.credit > 1)
    frames = [
        frame(session.channel, Transfer(sender.handle, id, b"%d" % id, 0, settled=True), text(id)) for id in range(2)
    ]
    for each in b"".join(frames):
        raw.send(bytes([each]))
    assert session.receiver(address, credit=2).bodies(2) == [0, 1]


@rule("2.2.header-first")
def test_2_2_header_first(raw: Peer) -> None:
    """A frame before any header: what comes back is a header, and then nothing."""
    raw.send(frame(0, Open("impatient")))
    said = raw.rest()
    assert said in HEADERS


@rule("2.2.version-kept")
def test_2_2_version_kept(broker: Broker) -> None:
    """Behind the header of 1.0 the header of 0-9-1 is taken for a frame, and a bad one; so is a frame of 0-9-1."""
    for older in (OLDER_HEADER, method_frame(0, ConnectionStartOk())):
        with Peer(broker.connect()) as peer:
            peer.log_in()
            peer.send(older)
            # What the server says is of that version as well: a frame with open, and one with close.
            peer.answer(Open)
            peer.expect_close("amqp:connection:framing-error")


@rule("2.2.mismatch")
def test_2_2_mismatch(raw: Peer) -> None:
    """Version 1.1.0: a header of the server's, the end of what it says, and it reads what else comes, to its end."""
    raw.send(b"AMQP\x00\x01\x01\x00")
    assert raw.rest() in HEADERS
    # Who hangs up without reading resets the connection, which the second of these finds out at the latest.
    for _ in range(12):
        raw.send(bytes(65_536))


@rule("2.2.supported")
def test_2_2_supported(broker: Broker) -> None:
    """That of SASL, and behind it that of AMQP."""
    assert {PROTOCOL_HEADER, SASL_HEADER, OLDER_HEADER} == set(HEADERS)
    with Peer(broker.connect()) as peer:
        peer.mechanisms()
        assert peer.sasl(SaslInit("PLAIN", b"\0guest\0guest"), SaslOutcome).code == 0
        peer.exchange_headers()


@pytest.mark.parametrize("version", [b"\x00\x02\x00\x00", b"\x00\x01\x01\x00", b"\x00\x01\x00\x01"])
@rule("2.2.unsupported")
def test_2_2_unsupported(raw: Peer, version: bytes) -> None:
    """Versions 2.0.0, 1.1.0 and 1.0.1."""
    raw.send(b"AMQP" + version)
    assert raw.rest() in HEADERS


@rule("2.2.version-below")
def test_2_2_version_below(broker: Broker) -> None:
    """Asked for 1.1.0, the server names 1.0.0, with or without SASL; asked for 0.10.0, it names 0-9-1."""
    for asked, named in (
        (b"AMQP\x00\x01\x01\x00", (PROTOCOL_HEADER, SASL_HEADER)),
        (b"AMQP\x00\x00\x0a\x00", (OLDER_HEADER,)),
    ):
        with Peer(broker.connect()) as raw:
            raw.send(asked)
            assert raw.rest() in named


@rule("2.2.version-highest")
def test_2_2_version_highest(raw: Peer) -> None:
    """Asked for 0.1.0, below all that is spoken: the server names 1.0.0."""
    raw.send(b"AMQP\x00\x00\x01\x00")
    assert raw.rest() in (PROTOCOL_HEADER, SASL_HEADER)


@rule("2.2.unparsable")
def test_2_2_unparsable(raw: Peer) -> None:
    """HTTP is told what is spoken here."""
    raw.send(b"GET / HTTP/1.1\r\n\r\n")
    assert raw.rest() in HEADERS


@rule("2.2.protocol-id")
def test_2_2_protocol_id(raw: Peer) -> None:
    """Id 9 is nobody's, and id 0 is not for those that did not log in."""
    raw.send(b"AMQP\x09\x01\x00\x00")
    assert raw.rest() in HEADERS


# -- §2.3 -------------------------------------------------------------------------------------------------------------


@rule("2.3.1.size")
def test_2_3_1_size(broker: Broker, peer: Peer) -> None:
    """Sizes of 0 to 7, and a data offset beyond the frame or in its header. What the server sends fits."""
    for head in (struct.pack(">IBBH", size, 2, 0, 0) for size in range(8)):
        with Peer(broker.connect()) as client:
            client.start().send(head)
            client.expect_close("amqp:connection:framing-error")
    for offset in (0, 1, 3):
        with Peer(broker.connect()) as client:
            client.start().send(struct.pack(">IBBH", 8, offset, 0, 0))
            client.expect_close("amqp:connection:framing-error")
    # Every frame was read by its size, and the next began behind it.
    peer.session().sync()


@rule("2.3.2.performative")
def test_2_3_2_performative(broker: Broker) -> None:
    """A value, a made-up type, half a descriptor; an outcome and a SASL frame, which no AMQP frame can carry."""
    wrong = {
        b"\xa1\x02no": "amqp:decode-error",
        described(ulong64(0x99), list32()): "amqp:decode-error",
        b"\x00\x53": "amqp:decode-error",
        encode_body(ACCEPTED): "amqp:connection:framing-error",
        encode_body(SaslInit("PLAIN")): "amqp:connection:framing-error",
    }
    for content, condition in wrong.items():
        with Peer(broker.connect()) as peer:
            peer.start().write(0, None, content)
            peer.expect_close(condition)
    with Peer(broker.connect()) as peer:
        peer.start().send(frame(0, SaslInit("PLAIN"), kind=SASL_FRAME))
        peer.expect_close("amqp:connection:framing-error")


# -- §2.4 -------------------------------------------------------------------------------------------------------------


@rule("2.4.3.close-written")
def test_2_4_3_close_written(broker: Broker) -> None:
    """On an error it is there with its reason, and on a close of the client's without one."""
    with Peer(broker.connect()) as peer:
        peer.start().write(0, None, b"\xa1\x02no")
        peer.expect_close("amqp:decode-error")
    with Peer(broker.connect()) as peer:
        peer.start().write(0, Close())
        peer.expect_close(None)


@rule("2.4.3.close-last")
def test_2_4_3_close_last(connect: Connect, queues: Queues) -> None:
    """With deliveries on their way out: no frame behind the close."""
    peer = connect()
    session = peer.session()
    address = queues.address()
    session.sender(address).accepted(*[text("x" * 1000)] * 50)
    session.receiver(address, credit=50)
    peer.shut()


@rule("2.4.3.reads-until-close")
def test_2_4_3_reads_until_close(broker: Broker) -> None:
    """After the server's close it takes what else comes, and hangs up after ours, or when it has waited long enough."""
    with Peer(broker.connect()) as peer, Peer(broker.connect()) as silent:
        for each in (peer, silent):
            each.start().write(0, None, b"\xa1\x02no")
            each.wait(lambda: each.closed is not None)  # noqa: B023 - waited for at once
        began = broker.time()
        for _ in range(10):
            peer.write(0, BEGIN)
        peer.write(0, Close())
        assert peer.rest() == b""
        # It says no close at all. The server may count from a little before the close was read here.
        with suppress(ConnectionResetError):
            assert silent.rest() == b""
        assert broker.time() - began > CLOSE_WAIT_SECONDS - 1.0


@rule("2.4.3.channel-0")
def test_2_4_3_channel_0(raw: Peer) -> None:
    """The server's are, as the peer checks on every connection; also when the client's came on another channel."""
    raw.start()
    raw.write(3, Close())
    raw.wait(lambda: raw.closed is not None)
    assert raw.rest() == b""


@rule("2.4.3.socket-not-reused")
def test_2_4_3_socket_not_reused(raw: Peer) -> None:
    """A second open behind the close: no answer, the socket is at its end."""
    raw.start()
    raw.send(frame(0, Close()), PROTOCOL_HEADER, frame(0, Open("again")))
    raw.wait(lambda: raw.closed is not None)
    assert raw.rest() == b""


@rule("2.4.5.empty-frames")
def test_2_4_5_empty_frames(connect: Connect) -> None:
    """A peer that wants to hear something every second does, on channel 0.

    How soon is told by the engine alone, on a clock of the test's: at half of what the peer asked for, not before, and
    again as long after whatever was sent last; and at no time before open.
    """
    peer = connect(idle_time_out=1000)
    peer.wait(lambda: len(peer.empty_frames) >= 3)
    assert set(peer.empty_frames) == {0}
    # An engine asks for half of what it waits: for 1,000 ms.
    pair = Pair(client=Tuning(idle_timeout_ms=2_000), server=Tuning(idle_timeout_ms=0))
    server = pair.server.engine
    server.handle_timer(100.0)
    assert (server.next_timer(), pair.server.take()) == (None, b"")
    pair.open()
    server.sent(100.0)
    said = []
    for milliseconds in range(100_000, 102_600, 100):
        server.handle_timer(milliseconds / 1000)
        if sent := pair.server.take():
            said.append((milliseconds, sent))
        if milliseconds == 101_700:
            # Something else was sent.
            server.sent(101.7)
    assert said == [(each, frame(0, None)) for each in (100_500, 101_000, 101_500, 102_200)]


@rule("2.4.5.closed-with-error")
def test_2_4_5_closed_with_error(loaded: Settings) -> None:
    """A server that stood still for longer than the peer waits says so, and goes."""
    with MemoryBroker(loaded) as broker, Peer(broker.connect()) as peer:
        peer.start(idle_time_out=500)
        broker.stand_still(2.0)
        error = peer.expect_close("amqp:resource-limit-exceeded")
        assert error is not None
        assert "remote idle timeout" in (error.description or "")


@clause("2.4.5.silent-peer")
def test_2_4_5_silent_peer(impatient: MemoryBroker) -> None:
    """The server waits twice as long as it said, and then says why it goes."""
    with Peer(impatient.connect()) as peer:
        peer.start()
        began = impatient.time()
        assert peer.opened.idle_time_out == 500
        error = peer.expect_close("amqp:resource-limit-exceeded")
        # It looks only as often as that.
        assert 1.0 <= impatient.time() - began <= 1.5
        assert error is not None
        assert "local-idle-timeout" in (error.description or "")


@clause("2.4.5.idle-time-out")
def test_2_4_5_idle_time_out(peer: Peer) -> None:
    """In its open."""
    assert peer.opened.idle_time_out
    assert peer.opened.idle_time_out >= 1000


@rule("2.4.6.discarding")
def test_2_4_6_discarding(broker: Broker, queues: Queues) -> None:
    """Behind an error, in the same batch, a whole message: it is not there, and no other error is said."""
    address = queues.address()
    with Peer(broker.connect()) as peer:
        session = peer.start().session()
        sender = session.sender(address)
        peer.wait(lambda: sender.credit > 0)
        transfer = Transfer(sender.handle, 0, b"t", 0, settled=True)
        peer.send(frame(0, None, b"\xa1\x02no"), frame(session.channel, transfer, text()))
        peer.expect_close("amqp:decode-error")
    assert queues.count(address) == 0


@clause("2.4.2.pipelined-open")
def test_2_4_2_pipelined_open(broker: Broker, queues: Queues) -> None:
    """All up to a receiver with credit, without waiting for any answer: the message comes.

    What is sent needs credit, which has to be waited for.
    """
    address = queues.address()
    queues.publish(address, b"there")
    with Peer(broker.connect()) as peer:
        peer.send(
            SASL_HEADER,
            frame(0, SaslInit("PLAIN", b"\0guest\0guest"), kind=SASL_FRAME),
            PROTOCOL_HEADER,
            frame(0, Open("hasty")),
            frame(0, BEGIN),
            frame(0, Attach("hasty", 0, True, source=Source(address), target=Target())),
            frame(0, Flow(0, WINDOW, 0, WINDOW, handle=0, delivery_count=0, link_credit=1)),
        )
        assert peer.read(8) == SASL_HEADER
        peer.read_frame()
        assert peer.read_frame()[0] == SASL_FRAME
        assert peer.read(8) == PROTOCOL_HEADER
        session = Session(peer, 0)
        peer.sessions.append(session)
        link = Receiver(session)
        link.name = "hasty"
        session.links.append(link)
        peer.answer(Open)
        assert link.get().message.bare == data_section(b"there")


# -- §2.7.1 open ------------------------------------------------------------------------------------------------------


@rule("2.7.1.open-first")
def test_2_7_1_open_first(broker: Broker) -> None:
    """begin, or close, before open; a second open."""
    for body in (BEGIN, Close()):
        with Peer(broker.connect()) as peer:
            peer.log_in()
            peer.write(0, body)
            # The first that the server says is an open, also where nothing but a close is to follow.
            peer.answer(Open)
            peer.expect_close("amqp:illegal-state")
    with Peer(broker.connect()) as peer:
        peer.start().write(0, Open("again"))
        peer.expect_close("amqp:illegal-state")


@rule("2.7.1.hostname")
def test_2_7_1_hostname(broker: Broker) -> None:
    """Missing, null, or the server's own name in both: let in."""
    for hostname in (None, "localhost"):
        with Peer(broker.connect()) as peer:
            peer.mechanisms()
            assert peer.sasl(SaslInit("PLAIN", b"\0guest\0guest", hostname), SaslOutcome).code == 0
            peer.exchange_headers()
            peer.open(hostname=hostname)
            peer.session()


@rule("2.7.1.max-frame-size-kept")
def test_2_7_1_max_frame_size_kept(connect: Connect, queues: Queues) -> None:
    """512 octets: a message of 10,000 comes in frames that are no larger, whole."""
    peer = connect(max_frame_size=512)
    session = peer.session()
    address = queues.address()
    session.sender(address).accepted(data_section(bytes(10_000)))
    assert session.receiver(address, credit=1).get().message.bare == data_section(bytes(10_000))
    assert peer.largest_frame <= 512


@rule("2.7.1.oversized-frame")
def test_2_7_1_oversized_frame(peer: Peer) -> None:
    """One octet more than the server's max-frame-size, announced by its head."""
    size = peer.opened.max_frame_size
    assert size < 0xFFFF_FFFF
    peer.send(struct.pack(">IBBH", size + 1, 2, 0, 0))
    peer.expect_close("amqp:connection:framing-error")


@rule("2.7.1.frames-of-512")
def test_2_7_1_frames_of_512(broker: Broker) -> None:
    """An open that fills 512 octets, and then a begin that does."""
    with Peer(broker.connect()) as peer:
        peer.log_in()
        peer.write(0, Open("c" * (512 - 8 - len(encode_body(Open("c" * 256))) + 256)))
        peer.answer(Open)
        begin = Begin(incoming_window=WINDOW, outgoing_window=WINDOW, properties={"fill": "x" * 400})
        session = Session(peer, 0)
        peer.sessions.append(session)
        peer.write(0, begin)
        peer.wait(lambda: session.begun is not None)


@rule("2.7.1.channel-max-kept")
def test_2_7_1_channel_max_kept(connect: Connect) -> None:
    """Two channels: two sessions are answered on channels up to 1."""
    peer = connect(channel_max=1)
    for _ in range(2):
        peer.session().sync()
    assert max(peer.channels) <= 1


@rule("2.7.1.channel-above-max")
def test_2_7_1_channel_above_max(peer: Peer) -> None:
    """One above the server's channel-max."""
    assert peer.opened.channel_max < 0xFFFF
    peer.write(peer.opened.channel_max + 1, BEGIN)
    peer.expect_close("amqp:connection:framing-error")


@rule("2.7.1.en-us")
def test_2_7_1_en_us(connect: Connect) -> None:
    """Asked for German texts, the server says its errors in the English that others get; it says no other locale."""
    descriptions = []
    for locales in ([], ["de-DE"], ["fr-FR", "en-US"]):
        peer = connect(incoming_locales=locales)
        assert {*(peer.opened.outgoing_locales or ["en-US"])} == {"en-US"}
        session = peer.session()
        session.flow(handle=7, link_credit=1, delivery_count=0)
        error = session.expect_end("amqp:session:unattached-handle")
        descriptions.append(error.description)
    assert descriptions == ["flow on handle 7, to which no link is attached"] * 3


@rule("2.7.1.missing-capability")
def test_2_7_1_missing_capability(connect: Connect) -> None:
    """A desired capability that the server has not is not in its answer; the client closes, and is answered."""
    peer = connect(desired_capabilities=["MADE_UP"])
    assert "MADE_UP" not in peer.opened.offered_capabilities
    peer.shut(Error("amqp:not-implemented", "MADE_UP is missing"))


@rule("2.7.9.close-sent")
def test_2_7_9_close_sent(mortal: BrokerProcess) -> None:
    """A server that is stopped closes its connections: connection:forced."""
    with Peer(mortal.port) as peer:
        peer.start().session().sync()
        mortal.process.terminate()
        peer.expect_close("amqp:connection:forced")
        assert mortal.ended() == 0


@clause("2.8.14.error-fields")
def test_2_8_14_error_fields(session: Session) -> None:
    """No such queue: the condition, and words that name it."""
    error = session.sender("/queues/no-such").expect_refusal("amqp:not-found")
    assert error.description is not None
    assert "no-such" in error.description
