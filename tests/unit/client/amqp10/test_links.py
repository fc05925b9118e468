"""Senders and receivers of the AMQP 1.0 client, against an engine in the other role."""

import pytest

from flintmq.base.errors import ConnectionLost, LinkStolen, LocalProtocolError, NotFound
from flintmq.base.limits import FRAME_MAX_BYTES
from flintmq.client.amqp10.errors import LinkDetached, SendFailed
from flintmq.client.amqp10.message import Message
from flintmq.client.errors import LoginRefused
from flintmq.protocol.amqp10.sender import OutgoingDelivery
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    DeliveryState,
    Error,
    Modified,
    Received,
    Rejected,
)
from tests.unit.client.amqp10.server import Pair, receiver, sender

REJECTED = Rejected(Error("app:no", "not this"))
MESSAGE = Message(bytes(range(256)) * 40).encode()
# Of several frames in the client's direction, too.
LONG = Message(bytes(range(256)) * 1600).encode()


@pytest.fixture
def pair() -> Pair:
    return Pair().opened()


def test_a_login_that_is_refused() -> None:
    """The connection does not come about, and says why."""
    pair = Pair()
    pair.server.refuses_logins = True
    pair.run()
    with pytest.raises(LoginRefused):
        pair.client.opened.check()


def test_a_link_that_is_refused(pair: Pair) -> None:
    """The sender, and the receiver, get the server's words; the connection goes on."""
    pair.server.refuses_links = NotFound("no queue 'q'")
    for link in (sender(), receiver()):
        pair.attach(link)
        with pytest.raises(LinkDetached, match="amqp:not-found: no queue 'q'"):
            link.opened.check()
    pair.client.check()


@pytest.mark.parametrize("outcome", [ACCEPTED, RELEASED, REJECTED, Modified(delivery_failed=True)], ids=str)
def test_outcomes_come_to_the_sender(pair: Pair, outcome: DeliveryState) -> None:
    """Each message gets the outcome that the server gave it, and `report` names those that were not accepted."""
    link = sender()
    pair.attach(link)
    first, second = link.send(b"one"), link.send(b"two")
    pair.run()
    (incoming,) = pair.server.incoming
    for delivery, _ in incoming.messages:
        assert delivery is not None
        incoming.link.settle(delivery, outcome if delivery.tag == second.tag else ACCEPTED)
    pair.run()
    assert (first.outcome, second.outcome) == (ACCEPTED, outcome)
    assert link.idle.is_ready
    assert link.unsettled == 0
    if outcome is ACCEPTED:
        link.report()
    else:
        with pytest.raises(SendFailed) as raised:
            link.report()
        assert raised.value.refused == [(1, outcome)]
    link.report()


def test_messages_wait_for_credit(pair: Pair) -> None:
    """Without credit nothing is sent; with some, so much."""
    pair.server.credit = 0
    link = sender()
    pair.attach(link)
    for number in range(5):
        link.send(b"%d" % number)
    pair.run()
    (incoming,) = pair.server.incoming
    assert incoming.messages == []
    incoming.link.grant(2)
    pair.run()
    assert [payload for _, payload in incoming.messages] == [b"0", b"1"]
    assert not link.idle.is_ready


def test_credit_is_kept_up(pair: Pair) -> None:
    """A receiver asks for more as its messages are taken, and never for more than it was made for."""
    link = receiver(credit=4)
    pair.attach(link)
    (outgoing,) = pair.server.outgoing
    assert outgoing.link.credit == 4
    for number in range(4):
        outgoing.link.send(number, b"", b"%d" % number, settled=True)
    pair.run()
    assert outgoing.link.credit == 0
    assert [delivery.payload for delivery in link.take(3)] == [b"0", b"1", b"2"]
    pair.run()
    assert outgoing.link.credit == 3


@pytest.mark.parametrize("settled", [False, True])
def test_an_outcome_behind_the_detach_comes_to_the_sender(pair: Pair, settled: bool) -> None:
    """The message is not sent again when the link is resumed, although the server has forgotten it."""
    link = sender()
    pair.attach(link)
    sent = link.send(b"one")
    pair.run()
    (incoming,) = pair.server.incoming
    ((delivery, _),) = incoming.messages
    assert delivery is not None
    link.close(False)
    pair.run()
    if settled:
        incoming.link.settle(delivery, ACCEPTED)
    else:
        incoming.link.update(delivery, ACCEPTED)
    pair.run()
    assert (sent.outcome, link.unsettled) == (ACCEPTED, 0)
    pair.attach(link)
    assert pair.server.incoming[-1].messages == []


