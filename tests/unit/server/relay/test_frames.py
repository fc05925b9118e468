"""The frames of a link say the same however the stream is split."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from flintmq.server.relay.frames import (
    CLOSE,
    CREDIT,
    DATA,
    NOTE,
    OPEN,
    PAYLOAD_MAX_BYTES,
    FrameReader,
    FrameSink,
    LinkViolation,
    write_credit,
    write_frame,
    write_head,
)

CHANNELS = st.integers(0, 2**31 - 1)
FRAMES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([OPEN, CLOSE, NOTE]), CHANNELS, st.binary(max_size=40)),
        st.tuples(st.just(DATA), CHANNELS, st.binary(max_size=200)),
        st.tuples(st.just(CREDIT), CHANNELS, st.integers(0, 2**31 - 1)),
    ),
    max_size=12,
)


class Taken(FrameSink):
    """What a reader has given; the parts of one DATA frame, or of several in a row, are joined."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, int, object]] = []
        self.reader: FrameReader | None = None

    def on_data(self, channel: int, data: bytes) -> None:
        assert data
        if self.frames and self.frames[-1][:2] == (DATA, channel):
            before = self.frames.pop()[2]
            assert isinstance(before, bytes)
            data = before + data
        self.frames.append((DATA, channel, data))

    def on_credit(self, channel: int, size: int) -> None:
        self.frames.append((CREDIT, channel, size))

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        self.frames.append((kind, channel, payload))
        if self.reader is not None:
            self.reader.hold()


def encoded(frames: list[tuple[int, int, object]]) -> bytes:
    writer = BytesWriter()
    for kind, channel, content in frames:
        if kind == CREDIT:
            assert isinstance(content, int)
            write_credit(writer, channel, content)
        else:
            assert isinstance(content, bytes)
            write_frame(writer, kind, channel, content)
    return writer.getvalue()


def read_at_once(stream: bytes) -> list[tuple[int, int, object]]:
    taken = Taken()
    FrameReader(taken).receive(stream)
    return taken.frames


def test_a_frame_on_the_wire() -> None:
    """Kind, length, channel in network byte order, and the payload."""
    assert encoded([(DATA, 258, b"abc")]).hex(" ") == "03 00 00 03 00 00 01 02 61 62 63"
    assert encoded([(CREDIT, 1, 65536)]).hex(" ") == "04 00 00 04 00 00 00 01 00 01 00 00"


@given(FRAMES, st.data())
def test_frames_survive_any_split(frames: list[tuple[int, int, object]], data: st.DataObject) -> None:
    """Pieces of any size, down to single bytes, give the frames that were written."""
    stream = encoded(frames)
    taken = Taken()
    reader = FrameReader(taken)
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        reader.receive(stream[at : at + size])
        at += size
    assert taken.frames == read_at_once(stream)
    assert [frame for frame in taken.frames if frame[0] != DATA] == [frame for frame in frames if frame[0] != DATA]
    for channel in {frame[1] for frame in frames}:
        parts = [content for kind, number, content in frames if (kind, number) == (DATA, channel)]
        given_parts = [content for kind, number, content in taken.frames if (kind, number) == (DATA, channel)]
        assert b"".join(given_parts) == b"".join(parts)  # type: ignore[arg-type]


@given(FRAMES, st.integers(1, 50))
def test_what_is_held_comes_later_and_in_order(frames: list[tuple[int, int, object]], size: int) -> None:
    """A reader that is held after each frame gives the same frames, whatever arrives meanwhile."""
    stream = encoded(frames)
    taken = Taken()
    taken.reader = reader = FrameReader(taken)
    for at in range(0, len(stream), size):
        reader.receive(stream[at : at + size])
        if reader.is_held() and at % 3 == 0:
            reader.go_on()
    while reader.is_held():
        reader.go_on()
    assert taken.frames == read_at_once(stream)


def test_a_note_may_be_long() -> None:
    """The certificates of a broker are longer than anything else that is no data."""
    note = bytes(12_000_000)
    assert read_at_once(encoded([(NOTE, 0, note)])) == [(NOTE, 0, note)]


@pytest.mark.parametrize(
    ("kind", "size"), [(0, 0), (10, 0), (200, 3), (OPEN, PAYLOAD_MAX_BYTES + 1), (CREDIT, 3), (CREDIT, 5)]
)
def test_what_is_no_frame_is_refused(kind: int, size: int) -> None:
    """An unknown kind, a payload beyond the limit and a credit of another size violate the link."""
    writer = BytesWriter()
    write_head(writer, kind if kind < 128 else kind - 256, 1, size)
    with pytest.raises(LinkViolation):
        FrameReader(Taken()).receive(writer.getvalue() + bytes(8))
