"""What a peer may not say, and what it costs: the link, the session or the connection."""

import pytest
from librt.strings import BytesWriter

from flintmq.base.errors import Amqp10Error, EndedByPeer, InternalError
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.protocol.amqp10.delivery import tag_of
from flintmq.protocol.amqp10.fast_path import FastTransfer
from flintmq.wire.amqp10.frames import write_body
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
from flintmq.wire.amqp10.spec import PROTOCOL_HEADER, SASL_HEADER
from flintmq.wire.amqp10.states import ACCEPTED
from flintmq.wire.amqp10.termini import Source, Target
from tests.amqp10_wire import write_frame
from tests.unit.protocol.amqp10.pair import Flowing, Meets, Pair, Receives, Sends


def frame(body: Performative, channel: int = 0, payload: bytes = b"") -> bytes:
    w = BytesWriter()
    write_frame(w, channel, body, payload)
    return w.getvalue()


def condition(error: object) -> str:
    assert isinstance(error, EndedByPeer)
    return error.condition


def sender(handle: int = 0, name: str = "link") -> Attach:
    return Attach(name=name, handle=handle, source=Source(), target=Target(), initial_delivery_count=0)


BEGIN = Begin(next_outgoing_id=0, incoming_window=10, outgoing_window=10)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([(0, Flow(handle=0, incoming_window=1)), (0, End())], "amqp:illegal-state"),
        ([(0, BEGIN), (0, BEGIN)], "amqp:illegal-state"),
        ([(0, Begin(remote_channel=0))], "amqp:invalid-field"),
        ([(64, BEGIN)], "amqp:connection:framing-error"),
        ([(64, End())], "amqp:connection:framing-error"),
        ([(0, BEGIN), (0, sender(256))], "amqp:connection:framing-error"),
        ([(0, Open(container_id="again"))], "amqp:illegal-state"),
        ([(0, BEGIN), (1, End())], "amqp:illegal-state"),
    ],
)
def test_costs_the_connection(said: list[tuple[int, Performative]], expected: str) -> None:
    """Frames that belong to no session, or are beyond what this side takes."""
    pair = Pair().open()
    for channel, body in said:
        pair.feed(pair.server, frame(body, channel))
    error = pair.server.closed[0]
    assert isinstance(error, Amqp10Error)
    assert error.condition == expected
    assert expected.encode() in pair.server.take()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([sender(0), sender(0, "other")], "amqp:session:handle-in-use"),
        ([sender(0), sender(1)], "amqp:precondition-failed"),
        ([Attach(name="link", handle=0, source=Source(), target=Target())], "amqp:invalid-field"),
        ([Disposition(role=True, first=5, last=3, settled=True)], "amqp:invalid-field"),
        ([Flow(incoming_window=1, link_credit=1)], "amqp:invalid-field"),
        ([Flow(incoming_window=1, drain=True)], "amqp:invalid-field"),
        ([Flow(incoming_window=1, handle=9)], "amqp:session:unattached-handle"),
        ([Detach(handle=9)], "amqp:session:unattached-handle"),
        ([Attach(name="out", handle=0, role=True), Transfer(handle=0, delivery_id=0)], "amqp:illegal-state"),
    ],
)
def test_costs_the_session(said: list[Performative], expected: str) -> None:
    """Frames that make no sense on their session; others go on."""
    pair = Pair().open()
    session, owner, _ = pair.session()
    _, other, _ = pair.session()
    for body in said:
        pair.feed(pair.server, frame(body, session.number))
    pair.feed(pair.server, frame(Disposition(role=True, first=0), session.number))
    pair.run()
    assert condition(owner.ended[0]) == expected
    assert other.ended == []


def test_first_frame() -> None:
    """Before open nothing may come, and open only on channel 0."""
    for data in (frame(BEGIN), frame(Close()), frame(Open(container_id="c"), 1)):
        pair = Pair()
        pair.server.engine.receive(PROTOCOL_HEADER + data, 0.0)
        assert len(pair.server.closed) == 1
        assert pair.server.engine.is_closing
        assert pair.server.opened == []