def test_what_the_server_settles_behind_the_detach_is_forgotten(pair: Pair) -> None:
    """In settle mode second: the link that is resumed does not speak of it."""
    link = receiver(second=True)
    pair.attach(link)
    (outgoing,) = pair.server.outgoing
    sent = outgoing.link.send(7, b"", b"message", settled=False)
    assert sent is not None
    pair.run()
    (delivery,) = link.take(1)
    link.settle(delivery, ACCEPTED)
    pair.run()
    link.close(False)
    pair.run()
    outgoing.link.settle(sent, ACCEPTED)
    pair.run()
    assert delivery.is_settled
    assert link.unsettled == 0


def test_nothing_is_said_behind_the_close_of_a_link(pair: Pair) -> None:
    """Its messages failed with it."""
    link = sender()
    pair.attach(link)
    sent = link.send(b"one")
    pair.run()
    (incoming,) = pair.server.incoming
    ((delivery, _),) = incoming.messages
    assert delivery is not None
    link.close(True)
    pair.run()
    incoming.link.session.add_disposition(True, delivery.id, ACCEPTED, True)
    pair.run()
    assert sent.outcome is None


@pytest.mark.parametrize("outcome", [ACCEPTED, RELEASED, REJECTED, Modified(undeliverable_here=True)], ids=str)
@pytest.mark.parametrize("second", [False, True], ids=["first", "second"])
def test_outcomes_go_to_the_server(pair: Pair, outcome: DeliveryState, *, second: bool) -> None:
    """What a program says of a message is what the server hears, in either settle mode."""
    link = receiver(second=second)
    pair.attach(link)
    (outgoing,) = pair.server.outgoing
    sent = outgoing.link.send(7, b"", b"message", settled=False)
    assert sent is not None
    pair.run()
    (delivery,) = link.take(10)
    link.settle(delivery, outcome)  # type: ignore[arg-type]
    pair.run()
    assert outgoing.dispositions == [(delivery.tag, outcome, not second)]
    assert delivery.is_settled is not second
    if second:
        outgoing.link.settle(sent, outcome)
        pair.run()
    assert delivery.is_settled
    assert link.unsettled == 0


def test_an_outcome_is_given_once(pair: Pair) -> None:
    """A second one is an error of the program in settle mode second, and nothing where it is settled already."""
    link = receiver(second=True)
    pair.attach(link)
    pair.server.outgoing[0].link.send(7, b"", b"message", settled=False)
    pair.run()
    (delivery,) = link.take(1)
    link.settle(delivery, ACCEPTED)
    with pytest.raises(LocalProtocolError, match="was accepted already"):
        link.settle(delivery, RELEASED)


def test_drain(pair: Pair) -> None:
    """Drained is a receiver whose credit the server gave back."""
    link = receiver(credit=10)
    pair.attach(link)
    link.drain()
    pair.run()
    assert not link.drained.is_ready
    server = pair.server.outgoing[0].link
    server.send(1, b"", b"last", settled=True)
    server.drained()
    pair.run()
    assert link.drained.is_ready
    assert [delivery.payload for delivery in link.take(10)] == [b"last"]


def test_a_lost_connection_fails_what_waits(pair: Pair) -> None:
    """Whoever waits for an outcome, or a message, hears that the connection is gone."""
    out, into = sender(), receiver()
    into.name = "other"
    pair.attach(out)
    pair.attach(into)
    sent = out.send(b"x")
    pair.run()
    pair.lose()
    for waitable in (sent, out.idle, into.inbox):
        assert waitable.is_ready
        with pytest.raises(ConnectionLost):
            waitable.check()
    with pytest.raises(ConnectionLost):
        out.send(b"y")


