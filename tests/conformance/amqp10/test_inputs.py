"""Further inputs to rules that have a row: those that a sceptic tries next. Each is named after its rule."""

import itertools
import math

import pytest

from flintmq.wire.amqp10.performatives import Attach, Begin, Detach, Disposition, End, Flow, Open, Transfer
from flintmq.wire.amqp10.spec import (
    AMQP_SEQUENCE,
    APPLICATION_PROPERTIES,
    FOOTER,
    PROPERTIES,
    TLS_HEADER,
)
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, Declared, Error, Modified, Rejected, TransactionalState
from flintmq.wire.amqp10.termini import (
    Coordinator,
    Declare,
    DeleteOnClose,
    Discharge,
    Source,
    Target,
)
from flintmq.wire.amqp10.values import Described, Symbol, UByte
from tests.conformance.amqp10.conftest import Connect, Secure
from tests.conformance.amqp10.encoding import (
    annotations,
    application_properties,
    data_section,
    delivery_annotations,
    header,
    properties,
    section,
    text,
    value_body,
    value_section,
)
from tests.conformance.amqp10.links import Receiver, Sender
from tests.conformance.amqp10.peer import Peer, frame, fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import WINDOW, Session
from tests.servers import BrokerProcess

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


# -- transport ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [b"\x01\x01\x00", b"\x00\x09\x01", b"\x02\x00\x00"])
def test_another_version_of_tls(secure: Secure, version: bytes) -> None:
    """2.2.mismatch, 5.2.tls-header: the version that is spoken, our end, and what still comes is read."""
    server, _ = secure
    with Peer(server.port) as peer:
        peer.send(b"AMQP\x02" + version)
        assert peer.rest() == TLS_HEADER
        for _ in range(12):
            peer.send(bytes(65_536))


def test_all_that_is_said_fits_small_frames(connect: Connect, queues: Queues) -> None:
    """2.7.1.max-frame-size-kept: attaches with all that they repeat, errors that quote names, flows, unsettled maps."""
    peer = connect(max_frame_size=512)
    session = peer.session()
    long_name = "n" * 200
    refused = session.receiver(f"/queues/{long_name}", name=fresh(long_name))
    refused.expect_refusal("amqp:not-found")
    selector = Described(Symbol("apache.org:selector-filter:string"), "a = '" + "x" * 300 + "'")
    source = Source(address=queues.address(), filter={"f": selector})
    # What is to be repeated does not fit: that is said, or left out, in frames of this size.
    link = Receiver(session)
    session.attach_unanswered(link, source=source, target=Target(), name=fresh("l" * 150))
    peer.wait(lambda: link.attached is not None or session.ended is not None or peer.closed is not None)
    assert peer.largest_frame <= 512


@pytest.mark.parametrize("size", [512, 513, 1_000])
def test_a_frame_as_large_as_ours_may_be(connect: Connect, queues: Queues, size: int) -> None:
    """2.7.1.max-frame-size-kept: deliveries fill such frames, and none is a byte larger."""
    peer = connect(max_frame_size=size)
    session = peer.session()
    address = queues.address()
    bodies = [data_section(bytes(length)) for length in range(size - 60, size + 10, 7)]
    session.sender(address).accepted(*bodies)
    found = session.receiver(address, credit=len(bodies)).take(len(bodies))
    assert [each.message.bare for each in found] == bodies
    assert peer.largest_frame == size


def test_the_peers_last_channel_is_taken(connect: Connect) -> None:
    """2.7.1.channel-max-kept: with one channel, a second session is refused, and not answered on channel 1."""
    peer = connect(channel_max=0)
    peer.session().sync()
    peer.write(1, Begin(incoming_window=WINDOW, outgoing_window=WINDOW))
    peer.wait(lambda: peer.closed is not None)
    assert peer.channels == {0}


def test_the_peers_last_handle_is_taken(peer: Peer, queues: Queues) -> None:
    """2.7.2.handle-max-kept: with one handle, a second link is not answered on handle 1; the other session goes on."""
    session, other = peer.session(handle_max=0), peer.session()
    address = queues.address()
    assert session.sender(address).answer.handle == 0
    link = Receiver(session)
    session.attach_unanswered(link, source=Source(address), target=Target())
    peer.wait(lambda: session.ended is not None)
    assert link.attached is None
    other.sync()