def test_tiny_frames() -> None:
    """Every peer must take frames of 512 bytes."""
    pair = Pair()
    pair.server.engine.receive(PROTOCOL_HEADER + frame(Open(container_id="c", max_frame_size=511)), 0.0)
    pair.run()
    assert b"invalid-field" in pair.from_server


def test_a_fault_of_ours_costs_the_connection() -> None:
    """What the broker got wrong is nothing to go on with."""
    flowing = Flowing()
    flowing.receives.fault = InternalError("bug")
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    assert condition(flowing.pair.client.closed[0]) == "amqp:internal-error"


def test_simultaneous_close() -> None:
    """Both sides may close at once; each hears the other's close as the answer."""
    pair = Pair().open()
    pair.client.engine.close()
    pair.server.engine.close()
    pair.run()
    assert pair.client.engine.is_closed
    assert pair.server.engine.is_closed


def test_what_comes_behind_our_close_is_dropped() -> None:
    """After a close nothing counts but the peer's."""
    flowing = Flowing()
    server = flowing.pair.server
    server.engine.close(InternalError("enough"))
    flowing.sender.send(1, b"", b"x", False)
    flowing.pair.feed(server, flowing.pair.client.take())
    flowing.pair.feed(server, frame(Transfer(handle=77)))
    assert flowing.receives.messages == []
    assert server.engine.is_closing
    flowing.pair.feed(server, frame(Close()))
    assert server.engine.is_closed
    assert len(server.closed) == 1


def test_simultaneous_end() -> None:
    """The same for sessions: channels are free once both have ended."""
    pair = Pair().open()
    session, _, peer = pair.session()
    assert peer.session is not None
    session.end()
    peer.session.end()
    pair.run()
    assert pair.client.engine.sessions == []
    assert pair.server.engine.sessions == []


def test_answer_to_a_session_that_was_answered() -> None:
    """A session is begun once."""
    pair = Pair().open()
    session, _, _ = pair.session()
    pair.feed(pair.client, frame(Begin(remote_channel=session.number), 5))
    pair.run()
    assert pair.server.closed


def test_more_sessions_than_the_peer_takes() -> None:
    """A session that cannot be begun because the peer has no channel for it closes the connection, with a reason."""
    pair = Pair(client=Tuning(channel_max=0)).open()
    pair.session()
    pair.feed(pair.server, frame(BEGIN, 1))
    pair.run()
    assert condition(pair.client.closed[0]) == "amqp:resource-limit-exceeded"


def test_stranger_sends_ahead() -> None:
    """What a stranger sends before its login is decided is bounded."""
    pair = Pair(mechanisms=["PLAIN"], logs_in=True)
    pair.server.decides = False
    pair.run()
    for _ in range(10):
        pair.server.engine.receive(b"x" * 1000, 0.0)
    assert pair.server.engine.is_closed


def test_saying_more_than_once() -> None:
    """A login is decided once, by the side that decides; what comes later changes nothing."""
    pair = Pair(mechanisms=["PLAIN"], logs_in=True).open()
    for side in (pair.client, pair.server):
        side.engine.sasl_accept()
        side.engine.sasl_challenge(b"again?")
        side.engine.sasl_init("PLAIN", b"")
        side.engine.sasl_respond(b"")
        assert side.take() == b""
    pair.server.engine.accept_open()
    assert pair.server.take() == b""


def test_sasl_frames_out_of_turn() -> None:
    """A response that nothing asked for, and AMQP frames within the login, end it."""
    for data in (bytes.fromhex("0000000e 02010000 005343c003 01a000"), frame(Open(container_id="c"))):
        pair = Pair(mechanisms=["PLAIN"])
        pair.server.engine.receive(SASL_HEADER + data, 0.0)
        assert pair.server.engine.is_closed
        assert pair.server.responses == []


def test_slow_reader_is_not_heard() -> None:
    """Who asks for much without reading is read from again when it has."""
    flowing = Flowing()
    server = flowing.pair.server
    server.output.charge(100_000_000)
    flowing.session.send_flow(Flow(echo=True))
    flowing.session.send_flow(Flow(echo=True))
    server.engine.receive(b"".join(flowing.pair.client.output.take()), 0.0)
    assert server.engine.is_paused


