"""Further inputs to rules that have a row: those that a sceptic tries next. Each is named after its rule."""

import pytest

from flintmq.wire.amqp10.performatives import Begin, Open
from flintmq.wire.amqp10.states import ACCEPTED
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import data_section, header, properties, text, value_section
from tests.conformance.amqp10.peer import Peer
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import WINDOW, Session

FRAMING = "amqp:connection:framing-error"


@pytest.mark.parametrize(
    "raw_frame",
    [
        b"\x00\x00\x00\x00\x02\x00\x00\x00",
        b"\x00\x00\x00\x07\x02\x00\x00\x00",
        b"\xff\xff\xff\xff\x02\x00\x00\x00",
        b"\x00\x00\x00\x08\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x01\x00\x00\x00",
        b"\x00\x00\x00\x0c\x04\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x08\x02\x09\x00\x00",
    ],
)
def test_heads_of_frames(connect: Connect, raw_frame: bytes) -> None:
    """2.3.1.size: a size, an offset or a type that no frame has."""
    peer = connect()
    peer.send(raw_frame)
    peer.expect_close(FRAMING)


@pytest.mark.parametrize("channel", [0, 1, 65_535])
def test_empty_frames_are_harmless_on_any_channel(connect: Connect, channel: int) -> None:
    """2.4.5.empty-frames: they say nothing, whatever their channel, and with an extended header, too."""
    peer = connect()
    head = channel.to_bytes(2, "big")
    peer.send(b"\x00\x00\x00\x08\x02\x00" + head, b"\x00\x00\x00\x0c\x03\x00" + head + b"\x01\x02\x03\x04")
    peer.session().sync()


@pytest.mark.parametrize("channel", [2_048, 2_049, 65_535])
def test_channels_above_ours(connect: Connect, channel: int) -> None:
    """2.7.1.channel-above-max: the first one above is as bad as the last one there is."""
    peer = connect()
    assert peer.opened.channel_max < channel
    peer.write(channel, Begin(incoming_window=WINDOW, outgoing_window=WINDOW))
    peer.expect_close(FRAMING)


@pytest.mark.parametrize("size", [0, 1, 32])
def test_tags_of_any_size_up_to_32(session: Session, queues: Queues, size: int) -> None:
    """2.7.5.delivery-tag-first: none of no bytes is a tag as well."""
    sender = session.sender(queues.address())
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    assert session.outcome(sender.send(text(), tag=bytes(size))) == ACCEPTED


@pytest.mark.parametrize(
    "message",
    [
        header(durable=True),
        properties(message_id="1"),
        value_section("a") + value_section("b"),
        value_section("a") + data_section(b"b"),
        data_section(b"a") + value_section("b"),
        value_section("a") + header(durable=True),
        properties(message_id="1") + properties(message_id="2") + value_section("a"),
        b"\x00\x53\x79\xa1\x01m",
        b"",
    ],
)
def test_messages_that_are_none(session: Session, queues: Queues, message: bytes) -> None:
    """3.2.sections-in-order: without a body, with two of them, with a section twice, late or unknown."""
    address = queues.address()
    sender = session.sender(address)
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    sender.begin(message, more=False)
    sender.expect_detach("amqp:decode-error")
    assert queues.count(address) == 0


@pytest.mark.parametrize(
    "address", ["/queues/", "/queues/%zz", "/queues/%f", "/exchanges/", "/exchanges/a/b/c", "/nothing/a", "/", ""]
)
def test_addresses_that_cannot_be_read(session: Session, address: str) -> None:
    """address.malformed: as target and as source."""
    session.sender(address).expect_refusal("amqp:invalid-field")
    session.receiver(address).expect_refusal("amqp:invalid-field")


def test_an_open_without_a_container(raw: Peer) -> None:
    """2.7.1.open-first: one that lacks what is mandatory is none."""
    raw.log_in()
    raw.write(0, None, b"\x00\x53\x10\x45")
    raw.answer(Open)
    raw.expect_close("amqp:decode-error")