# -- resumed: the sender (part 3 §3.4.6) ------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 3000, 6000, len(MESSAGE) + 200])
def test_a_sender_goes_on_where_the_server_is(pair: Pair, cut: int) -> None:
    """After a lost connection only what the server lacks is sent, under the same tag (case 2); cut off anywhere."""
    link = sender()
    pair.attach(link)
    pair.client_may_send = cut
    sent = link.send(MESSAGE)
    pair.run()
    incoming = pair.server.incoming[0]
    had = next(iter(incoming.parts.values()), b"")
    pair.lose()

    again = Pair().opened()
    if had:
        again.server.unsettled = {sent.tag: place(had)}
    again.attach(link)
    resumed = again.server.incoming[0]
    ((delivery, payload),) = resumed.messages
    assert delivery is not None
    assert had + payload == MESSAGE
    assert delivery.tag == sent.tag
    assert delivery.is_resumed is bool(had)
    assert delivery.state == (place(had) if had else None)
    resumed.link.settle(delivery, ACCEPTED)
    again.run()
    sent.check()
    assert sent.outcome == ACCEPTED


def place(data: bytes) -> Received:
    """Of a message of a header and one data section."""
    header = len(Message(b"").encode()) - 5
    return Received(0, len(data)) if len(data) < header else Received(1, len(data) - header)


def test_a_sender_agrees_to_what_the_server_decided(pair: Pair) -> None:
    """The outcome that the server had reached is the message's, and no byte of it is sent again (case 3)."""
    link = sender()
    pair.attach(link)
    sent = link.send(MESSAGE)
    pair.run()
    pair.lose()
    again = Pair().opened()
    again.server.unsettled = {sent.tag: REJECTED}
    again.attach(link)
    ((delivery, payload),) = again.server.incoming[0].messages
    assert delivery is not None
    assert (payload, delivery.is_resumed, delivery.sent_settled, delivery.state) == (b"", True, True, REJECTED)
    sent.check()
    assert sent.outcome == REJECTED
    assert link.unsettled == 0


def test_a_sender_sends_all_again_if_nothing_is_left_of_it(pair: Pair) -> None:
    """A message that the server only knows by its tag is resumed from the beginning (case 4)."""
    link = sender()
    pair.attach(link)
    sent = link.send(MESSAGE)
    pair.run()
    pair.lose()
    again = Pair().opened()
    again.server.unsettled = {sent.tag: None}
    again.attach(link)
    ((delivery, payload),) = again.server.incoming[0].messages
    assert delivery is not None
    assert (payload, delivery.is_resumed) == (MESSAGE, True)


def test_a_server_that_tells_a_part_of_what_it_holds(pair: Pair) -> None:
    """What it told of is resumed or given up, and the link attached again for the rest; then new messages go."""
    link = sender()
    pair.attach(link)
    sent = [link.send(MESSAGE) for _ in range(3)]
    pair.run()
    pair.lose()
    again = Pair().opened()
    again.server.credit = 100_000
    strange = {b"strange %d" % number: ACCEPTED for number in range(30_000)}
    again.server.unsettled = {sent[0].tag: None, **strange, sent[1].tag: ACCEPTED}
    again.attach(link)
    last = link.send(LONG)
    settled: set[bytes] = set()
    for _ in range(10):
        incoming = again.server.incoming[-1]
        for delivery, _payload in incoming.messages:
            if delivery is not None and delivery.tag not in settled:
                settled.add(delivery.tag)
                incoming.link.settle(delivery, ACCEPTED)
        again.run()
    assert len(again.server.incoming) > 2
    assert link.peer is not None
    assert not link.peer.incomplete_unsettled
    assert [each.outcome for each in (*sent, last)] == [ACCEPTED] * 4
    # What was sent as new came once: the server's last answer, which was whole, did not know of it.
    assert [payload for _, payload in again.server.incoming[-1].messages if payload] == [MESSAGE, LONG]
    assert link.unsettled == 0


def test_a_link_that_is_closed_while_it_comes_again(pair: Pair) -> None:
    """A link that detached to hear the rest of what the server holds, and is closed meanwhile, ends closed."""
    link = sender()
    pair.attach(link)
    sent = link.send(MESSAGE)
    pair.run()
    pair.lose()
    again = Pair().opened()
    again.server.credit = 100_000
    again.server.unsettled = {b"strange %d" % number: ACCEPTED for number in range(30_000)} | {sent.tag: None}
    again.client.attach(link)
    while len(again.server.incoming) < 2:
        again.step()
        if again.server.incoming and again.server.incoming[0].aborted:
            # Once the link has detached, this is for the next.
            link.close(closed=True)
    again.run()
    assert link.ended.is_ready
    assert again.server.incoming[-1].is_detached