@pytest.mark.parametrize("accepts", [True, False])
def test_detach_before_the_answer(accepts: bool) -> None:
    """A link that its peer gives up before we decide is answered and gone; a decision that comes later is void."""
    pair = Pair().open()
    session, _, peer = pair.session()
    peer.decides = False
    sends = Sends()
    attach = sender()
    pair.feed(pair.server, frame(attach, session.number) + frame(Detach(handle=0, closed=True), session.number))
    owner = peer.receivers[0]
    assert owner.detached == [(None, True)]
    link = owner.link
    assert link is not None
    if accepts:
        link.accept(Attach(source=Source(), target=Target()))
    else:
        link.refuse(None)
    said = pair.server.take()
    assert said.count(b"\x00\x53\x12") == 1
    assert said.count(b"\x00\x53\x16") == 1
    assert sends.detached == []


def test_detach_is_answered_in_kind() -> None:
    """A close with a close, and a detach with a detach (part 2 §2.6.6)."""
    for closed in (True, False):
        flowing = Flowing()
        flowing.sender.detach(closed=closed)
        flowing.pair.feed(flowing.pair.server, flowing.pair.client.take())
        answer = flowing.pair.server.take()
        w = BytesWriter()
        write_body(w, Detach(handle=max(flowing.receiver.handle, 0), closed=closed))
        assert answer.endswith(w.getvalue())


def test_half_a_message_is_forgotten_with_its_link() -> None:
    """What a link had begun to gather goes with it; nothing of it is left for its owner."""
    flowing = Flowing()
    flowing.session.send_transfer(Transfer(handle=0, delivery_id=0, delivery_tag=b"t", more=True))
    flowing.run()
    assert flowing.receiver.unsettled == 1
    flowing.sender.detach(closed=False)
    flowing.run()
    assert flowing.receiver.unsettled == 0
    assert flowing.receives.unsettled == []


def test_half_a_message_is_not_sent_on_a_detached_link() -> None:
    """A sender that is detached in the middle of a message does not go on with it."""
    flowing = Flowing(to_server=False, client=Tuning(frame_max=512))
    peer = flowing.peer.session
    assert peer is not None
    peer._remote_window = 2
    flowing.sender.send(1, b"", b"x" * 5000, True)
    flowing.receiver.detach()
    flowing.run()
    before = flowing.pair.from_server
    flowing.session.send_flow(Flow())
    flowing.run()
    assert flowing.pair.from_server == before
    assert flowing.session.is_open


def test_new_deliveries_on_an_incomplete_link() -> None:
    """Who told of a part of its unsettled deliveries only takes nothing new (part 2 §2.7.3)."""
    flowing = Flowing()
    flowing.peer.answer = Attach(unsettled={b"t": None}, incomplete_unsettled=True)
    sends = Sends()
    again = Attach(name="again", source=Source(), target=Target(), unsettled={b"t": None})
    link = flowing.session.attach_sender(sends, again)
    flowing.run()
    assert link.only_resumes
    assert not link.can_send
    assert link.can_resume
    link.resume(b"t", [b"x"])
    link.send(1, b"", b"new", False)
    flowing.run()
    assert [payload for _, payload in flowing.peer.receivers[-1].messages] == [b"x"]
    assert condition(sends.detached[0][0]) == "amqp:invalid-field"


def test_credit_counts_from_what_the_receiver_knows() -> None:
    """Credit given for a delivery count of the past leaves less of it (part 2 §2.6.7)."""
    flowing = Flowing(credit=10)
    for number in range(4):
        flowing.sender.send(number, b"", b"x", True)
    flowing.sender.receive_flow(Flow(delivery_count=1, link_credit=10))
    assert flowing.sender.credit == 7
    flowing.sender.receive_flow(Flow(link_credit=3))
    assert flowing.sender.credit == 0


def test_echo_of_a_sender() -> None:
    """A receiver that asks for the sender's state gets it."""
    flowing = Flowing()
    peer = flowing.peer.session
    assert peer is not None
    flowing.sender.available = 3
    peer.send_flow(Flow(handle=flowing.receiver.handle, delivery_count=0, link_credit=100, echo=True))
    flowing.run()
    assert flowing.receives.flows[-1] == (100, 3)


