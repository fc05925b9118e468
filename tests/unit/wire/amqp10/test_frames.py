"""Frames and performatives: a hex snapshot each, defaults, and what is refused with which condition."""

import pytest
from librt.strings import BytesWriter

from flintmq.base.errors import DecodeError, FramingError, LocalProtocolError
from flintmq.wire.amqp10.composite import Composite
from flintmq.wire.amqp10.composite_reader import decode_composite
from flintmq.wire.amqp10.frames import (
    EMPTY_FRAME,
    FRAME_AMQP,
    FRAME_SASL,
    decode_body,
    decode_sasl_body,
    frame_body,
    frame_channel,
    frame_size,
    write_body,
    write_sasl_frame,
)
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
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslPerformative,
    SaslResponse,
    Transfer,
)
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    Declared,
    DeliveryState,
    Error,
    Modified,
    Received,
    Rejected,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Coordinator, Declare, DeleteOnClose, Discharge, Source, Target
from flintmq.wire.amqp10.values import Described, ULong
from flintmq.wire.amqp10.writer import encode_value
from tests.amqp10_wire import write_frame

PERFORMATIVES: list[tuple[str, Performative]] = [
    ("00 53 10 c0 04 01 a1 01 63", Open("c")),
    (
        "00 53 10 c0 1d 09 a1 01 63 a1 01 68 52 ff 60 0001 43 40 40 e0 05 01 a3 02 6f31 e0 05 01 a3 02 6431",
        Open("c", "h", 255, 1, 0, offered_capabilities=["o1"], desired_capabilities=["d1"]),
    ),
    ("00 53 11 c0 05 04 40 43 43 43", Begin()),
    ("00 53 11 c0 0b 04 60 0007 43 70 00000800 52 01", Begin(7, 0, 2048, 1)),
    ("00 53 12 c0 06 03 a1 01 6c 43 41", Attach("l", 0, True)),
    (
        ("00 53 12 c0 27 0a a1 01 6c 52 05 42 50 00 50 01 00 53 28 c0 06 02 a1 01 71 52 02 00 53 30 45 c1 01 00 40 43"),
        Attach(
            "l",
            5,
            False,
            0,
            1,
            Source("q", 2),
            Coordinator(),
            {},
            initial_delivery_count=0,
        ),
    ),
    ("00 53 13 c0 07 04 43 43 43 43", Flow(0, 0, 0, 0)),
    ("00 53 13 c0 0d 09 40 43 43 43 52 01 43 52 64 40 41", Flow(None, 0, 0, 0, 1, 0, 100, drain=True)),
    ("00 53 14 c0 02 01 43", Transfer(0)),
    ("00 53 14 c0 09 05 43 52 07 a0 01 54 43 41", Transfer(0, 7, b"T", 0, True)),
    ("00 53 14 c0 0b 08 43 40 40 40 40 42 40 00532445", Transfer(0, state=ACCEPTED)),
    ("00 53 14 c0 0c 0b 43 40 40 40 40 42 40 40 42 42 41", Transfer(0, batchable=True)),
    ("00 53 15 c0 03 02 41 43", Disposition(True, 0)),
    ("00 53 15 c0 0a 05 41 52 01 52 09 41 00532445", Disposition(True, 1, 9, True, ACCEPTED)),
    ("00 53 15 c0 08 05 41 43 40 42 00532645", Disposition(True, 0, state=RELEASED)),
    ("00 53 16 c0 03 02 43 41", Detach(0, True)),
    ("00 53 17 45", End()),
    ("00 53 18 c0 0b 01 00 53 1d c0 05 01 a3 02 613a", Close(Error("a:"))),
]


def _body(value: Composite) -> bytes:
    w = BytesWriter()
    write_body(w, value)
    return w.getvalue()


def _read(encoded: str) -> tuple[Performative, int]:
    raw = bytes.fromhex(encoded)
    return decode_body(raw, 0, len(raw))


def _sized(encoded: str) -> bytes:
    """A snapshot whose list's size, its fifth byte, is counted here and not by hand."""
    raw = bytes.fromhex(encoded)
    return raw if raw[3] != 0xC0 else raw[:4] + bytes([len(raw) - 5]) + raw[5:]