def test_every_frame_behind_an_error_of_the_session_is_ignored(peer: Peer, queues: Queues) -> None:
    """2.5.4.discards: whatever it is, also what would be a fault of its own; the connection and others go on."""
    session, other = peer.session(), peer.session()
    address = queues.address()
    sender = session.sender(address)
    peer.wait(lambda: sender.credit > 0)
    numbers = (session.next_incoming_id, WINDOW, session.next_outgoing_id, WINDOW)
    behind = [
        Flow(*numbers, handle=99, link_credit=1),
        Disposition(False, 7, 9, True, ACCEPTED),
        Detach(55, closed=True),
        Attach("late", sender.handle, True, source=Source(address), target=Target()),
        Transfer(98, 0, b"", 0, settled=True),
    ]
    peer.send(
        frame(session.channel, Flow(*numbers, handle=77, link_credit=1)),
        *(frame(session.channel, each) for each in behind),
    )
    session.expect_end("amqp:session:unattached-handle")
    other.sync()
    again = peer.session()
    assert again.channel == session.channel
    again.sender(address).accepted(text())
    assert queues.count(address) == 1


def test_every_frame_behind_an_error_of_the_connection_is_ignored(connect: Connect, queues: Queues) -> None:
    """2.4.6.discarding: begins, ends, opens, empty frames and rubbish alike."""
    peer = connect()
    session = peer.session()
    sender = session.sender(queues.address())
    peer.wait(lambda: sender.credit > 0)
    behind = [frame(0, each) for each in (Open("again"), Begin(), End(), None)]
    peer.send(frame(0, None, b"\xa1\x02no"), *behind, frame(9, None, b"\x00\x53\x99\x45"))
    peer.expect_close("amqp:decode-error")


@pytest.mark.parametrize("credit", [1, 7])
@pytest.mark.parametrize("kind", ["selector", "copy", "stream", "acquired"])
def test_a_drain_ends_wherever_there_is_nothing(session: Session, queues: Queues, kind: str, credit: int) -> None:
    """2.6.7.drain: nothing that suits the filter, nothing behind a copy, the end of a stream, all with another link."""
    address = queues.address(**({"queue_type": "stream"} if kind == "stream" else {}))
    session.sender(address).accepted(text("m"))
    selector: dict[str, object] = {"f": Described(Symbol("apache.org:selector-filter:string"), "a = 1")}
    offset: dict[str, object] = {"o": Described(Symbol("rabbitmq:stream-offset-spec"), "first")}
    source = {
        "selector": Source(address=address, filter=selector),
        "copy": Source(address=address, distribution_mode="copy"),
        "stream": Source(address=address, filter=offset),
        "acquired": Source(address=address),
    }[kind]
    if kind == "acquired":
        session.receiver(address, credit=1).get()
    receiver = session.receiver(source)
    if kind in ("copy", "stream"):
        receiver.credit(1)
        receiver.settle(receiver.get())
    start = receiver.delivery_count
    assert receiver.drain(credit) == []
    assert (receiver.flows[-1].delivery_count, receiver.flows[-1].link_credit) == (start + credit, 0)


def test_a_window_of_three_at_a_time(peer: Peer, queues: Queues) -> None:
    """2.5.6.remote-incoming-window: three transfers, and no more before the peer has said where it is."""
    session, other = peer.session(incoming_window=3), peer.session()
    address = queues.address()
    session.sender(address).accepted(*map(text, range(10)))
    receiver = session.receiver(address, credit=100)
    values: list[object] = []
    while len(values) < 10:
        found = receiver.take(min(3, 10 - len(values)))
        # A flow of the session's own would open its window.
        other.sync()
        assert not receiver.arrived
        values += [each.message.value for each in found]
        session.flow()
    assert values == list(range(10))


def test_a_stolen_link_that_is_closed_at_the_same_time(connect: Connect, queues: Queues) -> None:
    """2.6.6.close-answered-with-close: a close that crosses the server's detach is not for who has the link now."""
    peer, name, address = connect(), fresh("stolen"), queues.address()
    source = Source(address=address, expiry_policy="never")
    first = peer.session().receiver(source, name=name)
    second = connect(peer.container).session().receiver(source, name=name)
    first.expect_detach("amqp:link:stolen", closed=False)
    first.session.sync()
    second.session.sender(address).accepted(text("m"))
    second.credit(1)
    assert second.bodies(1) == ["m"]
    assert second.detach(closed=True).closed