def test_what_is_resumed_waits_for_credit(pair: Pair) -> None:
    """Resumed and new messages keep their order, however little credit there is."""
    link = sender()
    pair.attach(link)
    payloads = [Message(b"%d" % number).encode() for number in range(5)]
    tags = [link.send(payload).tag for payload in payloads[:4]]
    pair.run()
    pair.lose()
    again = Pair().opened()
    again.server.credit = 0
    again.server.unsettled = {tags[1]: None, tags[2]: ACCEPTED}
    again.attach(link)
    link.send(payloads[4])
    incoming = again.server.incoming[0]
    for _ in range(6):
        incoming.link.grant(1)
        again.run()
    came = [payload for _, payload in incoming.messages]
    assert came == [payloads[1], b"", payloads[0], payloads[3], payloads[4]]


# -- resumed: the receiver --------------------------------------------------------------------------------------


def half_received(pair: Pair, size: int) -> tuple[bytes, bytes]:
    """A receiver got the first bytes of a message when the connection was lost; its tag, and what it got."""
    server = pair.server.outgoing[0].link
    delivery = server.send_tagged(b"tag", [LONG])
    assert delivery is not None
    data = b"".join(pair.server.output.take())
    pair.client.receive(data[:size], 0.0)
    pair.lose()
    return delivery.tag, data


@pytest.mark.parametrize("size", [FRAME_MAX_BYTES, 2 * FRAME_MAX_BYTES])
def test_a_receiver_gets_what_it_lacks(pair: Pair, size: int) -> None:
    """It says how far it came, and puts what is sent from there behind what it had (case 2)."""
    link = receiver()
    pair.attach(link)
    tag, _ = half_received(pair, size)
    assert link.unsettled == 1
    again = Pair().opened()
    again.server.unsettled = {tag: None}
    again.attach(link)
    outgoing = again.server.outgoing[0]
    peer = outgoing.link.peer
    assert peer is not None
    assert peer.unsettled is not None
    state = peer.unsettled[tag]
    assert isinstance(state, Received)
    header = len(Message(b"").encode()) - 5
    had = state.section_offset if state.section_number == 0 else header + state.section_offset
    assert size - 200 < had < size
    outgoing.link.resume(tag, [LONG[had:]], state)
    again.run()
    (delivery,) = link.take(10)
    assert delivery.payload == LONG
    link.settle(delivery, ACCEPTED)
    again.run()
    assert outgoing.dispositions == [(tag, ACCEPTED, True)]


@pytest.mark.parametrize("state", [None, Received(0, 0), Received(1, 100)], ids=str)
def test_a_receiver_takes_no_byte_twice(pair: Pair, state: Received | None) -> None:
    """What is sent from further in front than need be is ignored up to where the receiver was."""
    link = receiver()
    pair.attach(link)
    tag, _ = half_received(pair, FRAME_MAX_BYTES)
    again = Pair().opened()
    again.server.unsettled = {tag: None}
    again.attach(link)
    header = len(Message(b"").encode()) - 5
    start = header + 100 if state is not None and state.section_number else 0
    again.server.outgoing[0].link.resume(tag, [LONG[start:]], state)
    again.run()
    (delivery,) = link.take(10)
    assert delivery.payload == LONG


def settled_meanwhile(pair: Pair, outcome: DeliveryState) -> bytes:
    """A receiver whose program settled a message after the connection was lost."""
    link = receiver()
    pair.attach(link)
    pair.server.outgoing[0].link.send_tagged(b"tag", [MESSAGE])
    pair.run()
    (delivery,) = link.take(1)
    pair.lose()
    link.settle(delivery, outcome)  # type: ignore[arg-type]
    assert not delivery.is_settled
    again = Pair().opened()
    again.server.unsettled = {b"tag": None}
    again.attach(link)
    peer = again.server.outgoing[0].link.peer
    assert peer is not None
    assert peer.unsettled == {b"tag": outcome}
    # What the server decided holds, whether it is the same (cases 3 and 12) or not (case 13).
    again.server.outgoing[0].link.resume(b"tag", [], ACCEPTED)
    again.run()
    assert again.server.outgoing[0].dispositions == [(b"tag", ACCEPTED, True)]
    assert delivery.is_settled
    assert delivery.outcome == ACCEPTED
    assert link.unsettled == 0
    return delivery.tag