@pytest.mark.parametrize(("encoded", "body"), PERFORMATIVES)
def test_each_performative_has_this_form(encoded: str, body: Performative) -> None:
    """Written as the snapshot, and read back with nothing else set."""
    raw = _sized(encoded)
    assert _body(body).hex() == raw.hex()
    back, end = decode_body(raw, 0, len(raw))
    assert back == body
    assert end == len(raw)


STATES: list[tuple[str, Composite]] = [
    ("00 53 23 c0 04 02 52 03 44", Received(3, 0)),
    ("00 53 24 45", ACCEPTED),
    ("00 53 25 45", Rejected()),
    ("00 53 26 45", RELEASED),
    ("00 53 27 c0 03 02 41 41", Modified(True, True)),
    ("00 53 27 c0 0b 03 40 40 c1 05 02 a3 01 61 41", Modified(message_annotations={"a": True})),
    ("00 53 31 45", Declare()),
    ("00 53 32 c0 05 02 a0 01 01 41", Discharge(b"\x01", True)),
    ("00 53 33 c0 04 01 a0 01 01", Declared(b"\x01")),
    ("00 53 34 c0 08 02 a0 01 01 00 53 24 45", TransactionalState(b"\x01", ACCEPTED)),
    ("00 53 2b 45", DeleteOnClose()),
    ("00 53 29 c0 05 05 40 40 40 40 41", Target(dynamic=True)),
]


@pytest.mark.parametrize(("encoded", "value"), STATES)
def test_each_state_has_this_form(encoded: str, value: Composite) -> None:
    """Written as the snapshot, and read back with nothing else set."""
    raw = _sized(encoded)
    assert encode_value(value).hex() == raw.hex()
    assert decode_composite(raw, 0, len(raw)) == (value, len(raw))


def test_states_without_fields_are_shared() -> None:
    """Whichever way they come, so that `is` may be asked."""
    for encoded in ("00 53 24 45", "00 53 24 c0 01 00", "00 80 0000000000000024 45"):
        raw = bytes.fromhex("00 53 15 c0 00 05 41 43 40 42" + encoded)
        raw = raw[:4] + bytes([len(raw) - 5]) + raw[5:]
        body, _ = decode_body(raw, 0, len(raw))
        assert isinstance(body, Disposition)
        assert body.state is ACCEPTED


@pytest.mark.parametrize(
    ("encoded", "body"),
    [
        ("00 53 40 c0 0a 01 e0 07 01 a3 04 504c414e", SaslMechanisms(["PLAN"])),
        ("00 53 41 c0 0a 03 a3 01 58 a0 00 a1 01 68", SaslInit("X", b"", "h")),
        ("00 53 42 c0 04 01 a0 01 63", SaslChallenge(b"c")),
        ("00 53 43 c0 03 01 a0 00", SaslResponse(b"")),
        ("00 53 44 c0 03 01 50 01", SaslOutcome(1)),
    ],
)
def test_sasl_frames_have_this_form(encoded: str, body: SaslPerformative) -> None:
    """Type 1 and channel 0 in the head, and the snapshot behind it."""
    w = BytesWriter()
    write_sasl_frame(w, body)
    frame = w.getvalue()
    raw = _sized(encoded)
    assert frame.hex() == ((8 + len(raw)).to_bytes(4) + b"\x02\x01\x00\x00" + raw).hex()
    assert decode_sasl_body(frame, frame_body(frame, 0, len(frame), FRAME_SASL), len(frame)) == body


def test_a_payload_follows_its_transfer() -> None:
    """The size covers both, and the body ends where the payload begins."""
    w = BytesWriter()
    w.write(b"before")
    write_frame(w, 0xABCD, Transfer(1), b"payload")
    frame = w.getvalue()[6:]
    assert frame.hex() == "000000170200abcd" + "005314c003015201" + b"payload".hex()
    assert frame_size(frame, 0) == len(frame)
    assert frame_channel(frame, 0) == 0xABCD
    body, payload = decode_body(frame, 8, len(frame))
    assert body == Transfer(1)
    assert frame[payload:] == b"payload"