def test_a_close_behind_an_error_of_the_server(session: Session, queues: Queues) -> None:
    """2.6.6.close-answered-with-close: it crosses a detach that is no close; attached again, the link is closed."""
    address = queues.address()
    sender = session.sender(Target(address, expiry_policy="never"), name=fresh("crossed"))
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    sender.begin(b"no message", more=False)
    session.write(Detach(sender.handle, closed=False))
    sender.is_gone = True
    sender.expect_detach("amqp:decode-error")
    again = session.sender(Target(address, expiry_policy="never"), name=sender.name, unsettled={})
    assert not again.answer.unsettled
    assert again.detach(closed=True).closed


def test_a_handle_that_only_the_server_has_given_up(session: Session, queues: Queues) -> None:
    """2.7.3.handle-in-use: until the peer detaches as well, its handle is that link's."""
    address = queues.address()
    receiver = session.receiver(address)
    queues.delete(address)
    session.peer.wait(lambda: receiver.detached is not None, session.ill)
    session.attach_unanswered(
        Receiver(session), handle=receiver.handle, source=Source(queues.address()), target=Target()
    )
    session.expect_end("amqp:session:handle-in-use")


def test_a_tag_that_is_still_unsettled(session: Session, queues: Queues) -> None:
    """2.6.12.tag-unique: of a link that can be resumed the server could not tell the two apart, and keeps the later."""
    address = queues.address()
    sender = session.sender(Target(address, expiry_policy="never"), name=fresh("same"), rcv_settle_mode=1)
    for value in ("one", "two"):
        assert session.outcome(sender.send(text(value), tag=b"same")) == ACCEPTED
    sender.detach(closed=False)
    again = session.sender(Target(address, expiry_policy="never"), name=sender.name, unsettled={b"same": None})
    assert again.answer.unsettled == {b"same": ACCEPTED}
    assert session.receiver(address, credit=3).bodies(2) == ["one", "two"]


def test_what_is_settled_on_a_link_that_settles_nothing(session: Session, queues: Queues) -> None:
    """2.7.5.snd-unsettled: a peer that promised unsettled and sends settled has broken its word."""
    sender = session.sender(queues.address(), snd_settle_mode=0)
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    sender.begin(text(), more=False, settled=True)
    session.peer.wait(lambda: bool(sender.detached or session.ended))
    assert (sender.detached or session.ended).error  # type: ignore[union-attr]


# -- messages ----------------------------------------------------------------------------------------------------------


def _levels(levels: int, priority: int) -> int:
    """Which of so many levels a priority has, by the words of part 3 §3.2.1."""
    if levels >= 10:
        return min(priority, levels - 1)
    lowest, highest = 5 - math.ceil(levels / 2), 4 + math.floor(levels / 2)
    return min(max(priority, lowest), highest) - lowest


@pytest.mark.parametrize("levels", range(1, 13))
def test_priorities_of_any_number_of_levels(session: Session, queues: Queues, levels: int) -> None:
    """3.2.1.priority-levels and those beside it: 0 to 12 and 255, twice, the later halves first."""
    address = queues.address(**({} if levels == 1 else {"max_priority": levels - 1}))
    priorities = [3, 12, 0, 7, 255, 4, 9, 1, 11, 5, 10, 2, 8, 6]
    sent = list(enumerate(priorities * 2))
    session.sender(address).accepted(*(text(f"{place}", priority=priority) for place, priority in sent))
    expected = sorted(sent, key=lambda each: -_levels(levels, each[1]))
    found = session.receiver(address, credit=len(sent)).bodies(len(sent))
    assert found == [f"{place}" for place, _ in expected]


_BARE = {
    PROPERTIES: properties(message_id="1"),
    APPLICATION_PROPERTIES: application_properties({"k": 1}),
    FOOTER: section(FOOTER, {Symbol("x-opt-sum"): b"1"}),
}