@pytest.mark.parametrize("outcome", [ACCEPTED, RELEASED], ids=str)
def test_an_outcome_that_was_given_meanwhile(pair: Pair, outcome: DeliveryState) -> None:
    """The server hears it when the link is resumed, and has the last word."""
    settled_meanwhile(pair, outcome)


def test_a_message_that_was_whole_and_undecided(pair: Pair) -> None:
    """It is not sent again and not taken again, and can be settled as before."""
    link = receiver()
    pair.attach(link)
    pair.server.outgoing[0].link.send_tagged(b"tag", [MESSAGE])
    pair.run()
    (delivery,) = link.take(1)
    pair.lose()
    again = Pair().opened()
    again.server.unsettled = {b"tag": None}
    again.attach(link)
    outgoing = again.server.outgoing[0]
    peer = outgoing.link.peer
    assert peer is not None
    assert peer.unsettled == {b"tag": Received(2, 0)}
    outgoing.link.resume(b"tag", [], Received(2, 0))
    again.run()
    assert link.take(1) == []
    link.settle(delivery, ACCEPTED)
    again.run()
    assert outgoing.dispositions == [(b"tag", ACCEPTED, True)]


def test_a_delivery_that_cannot_be_resumed(pair: Pair) -> None:
    """The server aborts it: it is forgotten (cases 7, 9, 11 and 14), and comes as a new one if at all."""
    link = receiver()
    pair.attach(link)
    tag, _ = half_received(pair, FRAME_MAX_BYTES)
    again = Pair().opened()
    again.server.unsettled = {tag: Received(5, 0)}
    again.attach(link)
    outgoing = again.server.outgoing[0]
    outgoing.link.abort_resumed(tag)
    again.run()
    assert link.unsettled == 0
    outgoing.link.send_tagged(b"new", [MESSAGE])
    again.run()
    (delivery,) = link.take(10)
    assert (delivery.tag, delivery.payload) == (b"new", MESSAGE)


def test_a_message_that_waited_and_is_given_up(pair: Pair) -> None:
    """It comes as a new one if at all: nobody takes the old one, and its place is free for another."""
    link = receiver(credit=1)
    pair.attach(link)
    pair.server.outgoing[0].link.send_tagged(b"tag", [MESSAGE])
    pair.run()
    pair.lose()
    again = Pair().opened()
    again.server.unsettled = {b"tag": None}
    again.attach(link)
    assert link.inbox.is_ready
    outgoing = again.server.outgoing[0]
    outgoing.link.abort_resumed(b"tag")
    again.run()
    assert not link.inbox.is_ready
    assert outgoing.link.credit == 1
    outgoing.link.send_tagged(b"new", [MESSAGE])
    again.run()
    assert [delivery.tag for delivery in link.take(10)] == [b"new"]


def test_what_the_server_does_not_know_is_forgotten(pair: Pair) -> None:
    """A server that lost the link sends its messages anew: what waited here of the old ones is not taken, too."""
    link = receiver()
    pair.attach(link)
    pair.server.outgoing[0].link.send_tagged(b"tag", [MESSAGE])
    pair.run()
    pair.lose()
    again = Pair().opened()
    again.attach(link)
    assert link.unsettled == 0
    assert link.take(10) == []


def test_a_receiver_that_cannot_tell_all_it_holds_at_once(pair: Pair) -> None:
    """What fitted into its attach is settled first; then it attaches again, with the rest. Each is settled once."""
    link = receiver(credit=600)
    pair.attach(link)
    tags = [b"%d" % number for number in range(600)]
    for tag in tags:
        pair.server.outgoing[0].link.send_tagged(tag, [Message(tag).encode()])
        pair.run()
    held = link.take(600)
    assert len(held) == 600
    pair.lose()
    for delivery in held:
        link.settle(delivery, ACCEPTED)
    again = Pair().opened()
    again.server.unsettled = dict.fromkeys(tags)
    again.attach(link)
    for _ in range(10):
        outgoing = again.server.outgoing[-1]
        peer = outgoing.link.peer
        assert peer is not None
        for tag in peer.unsettled or {}:
            if again.server.unsettled.pop(tag, 1) is None:
                outgoing.link.resume(tag, [], ACCEPTED, settled=True)
        again.run()
    assert len(again.server.outgoing) > 1
    assert again.server.unsettled == {}
    assert link.unsettled == 0
    again.server.outgoing[-1].link.send_tagged(b"new", [MESSAGE])
    again.run()
    assert [delivery.tag for delivery in link.take(10)] == [b"new"]