def test_an_extended_header_is_passed_over() -> None:
    """The data offset says where the body begins."""
    frame = bytes.fromhex("00000010 03 00 0000 ffffffff 00531745")
    at = frame_body(frame, 0, frame_size(frame, 0), FRAME_AMQP)
    assert decode_body(frame, at, len(frame))[0] == End()


def test_a_frame_may_be_empty() -> None:
    """What keeps a connection alive has a head only."""
    assert frame_body(EMPTY_FRAME, 0, frame_size(EMPTY_FRAME, 0), FRAME_AMQP) == len(EMPTY_FRAME)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ("00000007 02 00 0000", "a frame of 7 bytes"),
        ("00000008 01 00 0000", "cannot begin at byte 4"),
        ("00000008 03 00 0000", "cannot begin at byte 12"),
        ("00000008 02 01 0000", "a frame of type 1, expected type 0"),
    ],
)
def test_what_is_no_frame_is_refused(head: str, text: str) -> None:
    """With a framing error."""
    raw = bytes.fromhex(head)
    with pytest.raises(FramingError, match=text):
        frame_body(raw, 0, frame_size(raw, 0), FRAME_AMQP)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("", "1 bytes are needed"),
        ("40", "not with a description"),
        ("00 53 ff 45", "descriptor of no performative"),
        ("00 a3 01 78 45", "descriptor of no performative"),
        ("00 40 45", "descriptor of no performative"),
        ("00 53 17 40", "end: the described value at byte 3 is not a list"),
        ("00 53 17 c0 03 02 40 40", "end: 2 fields, the type has 1"),
        ("00 53 17 45 40", "1 bytes follow the end"),
        ("00 53 10 45", "open: open container-id is mandatory"),
        ("00 53 10 c0 02 01 40", "open: open container-id is mandatory"),
        ("00 53 10 c0 02 01 43", "open: uint before byte 7, expected a value of type string"),
        ("00 53 14 45", "transfer: the described value at byte 3 is not a list, or is empty"),
        ("00 53 14 c0 02 01 40", "transfer: null before byte 7, expected a value of type uint"),
        ("00 53 14 c0 02 0c 43", "transfer: 12 fields, the type has 11"),
        ("00 53 14 c0 0c 08 43 40 40 40 40 42 40 0053 2845", "a delivery state cannot be of type source"),
        ("00 53 15 c0 02 01 41", "disposition: 1 fields, the first 2 are mandatory"),
        ("00 53 13 c0 04 03 404343", "flow: 3 fields, the first 4 are mandatory"),
        ("00 53 12 c0 0b 06 a1016c 43 41 40 40 00532945", "attach source cannot be of type target"),
        ("00 53 12 c0 0b 06 a1016c 43 41 40 40 00537045", "attach source cannot be of type header"),
        ("00 53 12 c0 09 06 a1016c 43 41 40 40 43", "expected a composite"),
        ("00 53 17 c0 05 01 00531745", "end error cannot be of type end"),
    ],
)
def test_what_is_no_performative_is_refused(encoded: str, text: str) -> None:
    """With a decode error that names the performative."""
    raw = _sized(encoded) if len(encoded) > 12 else bytes.fromhex(encoded)
    with pytest.raises(DecodeError, match=text):
        decode_body(raw, 0, len(raw))


def test_layers_do_not_mix() -> None:
    """A SASL frame carries no performative, an AMQP frame none of SASL's."""
    with pytest.raises(FramingError, match="an AMQP frame cannot carry sasl-outcome"):
        _read("00 53 44 c0 03 01 50 00")
    with pytest.raises(FramingError, match="an AMQP frame cannot carry source"):
        _read("00 53 28 45")
    with pytest.raises(FramingError, match="a SASL frame cannot carry end"):
        decode_sasl_body(bytes.fromhex("00531745"), 0, 4)