@pytest.mark.parametrize("way", ["queue", "fanout", "dead letters", "stream", "modified"])
@pytest.mark.parametrize("absent", [*(n for r in range(4) for n in itertools.combinations(_BARE, r))], ids=str)
def test_what_is_left_out_stays_out(session: Session, queues: Queues, way: str, absent: tuple[int, ...]) -> None:
    """3.2.no-section-inserted: any of the sections there may be, by whichever way the message goes."""
    parts = {code: b"" if code in absent else part for code, part in _BARE.items()}
    message = parts[PROPERTIES] + parts[APPLICATION_PROPERTIES] + data_section(b"m") + parts[FOOTER]
    final = queues.new(**({"queue_type": "stream"} if way == "stream" else {}))
    to = f"/queues/{final}"
    filters: dict[str, object] = {}
    if way == "fanout":
        exchange = queues.exchange("fanout")
        queues.bind(final, exchange)
        to = f"/exchanges/{exchange}"
    elif way == "dead letters":
        to = queues.address(dead_letter_exchange="", dead_letter_routing_key=final)
    elif way == "stream":
        filters["o"] = Described(Symbol("rabbitmq:stream-offset-spec"), "first")
    session.sender(to).accepted(message)
    if way == "dead letters":
        dead = session.receiver(to, credit=1)
        dead.settle(dead.get(), Rejected(Error("amqp:internal-error", "why")))
    receiver = session.receiver(Source(address=f"/queues/{final}", filter=filters), credit=2)
    found = receiver.get()
    if way == "modified":
        receiver.settle(found, Modified(True, False, {"x-opt-k": 1}))
        found = receiver.get()
    assert found.message.bare == message[: len(message) - len(parts[FOOTER])]
    assert found.payload.endswith(message)
    receiver.settle(found)


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("count", [0, 1, 0xFFFF_FFFE, 0xFFFF_FFFF])
def test_delivery_counts_have_an_end(session: Session, queues: Queues, count: int, dead: bool) -> None:
    """3.4.5.delivery-failed: the highest that can be said does not begin again at 0."""
    letters = queues.new()
    address = queues.address(dead_letter_exchange="", dead_letter_routing_key=letters)
    session.sender(address).accepted(header(delivery_count=count) + value_section("m"))
    receiver = session.receiver(address, credit=2)
    found = receiver.get()
    assert found.message.delivery_count == count
    receiver.settle(found, Rejected() if dead else Modified(delivery_failed=True))
    again = session.receiver(f"/queues/{letters}", credit=1).get() if dead else receiver.get()
    assert again.message.delivery_count == min(count + 1, 0xFFFF_FFFF)


@pytest.mark.parametrize("how", ["fanout", "transaction", "by its to", "large", "behind a release"])
def test_what_was_accepted_is_there_after_a_kill(mortal: BrokerProcess, how: str) -> None:
    """3.2.1.durable-survives: whichever way it was accepted, byte for byte."""
    body = data_section(bytes(range(256)) * (2_000 if how == "large" else 1))
    message = header(durable=True, priority=7) + body
    with Queues(mortal.port) as queues, Peer(mortal.port) as peer:
        queue, other, exchange = queues.new(), queues.new(), queues.exchange("fanout")
        held = [queue]
        session = peer.start().session()
        if how == "fanout":
            held.append(other)
            for each in held:
                queues.bind(each, exchange)
            session.sender(f"/exchanges/{exchange}").accepted(message)
        elif how == "transaction":
            control = _control(session)
            txn_id = _declare(control)
            session.sender(f"/queues/{queue}").send(message, True, state=TransactionalState(txn_id))
            assert control.outcome(value_body(Discharge(txn_id, False))) == ACCEPTED
        elif how == "by its to":
            message = header(durable=True, priority=7) + properties(to=f"/queues/{queue}") + body
            session.sender(Target()).accepted(message)
        else:
            session.sender(f"/queues/{queue}").accepted(message)
        if how == "behind a release":
            receiver = session.receiver(f"/queues/{queue}", credit=1)
            receiver.settle(receiver.get(), Modified(delivery_failed=True))
            session.sync()
    mortal.kill()
    mortal.start()
    with Peer(mortal.port) as peer:
        session = peer.start().session()
        for each in held:
            found = session.receiver(f"/queues/{each}", credit=2).get().message
            assert (found.durable, found.priority) == (True, 7)
            assert found.bare.endswith(body)


def test_a_ttl_goes_on_through_a_kill(mortal: BrokerProcess) -> None:
    """3.2.1.ttl-reduced: less than it was, and less again after a release; not begun anew by a restart."""
    with Queues(mortal.port) as queues, Peer(mortal.port) as peer:
        address = queues.address()
        session = peer.start().session()
        session.sender(address).accepted(text(durable=True, ttl=600_000))
        receiver = session.receiver(address, credit=2)
        first = receiver.get()
        receiver.settle(first, RELEASED)
        second = receiver.get()
    mortal.kill()
    mortal.start()
    with Peer(mortal.port) as peer:
        third = peer.start().session().receiver(address, credit=1).get()
    told = [each.message.ttl for each in (first, second, third)]
    assert all(each is not None and 500_000 < each <= 600_000 for each in told)
    assert sorted(told, reverse=True) == told  # type: ignore[type-var]
    assert told[2] < told[0]  # type: ignore[operator]


