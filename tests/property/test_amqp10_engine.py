"""Any bytes at all: an engine of AMQP 1.0 understands them, or says what is wrong; and pieces make no difference."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from flintmq.base.errors import Amqp10Error, AmqpError, EndedByPeer
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.protocol.role import Role
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.frames import decode_body, decode_sasl_body, write_sasl_frame
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
    SaslInit,
    Transfer,
)
from flintmq.wire.amqp10.states import ACCEPTED, DeliveryState, Received
from flintmq.wire.amqp10.termini import Source, Target
from tests.amqp10_wire import write_frame
from tests.effort import effort
from tests.unit.protocol.amqp10.pair import Side

FRAME_MAX = 512


def frame(body: Performative, payload: bytes = b"", channel: int = 0) -> bytes:
    w = BytesWriter()
    write_frame(w, channel, body, payload)
    return w.getvalue()


SMALL = st.one_of(st.integers(0, 4), st.sampled_from([255, 256, 65_535, 0x7FFF_FFFF, 0xFFFF_FFFF]))
MAYBE = st.one_of(st.none(), SMALL)
FLAGS = st.booleans()
STATES: st.SearchStrategy[DeliveryState | None] = st.sampled_from([None, ACCEPTED, Received(0, 3)])
TAGS = st.sampled_from([None, b"a", b"b", b"t" * 32, b"t" * 33])
UNSETTLED = st.one_of(st.none(), st.dictionaries(st.sampled_from([b"a", b"b"]), STATES))

PERFORMATIVES: st.SearchStrategy[Performative] = st.one_of(
    st.builds(
        Begin,
        remote_channel=st.sampled_from([None, None, None, 0, 9]),
        next_outgoing_id=SMALL,
        incoming_window=SMALL,
        handle_max=SMALL,
    ),
    st.builds(
        Attach,
        name=st.sampled_from(["one", "two", "ours"]),
        handle=st.integers(0, 4),
        role=FLAGS,
        snd_settle_mode=st.integers(0, 2),
        rcv_settle_mode=st.integers(0, 1),
        source=st.sampled_from([None, Source(address="s")]),
        target=st.sampled_from([None, Target(address="t")]),
        unsettled=UNSETTLED,
        incomplete_unsettled=FLAGS,
        initial_delivery_count=MAYBE,
        max_message_size=MAYBE,
    ),
    st.builds(
        Flow,
        next_incoming_id=MAYBE,
        incoming_window=SMALL,
        next_outgoing_id=SMALL,
        handle=st.one_of(st.none(), st.integers(0, 4)),
        delivery_count=MAYBE,
        link_credit=MAYBE,
        available=MAYBE,
        drain=FLAGS,
        echo=FLAGS,
    ),
    st.builds(
        Transfer,
        handle=st.integers(0, 2),
        delivery_id=MAYBE,
        delivery_tag=TAGS,
        message_format=MAYBE,
        settled=st.sampled_from([None, False, True]),
        more=FLAGS,
        rcv_settle_mode=st.sampled_from([None, 0, 1]),
        state=STATES,
        resume=FLAGS,
        aborted=FLAGS,
        batchable=FLAGS,
    ),
    st.builds(Disposition, role=FLAGS, first=SMALL, last=MAYBE, settled=FLAGS, state=STATES),
    st.builds(Detach, handle=st.integers(0, 4), closed=FLAGS),
    st.just(End()),
    st.sampled_from([Close(), Open(container_id="again")]),
)
FRAMES = st.one_of(
    st.builds(frame, PERFORMATIVES, st.sampled_from([b"", b"payload"]), st.sampled_from([0, 0, 0, 1, 64])),
    st.builds(
        lambda kind, channel, body: (8 + len(body)).to_bytes(4, "big") + bytes([2, kind, 0, channel]) + body,
        st.sampled_from([0, 0, 1, 255]),
        st.integers(0, 2),
        st.binary(max_size=30),
    ),
)


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Frames, some of them nonsense, with a few bytes changed, lost or added."""
    data = bytearray(b"".join(draw(st.lists(FRAMES, max_size=12))))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        if data:
            at = draw(st.integers(0, len(data) - 1))
            data[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(data)


def sasl_init() -> bytes:
    w = BytesWriter()
    write_sasl_frame(w, SaslInit(mechanism="PLAIN", initial_response=b"\0guest\0guest"))
    return w.getvalue()


OPENED = spec.PROTOCOL_HEADER + frame(Open(container_id="peer", max_frame_size=FRAME_MAX))
ATTACHED = (
    frame(Begin(next_outgoing_id=0, incoming_window=100, outgoing_window=100))
    + frame(
        Attach(name="in", handle=0, source=Source(), target=Target(), initial_delivery_count=0, unsettled={b"a": None})
    )
    + frame(Attach(name="out", handle=1, role=True, source=Source(), target=Target()))
    + frame(Flow(next_incoming_id=0, incoming_window=100, handle=1, delivery_count=0, link_credit=10))
)


def kind(error: object) -> str:
    """What an error is, without its words, which may say where in the bytes that came together it was found."""
    return f"{type(error).__name__} {getattr(error, 'condition', '')}"


def told(side: Side) -> list[object]:
    """What the owners of a side heard of, in words that can be compared."""
    found: list[object] = [len(side.opened), [kind(error) for error in side.closed]]
    for session in side.sessions:
        found.append([kind(error) for error in session.ended])
        for receives in session.receivers:
            found.append([(d and (d.tag, d.is_resumed), payload) for d, payload in receives.messages])
            found.append([d.tag for d in receives.aborted])
            found.append([(d.tag, state, settled) for d, state, settled in receives.dispositions])
            found.append([(kind(error), closed) for error, closed in receives.detached])
        for sends in session.senders:
            found.append(sends.flows)
            found.append([(d.tag, state, settled) for d, state, settled in sends.dispositions])
            found.append([(kind(error), closed) for error, closed in sends.detached])
    return found


def answers(role: Role, start: bytes, data: bytes, step: int) -> Side:
    """A side that was fed these bytes, `step` at a time behind `start`, and said nothing but whole frames."""
    side = Side(role, Tuning(frame_max=FRAME_MAX), Open(container_id="us"), ["PLAIN"] if b"\x03" in start[:8] else None)
    side.engine.receive(start, 0.0)
    for session in side.sessions:
        for receives in session.receivers:
            assert receives.link is not None
            receives.link.grant(20)
            receives.accepts = True
        for sends in session.senders:
            assert sends.link is not None
            for number in range(3):
                sends.link.send(number, b"h", b"body", False)
    for at in range(0, len(data), step):
        side.engine.receive(data[at : at + step], 0.0)
        side.engine.refresh()
    check_output(side.take())
    for error in side.closed:
        assert error is None or isinstance(error, (AmqpError, Amqp10Error, EndedByPeer))
    return side


def check_output(data: bytes) -> None:
    """Headers, and frames that can be read and are no larger than the peer takes."""
    while data:
        if data[:4] == b"AMQP":
            data = data[8:]
            continue
        size = int.from_bytes(data[:4], "big")
        assert size <= FRAME_MAX
        if size > 8:
            if data[5] == 1:
                decode_sasl_body(data, 8, size)
            else:
                decode_body(data, 8, size)
        data = data[size:]


@settings(max_examples=effort(600))
@given(hostile(), st.integers(1, 9))
@example(frame(Flow(incoming_window=0xFFFF_FFFF, next_outgoing_id=0xFFFF_FFFF, handle=1, link_credit=0xFFFF_FFFF)), 1)
def test_any_bytes_are_understood_or_refused(data: bytes, step: int) -> None:
    """Whatever comes on links that are attached, owners hear the same of it whole as in pieces, and nothing breaks."""
    whole = answers(Role.SERVER, OPENED + ATTACHED, data, len(data) + 1)
    pieces = answers(Role.SERVER, OPENED + ATTACHED, data, step)
    assert told(whole) == told(pieces)
    assert whole.engine.reassembly.held == pieces.engine.reassembly.held
    whole.engine.lost(None)
    assert len(whole.closed) == 1
    assert whole.engine.reassembly.held == 0
    for session in whole.sessions:
        assert len(session.ended) == 1
        detached = [len(each.detached) for each in session.receivers] + [len(each.detached) for each in session.senders]
        assert max(detached, default=0) <= 1


@settings(max_examples=effort(300))
@given(
    st.sampled_from([b"", spec.PROTOCOL_HEADER, spec.SASL_HEADER, spec.SASL_HEADER + sasl_init(), OPENED]),
    st.one_of(st.binary(max_size=64), hostile()),
    st.integers(1, 9),
    st.sampled_from(list(Role)),
)
def test_any_bytes_before_open(start: bytes, data: bytes, step: int, role: Role) -> None:
    """Before there is a connection, too, in either role."""
    if role is Role.CLIENT and start.startswith(spec.SASL_HEADER):
        start = b""
    whole = answers(role, start, data, len(data) + 1)
    pieces = answers(role, start, data, step)
    assert told(whole) == told(pieces)
    assert len(whole.opened) <= 1


def test_an_unknown_frame_is_none_of_ours() -> None:
    """The example of the law: a frame of an unknown type closes the connection, with a reason."""
    side = answers(Role.SERVER, OPENED, bytes.fromhex("00000008 02ff 0000"), 3)
    assert len(side.closed) == 1
    assert side.engine.is_closing