def test_descriptors_may_be_symbols() -> None:
    """The symbolic descriptor means the same as the numeric one, at either width."""
    name = b"amqp:end:list"
    raw = b"\x00\xa3" + bytes([len(name)]) + name + b"\x45"
    assert decode_body(raw, 0, len(raw))[0] == End()
    assert _read("00 80 0000000000000017 45")[0] == End()


def test_a_field_with_several_values_may_be_one() -> None:
    """A single symbol, an array of symbols and null; an array of anything else is refused."""
    for encoded, names in (("a3 01 61", ["a"]), ("e0 06 02 a3 01 61 01 62", ["a", "b"]), ("40", [])):
        raw = _sized("00 53 40 c0 00 01" + encoded)
        if names:
            body = decode_sasl_body(raw, 0, len(raw))
            assert isinstance(body, SaslMechanisms)
            assert body.sasl_server_mechanisms == names
        else:
            with pytest.raises(DecodeError, match="is mandatory"):
                decode_sasl_body(raw, 0, len(raw))
    raw = _sized("00 53 40 c0 00 01 e0 04 01 a1 01 61")
    with pytest.raises(DecodeError, match="items of type string, expected symbol"):
        decode_sasl_body(raw, 0, len(raw))


def test_an_attach_keeps_its_unsettled_deliveries() -> None:
    """Tags to states, null among them, and no map at all is not the same as an empty one."""
    unsettled: dict[bytes, DeliveryState | None] = {
        b"a": None,
        b"b": ACCEPTED,
        b"c": Received(1, 2),
        b"d": Rejected(Error("e:", "why")),
    }
    empty: dict[bytes, DeliveryState | None] = {}
    for map_ in (None, empty, unsettled):
        raw = _body(Attach("l", unsettled=map_))
        body, _ = decode_body(raw, 0, len(raw))
        assert isinstance(body, Attach)
        assert body.unsettled == map_
    raw = _sized("00 53 12 c0 00 08 a1016c 43 41 40 40 40 40 c1 09 04 a00161 40 a00161 40")
    with pytest.raises(DecodeError, match="delivery tag 61 appears twice"):
        decode_body(raw, 0, len(raw))


def test_filters_keep_their_descriptors() -> None:
    """A filter is a described value under a symbol, or null."""
    source = Source("q", filter={"f": Described(ULong(0x0000_468C_0000_0004), "a = 1"), "none": None})
    raw = encode_value(source)
    assert decode_composite(raw, 0, len(raw))[0] == source


def test_long_fields_take_the_long_form() -> None:
    """Where tags, errors or properties do not fit a list of 255 bytes, it is written with four."""
    for body in (
        Transfer(1, 2, b"t" * 251, 0, more=True, batchable=True),
        Disposition(True, 1, 2, state=Rejected(Error("c:", "d" * 250)), batchable=True),
        Flow(1, 2, 3, 4, 5, properties={"p": "x" * 240}),
    ):
        raw = _body(body)
        assert raw[3] == 0xD0
        assert decode_body(raw, 0, len(raw)) == (body, len(raw))


def test_the_forms_meet_without_a_gap() -> None:
    """The largest list of the short form has 255 bytes, its count included; one byte more makes it long."""
    codes = []
    for size in range(230, 256):
        raw = _body(Transfer(1, 2, b"t" * size, 0))
        assert decode_body(raw, 0, len(raw)) == (Transfer(1, 2, b"t" * size, 0), len(raw))
        codes.append((raw[3], len(raw) - 5))
    assert (0xC0, 255) in codes
    assert codes == sorted(codes)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (Transfer(-1), "transfer handle is out of range"),
        (Transfer(0, 1 << 32), "transfer delivery-id is out of range"),
        (Flow(None, 1 << 32), "flow incoming-window is out of range"),
        (Open("c", channel_max=1 << 16), "open channel-max is out of range"),
        (Open("\udc00"), "lone surrogates"),
        (Close(Error("é")), "not ASCII"),
    ],
)
def test_fields_that_do_not_fit_are_refused(body: Performative, text: str) -> None:
    """As a fault of our own side, that names the field."""
    with pytest.raises(LocalProtocolError, match=text):
        _body(body)