@pytest.mark.parametrize("way", ["dead letters", "kill", "modified"])
def test_annotations_keep_their_types_on_any_way(mortal: BrokerProcess, way: str) -> None:
    """3.2.3.unaltered-unless-modified: where the message is written to disk, and where the broker adds its own."""
    given: dict[str, object] = {"x-opt-byte": UByte(7), "x-opt-map": {Symbol("k"): [None, True]}, "x-opt-null": None}
    with Queues(mortal.port) as queues, Peer(mortal.port) as peer:
        queue = queues.new()
        address = queues.address(dead_letter_exchange="", dead_letter_routing_key=queue)
        session = peer.start().session()
        session.sender(address).accepted(header(durable=True) + annotations(given) + value_section("m"))
        if way != "kill":
            receiver = session.receiver(address, credit=1)
            outcome = Rejected() if way == "dead letters" else Modified(True, False, {"x-opt-more": 1})
            receiver.settle(receiver.get(), outcome)
            session.sync()
    if way == "kill":
        mortal.kill()
        mortal.start()
    with Peer(mortal.port) as peer:
        final = f"/queues/{queue}" if way == "dead letters" else address
        found = peer.start().session().receiver(final, credit=1).get().message
        assert found.own_annotations.items() >= given.items()


# -- termini and nodes -------------------------------------------------------------------------------------------------


def test_a_target_is_told_as_it_is(session: Session, queues: Queues) -> None:
    """2.6.3.actual-properties: a target has a durability and an expiry as well."""
    asked = Target(address=queues.address(), durable=2, expiry_policy="connection-close", timeout=9)
    told = session.sender(asked, name=fresh("told")).answer.target
    assert isinstance(told, Target)
    assert (told.address, told.durable, told.expiry_policy, told.timeout) == (asked.address, 2, "connection-close", 9)


def test_a_node_lives_as_long_as_a_suspended_link(session: Session) -> None:
    """3.5.10.delete-on-close: a link that is detached, and can be resumed, has not ceased to exist."""
    wish: dict[str, object] = {"lifetime-policy": DeleteOnClose()}
    source = Source(dynamic=True, dynamic_node_properties=wish, expiry_policy="never")
    maker = session.receiver(source, name=fresh("maker"))
    assert maker.answer.source is not None
    address = maker.answer.source.address
    assert address is not None
    maker.detach(closed=False)
    session.sender(address).accepted(text("m"))
    again = session.receiver(Source(address, expiry_policy="never"), 1, name=maker.name, unsettled={})
    assert again.bodies(1) == ["m"]
    again.detach(closed=True)
    session.sender(address).expect_refusal("amqp:not-found")


@pytest.mark.parametrize("what", ["expiry", "purge", "limit"])
def test_no_way_to_lose_a_delivery_is_called_rejected(session: Session, queues: Queues, what: str) -> None:
    """3.4.3.no-spontaneous-rejection: neither a time to live that ends, nor a purge, nor a full queue."""
    address = queues.address(**({"max_length": 1} if what == "limit" else {}))
    sender = session.sender(address)
    sender.accepted(text("m", ttl=30 if what == "expiry" else None))
    receiver = session.receiver(address, credit=1)
    found = receiver.get()
    if what == "limit":
        sender.accepted(text("two"), text("three"))
    elif what == "purge":
        queues.purge(address)
    receiver.credit(0)
    session.sync()
    assert not [each for each in session.dispositions if not each.role]
    receiver.settle(found)


# -- transactions ------------------------------------------------------------------------------------------------------


ROLLED_BACK = "amqp:transaction:rollback"


def _control(session: Session) -> Sender:
    return session.sender(Coordinator(["amqp:local-transactions"]))


def _declare(control: Sender) -> bytes:
    declared = control.outcome(value_body(Declare()))
    assert isinstance(declared, Declared)
    return declared.txn_id


@pytest.mark.parametrize("settled", [False, True])
def test_two_outcomes_in_two_transactions(session: Session, queues: Queues, settled: bool) -> None:
    """4.4.2.one-transaction: also of a delivery that was sent in none; the second is no outcome, and rolls back."""
    address = queues.address()
    session.sender(address).accepted(text("m"))
    control = _control(session)
    one, two = _declare(control), _declare(control)
    receiver = session.receiver(address, credit=1)
    found = receiver.get()
    receiver.settle(found, TransactionalState(one, ACCEPTED), settled=False)
    receiver.settle(found, TransactionalState(two, Rejected()), settled=settled)
    control.expect_detach(ROLLED_BACK)
    receiver.detach()
    assert queues.count(address) == 1