def test_settled_is_not_joined_with_unsettled() -> None:
    """Neighbours of which one is settled and the other is not are told apart."""
    flowing = Flowing()
    for number in range(2):
        flowing.sender.send(number, b"", b"x", False)
    flowing.run()
    (first, _), (second, _) = flowing.receives.messages
    assert first is not None
    assert second is not None
    flowing.receiver.update(first, ACCEPTED)
    flowing.receiver.settle(second, ACCEPTED)
    flowing.run()
    assert [settled for _, _, settled in flowing.sends.dispositions] == [False, True]


def test_session_ended_in_the_middle_of_a_disposition() -> None:
    """An owner that ends the session over one delivery hears nothing of the next ones."""
    flowing = Flowing()

    class Ends(Sends):
        def on_disposition(self, delivery: object, state: object, settled: bool) -> None:
            super().on_disposition(delivery, state, settled)  # type: ignore[arg-type]
            flowing.session.end()

    owner = Ends()
    flowing.sender.owner = owner
    for number in range(3):
        flowing.sender.send(number, b"", b"x", False)
    flowing.run()
    for delivery, _ in flowing.receives.messages:
        assert delivery is not None
        flowing.receiver.settle(delivery, ACCEPTED)
    flowing.run()
    assert len(owner.dispositions) == 1


def test_fast_transfers() -> None:
    """What the short way reads, it reads right; what is not as it should be is left to the long one."""
    fast = FastTransfer()
    w = BytesWriter()
    write_body(w, Transfer(handle=300, delivery_id=70_000, delivery_tag=tag_of(5), message_format=0, settled=True))
    good = w.getvalue()[3:]
    assert fast.scan(good + b"payload", 0, len(good) + 7) == len(good)
    assert (fast.handle, fast.delivery_id, fast.settled, fast.message_format) == (300, 70_000, True, 0)
    assert good[fast.tag_start : fast.tag_stop] == tag_of(5)
    for at in range(len(good)):
        assert fast.scan(good, 0, at) == 0
    assert fast.scan(good[:1] + bytes([good[1] - 1]) + good[2:], 0, len(good)) == 0
    assert fast.scan(good[:1] + bytes([good[1] + 1]) + good[2:] + b"\x40", 0, len(good) + 1) == 0
    assert fast.scan(good[:2] + bytes([12]) + good[3:], 0, len(good)) == 0
    for rest in (b"\x41", b"\x42\x50\x00", b"\x42\x40\x00\x53\x24\x45", b"\x42\x40\x40\x41", b"\x42\x40\x40\x42\x41"):
        longer = bytes([0xC0, good[1] + len(rest), 5 + rest.count(b"\x42") + 1]) + good[3:] + rest
        assert fast.scan(longer, 0, len(longer)) == 0
    hinted = bytes([0xC0, good[1] + 6, 11]) + good[3:] + b"\x42\x40\x40\x42\x42\x41"
    assert fast.scan(hinted, 0, len(hinted)) == len(hinted)


def test_long_tags_take_the_long_way() -> None:
    """A tag that is too long is not read the short way, where nobody looks at its length."""
    w = BytesWriter()
    write_body(w, Transfer(handle=0, delivery_id=0, delivery_tag=b"t" * 33, message_format=0, settled=True))
    assert FastTransfer().scan(w.getvalue(), 3, len(w.getvalue())) == 0


def test_sessions_can_be_begun_by_the_server() -> None:
    """Either side may begin a session."""
    pair = Pair().open()
    owner = Meets()
    session = pair.server.engine.begin(owner)
    pair.run()
    assert session.is_open
    assert len(pair.client.sessions) == 1
    receives = Receives()
    link = session.attach_receiver(receives, Attach(name="pull", source=Source(), target=Target()))
    link.grant(1)
    pair.run()
    sender_link = pair.client.sessions[0].senders[0].link
    assert sender_link is not None
    sender_link.send(1, b"", b"x", True)
    pair.run()
    assert receives.messages == [(None, b"x")]