def test_what_a_receiver_could_not_tell_of_is_settled_before_the_rest(pair: Pair) -> None:
    """An outcome that did not fit into its attach waits for no message that the program has not decided."""
    link = receiver(credit=600, second=True)
    pair.attach(link)
    tags = [b"%d" % number for number in range(600)]
    for tag in tags:
        pair.server.outgoing[0].link.send_tagged(tag, [Message(tag).encode()])
        pair.run()
    held = link.take(600)
    pair.lose()
    again = Pair().opened()
    again.server.unsettled = dict.fromkeys(tags)
    again.attach(link)
    resumed: dict[tuple[int, bytes], OutgoingDelivery | None] = {}

    def answer() -> dict[bytes, DeliveryState | None]:
        """The server takes up what the last attach has; returns that."""
        outgoing = again.server.outgoing[-1]
        peer = outgoing.link.peer
        assert peer is not None
        assert peer.unsettled is not None
        for tag, state in peer.unsettled.items():
            key = (len(again.server.outgoing), tag)
            if key not in resumed:
                resumed[key] = outgoing.link.resume(tag, [], state, settled=state == ACCEPTED)
        again.run()
        return peer.unsettled

    assert 0 < len(answer()) < 300
    # None of what was told is decided: there is nothing that it would have to wait for.
    for delivery in (held[599], held[598]):
        assert delivery.tag not in answer()
        link.settle(delivery, ACCEPTED)
        again.run()
        assert next(iter(answer().items())) == (delivery.tag, ACCEPTED)
        assert delivery.is_settled
    assert len(again.server.outgoing) == 3
    with pytest.raises(LocalProtocolError, match="it without a transaction"):
        link.settle(held[597], ACCEPTED, b"txn")
    # What was told and decided is settled first.
    link.settle(held[0], ACCEPTED)
    link.settle(held[597], ACCEPTED)
    again.run()
    outgoing = again.server.outgoing[-1]
    assert outgoing.dispositions == [(held[0].tag, ACCEPTED, False)]
    asked = resumed[len(again.server.outgoing), held[0].tag]
    assert asked is not None
    outgoing.link.settle(asked, ACCEPTED)
    again.run()
    assert next(iter(answer())) == held[597].tag
    assert (held[0].is_settled, held[597].is_settled) == (True, True)
    assert link.unsettled == 596


def test_a_link_that_is_taken_along(pair: Pair) -> None:
    """A link that is attached elsewhere while its connection is there hears nothing more of that one."""
    out, into = sender(), receiver()
    into.name = "other"
    again = Pair().opened()
    for link in (out, into):
        pair.attach(link)
        again.attach(link)
    for owner in (pair.server.incoming[0], pair.server.outgoing[0]):
        owner.link.detach(LinkStolen("attached somewhere else"))
    pair.run()
    out.check()
    into.check()
    out.send(MESSAGE)
    again.run()
    assert [payload for _, payload in again.server.incoming[0].messages] == [MESSAGE]


def test_an_outcome_that_was_given_early(pair: Pair) -> None:
    """Between the attach and the server's transfer, too: the server hears it as soon as it has spoken."""
    link = receiver()
    pair.attach(link)
    pair.server.outgoing[0].link.send_tagged(b"tag", [MESSAGE])
    pair.run()
    (delivery,) = link.take(1)
    pair.lose()
    again = Pair().opened()
    again.server.unsettled = {b"tag": None}
    again.attach(link)
    link.settle(delivery, RELEASED)
    outgoing = again.server.outgoing[0]
    outgoing.link.resume(b"tag", [], Received(2, 0))
    again.run()
    assert outgoing.dispositions == [(b"tag", RELEASED, True)]
    assert delivery.is_settled