def test_an_outcome_behind_that_of_a_transaction(session: Session, queues: Queues) -> None:
    """4.4.2.one-transaction: once the first was rolled back, the delivery is free for another."""
    address = queues.address()
    session.sender(address).accepted(text("m"))
    control = _control(session)
    one, two = _declare(control), _declare(control)
    receiver = session.receiver(address, credit=1)
    found = receiver.get()
    receiver.settle(found, TransactionalState(one, Rejected()), settled=False)
    assert control.outcome(value_body(Discharge(one, True))) == ACCEPTED
    receiver.settle(found, TransactionalState(two, ACCEPTED), settled=False)
    assert control.outcome(value_body(Discharge(two, False))) == ACCEPTED
    receiver.detach()
    assert queues.count(address) == 0


@pytest.mark.parametrize("fail", [False, True])
def test_a_discharge_that_was_sent_settled(session: Session, queues: Queues, fail: bool) -> None:
    """4.2.not-settled: §4.3 says the same of a discharge; nothing is committed by one."""
    address = queues.address()
    control = _control(session)
    txn_id = _declare(control)
    session.sender(address).send(text(), True, state=TransactionalState(txn_id))
    control.send(value_body(Discharge(txn_id, fail)), settled=True)
    session.peer.wait(lambda: control.detached is not None, session.ill)
    assert control.detached is not None
    assert control.detached.error is not None
    assert queues.count(address) == 0


def test_sections_around_a_declare_and_a_discharge(session: Session) -> None:
    """4.2.other-sections: annotations for the next hop and a footer, too, and around a discharge."""
    front = header(durable=True, ttl=1, priority=9, delivery_count=3)
    front += delivery_annotations({"x-opt-a": 1}) + annotations({"x-opt-a": 1})
    front += properties(message_id="id", to="/queues/no-such", user_id=b"nobody") + application_properties({"k": 1})
    footer = section(FOOTER, {Symbol("x-opt-sum"): b"1"})
    control = _control(session)
    declared = control.outcome(front + value_body(Declare()) + footer)
    assert isinstance(declared, Declared)
    assert control.outcome(front + value_body(Discharge(declared.txn_id, False)) + footer) == ACCEPTED


@pytest.mark.parametrize(
    "body", [data_section(b"m"), section(AMQP_SEQUENCE, [1]), value_section(None), value_body(ACCEPTED), b""]
)
def test_what_is_no_declare(session: Session, body: bytes) -> None:
    """4.2.error-conveyed: whatever the body is, an error is told, and nothing is declared."""
    control = _control(session)
    id = control.send(body)
    session.peer.wait(lambda: control.detached is not None or id in session.outcomes, session.ill)
    if control.detached:
        assert control.detached.error is not None
    else:
        state = session.outcomes[id].state
        assert isinstance(state, Rejected)
        assert state.error is not None


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("expiry", ["session-end", "never"])
def test_a_post_of_another_format(session: Session, queues: Queues, expiry: str, settled: bool) -> None:
    """2.7.5.message-format, 4.4.4.posting-fails: a message that is not taken does not let its transaction succeed."""
    address = queues.address()
    control = _control(session)
    txn_id = _declare(control)
    sender = session.sender(Target(address, expiry_policy=expiry), name=fresh("post"))
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    state = TransactionalState(txn_id)
    session.transfer(Transfer(sender.handle, sender.number(), b"t", 0x7777_0000, settled, state=state), text())
    outcome = control.outcome(value_body(Discharge(txn_id, False)))
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == ROLLED_BACK
    assert queues.count(address) == 0


def test_settled_and_rolled_back_without_a_default(session: Session, queues: Queues) -> None:
    """4.4.4.settled-then-rolled-back: where none was named, the default outcome is released."""
    letters = queues.new()
    address = queues.address(dead_letter_exchange="", dead_letter_routing_key=letters)
    session.sender(address).accepted(text("m"))
    control = _control(session)
    txn_id = _declare(control)
    receiver = session.receiver(address, credit=1)
    receiver.settle(receiver.get(), TransactionalState(txn_id, Rejected()), settled=True)
    assert control.outcome(value_body(Discharge(txn_id, True))) == ACCEPTED
    assert (queues.count(letters), queues.count(address)) == (0, 1)
