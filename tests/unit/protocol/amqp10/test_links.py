"""Links of AMQP 1.0: attaching and detaching, credit, transfers, settlement."""

import pytest

from flintmq.base.errors import DetachForced, EndedByPeer, InvalidField, NotFound
from flintmq.base.limits import UNACKED_TAGS_PER_UNIT
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.protocol.amqp10.delivery import tag_of
from flintmq.protocol.amqp10.frame_writer import encode
from flintmq.protocol.amqp10.states import Endpoint
from flintmq.wire.amqp10.performatives import Attach, Flow, Transfer
from flintmq.wire.amqp10.spec import DISPOSITION, RCV_SECOND, SND_SETTLED, SND_UNSETTLED, TRANSFER
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, Received, Rejected, TransactionalState
from flintmq.wire.amqp10.termini import Source, Target
from tests.unit.protocol.amqp10.pair import Flowing, Meets, Pair, Receives, Sends


def condition(error: object) -> str:
    assert isinstance(error, EndedByPeer)
    return error.condition


def test_begin_and_end() -> None:
    """A session is begun by both and ended by both, and its channel is free again."""
    pair = Pair().open()
    session, owner, peer = pair.session()
    assert session.is_open
    assert len(owner.begun) == 1
    session.end()
    pair.run()
    assert owner.ended == [None]
    assert peer.ended == [None]
    assert pair.client.engine.sessions == []
    assert pair.server.engine.sessions == []
    again, _, _ = pair.session()
    assert again.number == 0


def test_refused_session() -> None:
    """A session that the server does not want is begun and ended with its reason."""
    pair = Pair().open()
    pair.server.refusal = NotFound("no")
    owner = Meets()
    pair.client.engine.begin(owner)
    pair.run()
    assert condition(owner.ended[0]) == "amqp:not-found"
    assert pair.server.engine.sessions == []


def test_attach() -> None:
    """Both sides learn the other's termini, and links have the lowest free handles."""
    flowing = Flowing()
    assert flowing.sends.attached[0].target == Target(address="there")
    assert flowing.peer.attaches[0].source == Source(address="here")
    assert flowing.sender.is_attached
    assert flowing.receiver.is_attached
    second = flowing.session.attach_receiver(Receives(), Attach(name="link"))
    flowing.run()
    assert second.handle == 1
    flowing.sender.detach()
    flowing.run()
    third = flowing.session.attach_sender(Sends(), Attach(name="third"))
    assert third.handle == 0


@pytest.mark.parametrize("raises", [True, False])
def test_refused_attach(raises: bool) -> None:
    """A refusal is an attach without terminus, and a detach with the reason."""
    pair = Pair().open()
    session, _, peer = pair.session()
    peer.decides = False
    if raises:
        peer.refusal = NotFound("no queue 'q'")
    sends = Sends()
    session.attach_sender(sends, Attach(name="link", source=Source(), target=Target(address="q")))
    pair.run()
    if not raises:
        link = peer.receivers[0].link
        assert link is not None
        link.refuse(NotFound("no queue 'q'"))
        pair.run()
        assert peer.receivers[0].released == 1
    assert sends.attached[0].target is None
    error, closed = sends.detached[0]
    assert condition(error) == "amqp:not-found"
    assert closed
    assert session.links == []


@pytest.mark.parametrize("closed", [True, False])
def test_detach(closed: bool) -> None:
    """A detach is answered in kind; who asked is told when it was, the other when it is asked."""
    flowing = Flowing()
    flowing.sender.detach(closed=closed)
    flowing.run()
    assert flowing.sends.released == 1
    assert flowing.sends.detached == []
    assert flowing.receives.detached == [(None, closed)]
    assert flowing.session.links == []


@pytest.mark.parametrize("to_server", [True, False])
def test_looking_through_deliveries_is_paid_for(to_server: bool) -> None:
    """A detach looks for the link's deliveries among all of the session: that is work which its peer has caused."""
    flowing = Flowing(to_server)
    for number in range(3 * UNACKED_TAGS_PER_UNIT):
        flowing.sender.send(number, b"", b"x", False)
    flowing.run()
    link = flowing.receiver if to_server else flowing.sender
    engine = flowing.pair.server.engine
    before = engine._work
    assert len(link.live()) == 3 * UNACKED_TAGS_PER_UNIT
    assert before - engine._work == 3


@pytest.mark.parametrize("closed", [True, False])
def test_detach_with_error(closed: bool) -> None:
    """With an error, too, a link may be closed or wait to be resumed; its deliveries have no numbers any more."""
    flowing = Flowing()
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    flowing.receiver.detach(DetachForced("by the operator"), closed=closed)
    flowing.run()
    error, was_closed = flowing.sends.detached[0]
    assert condition(error) == "amqp:link:detach-forced"
    assert was_closed == closed
    assert flowing.receiver.unsettled == flowing.sender.unsettled == 0


@pytest.mark.parametrize("resumes", [True, False])
def test_attach_behind_an_error(resumes: bool) -> None:
    """A link that was detached for a fault of the peer is resumed, or the session is over."""
    flowing = Flowing(credit=1)
    for number in range(2):
        flowing.sender.credit = 1
        flowing.sender.send(number, b"", b"x", True)
    again = Attach(name="link", source=Source(), target=Target(), unsettled={} if resumes else None)
    flowing.session.attach_sender(Sends(), again)
    flowing.pair.feed(flowing.pair.server, flowing.pair.client.take())
    flowing.run()
    assert bool(flowing.owner.ended) != resumes
    if not resumes:
        assert condition(flowing.owner.ended[0]) == "amqp:session:errant-link"


def test_end_of_session_detaches() -> None:
    """Links go with their session, and are not closed by it."""
    flowing = Flowing()
    flowing.session.end()
    flowing.run()
    assert flowing.sends.detached == [(None, False)]
    assert flowing.receives.detached == [(None, False)]


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("to_server", [True, False])
def test_settled(step: int, to_server: bool) -> None:
    """A settled message arrives without a delivery, and uses up credit on both sides."""
    flowing = Flowing(to_server, 2, step=step)
    assert flowing.sender.credit == 2
    assert flowing.sender.send(7, b"head", b"body", True) is None
    flowing.run()
    assert flowing.receives.messages == [(None, b"headbody")]
    assert (flowing.sender.credit, flowing.receiver.credit) == (1, 1)
    assert flowing.receiver.delivery_count == flowing.sender.delivery_count == 1


@pytest.mark.parametrize("settled", [True, False])
def test_message_format(settled: bool) -> None:
    """Whoever receives a message of another format learns that, whether it was settled or not."""
    flowing = Flowing()
    flowing.sender.send_tagged(b"t", [b"payload"], settled, 7)
    flowing.run()
    [(delivery, payload)] = flowing.receives.messages
    assert delivery is not None
    assert (delivery.message_format, delivery.is_settled, payload) == (7, settled, b"payload")


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("to_server", [True, False])
def test_unsettled(step: int, to_server: bool) -> None:
    """An unsettled message is known by its tag until the receiver settles it; neighbours are settled together."""
    flowing = Flowing(to_server, step=step)
    marks = ["one", "two", "three"]
    sent = [flowing.sender.send(number, b"", b"x", False, mark) for number, mark in enumerate(marks)]
    assert flowing.sender.unsettled == 3
    flowing.run()
    received = [delivery for delivery, _ in flowing.receives.messages if delivery is not None]
    assert [delivery.tag for delivery in received] == [tag_of(number) for number in range(3)]
    assert flowing.receiver.unsettled == 3
    before = len(flowing.pair.from_server + flowing.pair.from_client)
    for delivery in received:
        flowing.receiver.settle(delivery, ACCEPTED)
    flowing.run()
    assert len(flowing.pair.from_server + flowing.pair.from_client) - before < 40
    assert [(each, state, settled) for each, state, settled in flowing.sends.dispositions] == [
        (each, ACCEPTED, True) for each in sent
    ]
    assert [each.mark for each, _, _ in flowing.sends.dispositions] == marks
    assert flowing.sender.unsettled == flowing.receiver.unsettled == 0


def test_outcomes_are_not_joined_across_states() -> None:
    """What is said of one delivery is not said of its neighbour."""
    flowing = Flowing()
    for number in range(4):
        flowing.sender.send(number, b"", b"x", False)
    flowing.run()
    states = [ACCEPTED, RELEASED, RELEASED, Rejected()]
    for (delivery, _), state in zip(flowing.receives.messages, states, strict=True):
        assert delivery is not None
        flowing.receiver.settle(delivery, state)
    flowing.run()
    assert [state for _, state, _ in flowing.sends.dispositions] == states


def test_settle_mode_second() -> None:
    """The receiver says its outcome, the sender settles, and then the receiver knows."""
    flowing = Flowing(attach=Attach(source=Source(), target=Target(), rcv_settle_mode=RCV_SECOND))
    flowing.receives.accepts = True
    sent = flowing.sender.send(1, b"", b"x", False)
    assert sent is not None
    flowing.run()
    assert flowing.sends.dispositions == [(sent, ACCEPTED, False)]
    assert flowing.receiver.unsettled == 1
    flowing.sender.settle(sent, ACCEPTED)
    flowing.run()
    delivery, state, settled = flowing.receives.dispositions[0]
    assert (state, settled, delivery.is_settled) == (ACCEPTED, True, True)
    assert flowing.receiver.unsettled == 0


@pytest.mark.parametrize("step", [0, 7])
@pytest.mark.parametrize("settled", [True, False])
def test_large(step: int, settled: bool) -> None:
    """A message larger than a frame arrives as one."""
    flowing = Flowing(server=Tuning(frame_max=512), step=step)
    body = bytes(range(256)) * 40
    flowing.sender.send(1, b"head", body, settled)
    flowing.sender.send(2, b"head", b"small", settled)
    flowing.run()
    assert [payload for _, payload in flowing.receives.messages] == [b"head" + body, b"head" + b"small"]
    assert flowing.pair.server.engine.reassembly.held == 0


def test_huge_body_is_not_copied() -> None:
    """A body that lies in memory is laid behind what was written."""
    flowing = Flowing()
    body = b"x" * 100_000
    flowing.sender.send(1, b"head", body, True)
    chunks = flowing.pair.client.output.take()
    assert any(chunk is body for chunk in chunks)
    flowing.pair.feed(flowing.pair.server, b"".join(chunks))
    assert flowing.receives.messages == [(None, b"head" + body)]


def test_parts_of_a_huge_body_are_not_copied() -> None:
    """A body of several transfers is laid behind what was written, part by part."""
    flowing = Flowing(server=Tuning(frame_max=100_000), client=Tuning(frame_max=100_000))
    body = bytes(range(256)) * 1_000
    flowing.sender.send(1, b"head", body, True)
    chunks = flowing.pair.client.output.take()
    views = [chunk for chunk in chunks if isinstance(chunk, memoryview)]
    assert len(views) == 2
    assert all(view.obj is body for view in views)
    flowing.pair.feed(flowing.pair.server, b"".join(chunks))
    assert flowing.receives.messages == [(None, b"head" + body)]


def test_parts() -> None:
    """A receiver that wants parts gets them as they come."""
    flowing = Flowing(server=Tuning(frame_max=512))
    flowing.receiver.wants_parts = True
    body = bytes(range(256)) * 8
    flowing.sender.send(1, b"", body, False)
    flowing.run()
    assert flowing.receives.messages == []
    assert b"".join(part for _, part, _ in flowing.receives.parts) == body
    assert [more for _, _, more in flowing.receives.parts] == [True] * (len(flowing.receives.parts) - 1) + [False]
    assert len({id(delivery) for delivery, _, _ in flowing.receives.parts}) == 1


def test_no_credit() -> None:
    """Without credit nothing may be sent; who does all the same is detached."""
    flowing = Flowing(credit=1)
    flowing.sender.send(1, b"", b"x", True)
    assert not flowing.sender.can_send
    flowing.sender.credit = 1
    flowing.sender.send(2, b"", b"x", True)
    flowing.run()
    assert len(flowing.receives.messages) == 1
    error, closed = flowing.sends.detached[0]
    assert condition(error) == "amqp:link:transfer-limit-exceeded"
    assert closed
    assert flowing.receives.detached[0][1]


def test_errant_link() -> None:
    """Who goes on after such an error loses the session."""
    flowing = Flowing(credit=1)
    for number in range(3):
        flowing.sender.credit = 1
        flowing.sender.send(number, b"", b"x", True)
    flowing.run()
    assert condition(flowing.owner.ended[0]) == "amqp:session:errant-link"


def test_input_behind_a_refusal_is_dropped() -> None:
    """What was on its way when a link was detached for reasons of ours does no harm."""
    flowing = Flowing()
    flowing.receiver.detach(DetachForced("closed"))
    flowing.sender.send(1, b"", b"x", True)
    flowing.run()
    assert flowing.session.is_open
    assert flowing.receives.messages == []


def test_credit_taken_back() -> None:
    """Transfers that were on their way when credit was taken back are taken all the same."""
    flowing = Flowing(credit=10)
    for number in range(5):
        flowing.sender.send(number, b"", b"x", True)
    flowing.receiver.grant(0)
    flowing.run()
    assert len(flowing.receives.messages) == 5
    assert flowing.sender.credit == 0


def test_drain() -> None:
    """Asked to drain, the sender sends what it has and gives the rest of its credit back."""
    flowing = Flowing(credit=10)
    flowing.receiver.drain_credit()
    flowing.run()
    assert flowing.sends.flows[-1] == (10, True)
    flowing.sender.send(1, b"", b"x", True)
    flowing.sender.drained()
    flowing.run()
    assert (flowing.sender.credit, flowing.receiver.credit) == (0, 0)
    assert flowing.receiver.delivery_count == 10
    assert not flowing.receiver.drain
    assert flowing.sender.drain
    flowing.sender.drained()
    flowing.run()
    assert len(flowing.receives.flows) == 1
    flowing.receiver.grant(3)
    flowing.run()
    assert flowing.sender.credit == 3


def test_available_and_properties() -> None:
    """The sender may say how much it has, and more."""
    flowing = Flowing()
    flowing.sender.available = 17
    flowing.sender.send_flow({"active": True})
    flowing.run()
    assert flowing.receives.flows[-1] == (100, 17)
    assert flowing.receiver.flow_properties == {"active": True}


def test_echo() -> None:
    """A flow that asks for an answer gets one, of the link or of the session."""
    flowing = Flowing()
    before = len(flowing.sends.flows)
    flowing.session.send_flow(Flow(handle=flowing.sender.handle, delivery_count=0, link_credit=100, echo=True))
    flowing.run()
    assert len(flowing.sends.flows) == before + 1
    sent = len(flowing.pair.from_server)
    flowing.session.send_flow(Flow(echo=True))
    flowing.run()
    assert len(flowing.pair.from_server) > sent


def test_window() -> None:
    """A sender stops at the end of the session's window, and goes on when the receiver has read."""
    flowing = Flowing(server=Tuning(frame_max=512))
    flowing.session._remote_window = 3
    flowing.sender.send(1, b"", b"x" * 2000, True)
    flowing.pair.feed(flowing.pair.server, flowing.pair.client.take())
    assert not flowing.sender.can_send
    assert flowing.receives.messages == []
    peer = flowing.peer.session
    assert peer is not None
    peer.send_flow(Flow())
    flowing.run()
    assert len(flowing.receives.messages) == 1
    assert flowing.sends.rooms == 1


def test_window_and_an_incomplete_map() -> None:
    """A sender that may only resume goes on behind the session's window, too."""
    flowing = Flowing()
    flowing.peer.answer = Attach(unsettled={b"1": None, b"2": None}, incomplete_unsettled=True)
    sends = Sends()
    asked = Attach(name="again", source=Source(), target=Target(), unsettled={b"1": None, b"2": None})
    link = flowing.session.attach_sender(sends, asked)
    flowing.run()
    assert link.can_resume
    flowing.session._remote_window = 1
    link.resume(b"1", [b"x"])
    assert not link.can_resume
    peer = flowing.peer.session
    assert peer is not None
    peer.send_flow(Flow())
    flowing.run()
    assert link.can_resume
    assert sends.rooms == 1


def test_window_is_renewed() -> None:
    """However much is sent, a receiver that reads keeps the window open."""
    flowing = Flowing(credit=200_000)
    for _ in range(5):
        for number in range(30_000):
            assert flowing.sender.can_send
            flowing.sender.send(number, b"", b"", True)
        flowing.run()
    assert len(flowing.receives.messages) == 150_000


def test_window_violation() -> None:
    """Transfers beyond the window end the session."""
    flowing = Flowing()
    peer = flowing.peer.session
    assert peer is not None
    peer._incoming_left = 1
    flowing.sender.send(1, b"", b"x", True)
    flowing.sender.send(2, b"", b"x", True)
    flowing.run()
    assert condition(flowing.owner.ended[0]) == "amqp:session:window-violation"


def test_too_large() -> None:
    """A message above max-message-size ends the link, however many frames it comes in."""
    for frame_max in (512, 100_000):
        flowing = Flowing(server=Tuning(frame_max=frame_max, message_max=1000))
        assert flowing.sender.message_max == 1000
        flowing.sender.send(1, b"", b"x" * 1001, False)
        flowing.run()
        assert condition(flowing.sends.detached[0][0]) == "amqp:link:message-size-exceeded"
        assert flowing.pair.server.engine.reassembly.held == 0


@pytest.mark.parametrize("window", [0, 1, 3])
def test_abort(window: int) -> None:
    """A message that is half sent may be given up; the receiver hears of it as soon as the window lets it."""
    flowing = Flowing(server=Tuning(frame_max=512))
    peer = flowing.peer.session
    assert peer is not None
    flowing.session._remote_window = window
    sent = flowing.sender.send(1, b"", b"x" * 5000, False)
    assert sent is not None
    assert flowing.sender.abort(sent)
    assert not flowing.sender.abort(sent)
    flowing.run()
    assert flowing.sender.is_aborting
    assert not flowing.sender.can_send
    assert flowing.receives.aborted == []
    peer.send_flow(Flow())
    flowing.run()
    assert not flowing.sender.is_aborting
    assert len(flowing.receives.aborted) == 1
    assert flowing.receives.messages == []
    assert flowing.pair.server.engine.reassembly.held == 0
    assert flowing.receiver.unsettled == flowing.sender.unsettled == 0
    flowing.sender.send(2, b"", b"next", False)
    flowing.run()
    assert [payload for _, payload in flowing.receives.messages] == [b"next"]
    assert flowing.receiver.delivery_count == flowing.sender.delivery_count == 2


def test_transfers_of_one_transaction() -> None:
    """All transfers of a delivery are of the transaction that the first names, or say nothing of it."""
    one, two = TransactionalState(txn_id=b"1"), TransactionalState(txn_id=b"2")
    for first, second, is_well in ((one, one, True), (one, None, True), (one, two, False), (None, one, False)):
        flowing = Flowing()
        flowing.session.send_transfer(Transfer(handle=0, delivery_id=0, delivery_tag=b"t", state=first, more=True))
        flowing.session.send_transfer(Transfer(handle=0, state=second))
        flowing.run()
        assert len(flowing.receives.messages) == is_well
        assert len(flowing.sends.detached) == (not is_well)


def test_session_end_gives_back_what_is_unsettled() -> None:
    """When a session is over, the sender still has what nobody settled, in its order."""
    flowing = Flowing()
    flowing.sends.link = flowing.sender
    for number in range(3):
        flowing.sender.send(number, b"", b"x", False, number)
    flowing.run()
    flowing.session.end()
    flowing.run()
    assert [delivery.mark for delivery in flowing.sends.unsettled] == [0, 1, 2]
    assert len(flowing.receives.unsettled) == 3


def test_deliveries_survive_a_detach() -> None:
    """After a detach that does not close the link, dispositions still find its deliveries."""
    flowing = Flowing()
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    flowing.receives.link = None
    flowing.sender.detach(closed=False)
    flowing.run()
    delivery, _ = flowing.receives.messages[0]
    assert delivery is not None
    flowing.receiver.settle(delivery, ACCEPTED)
    flowing.run()
    assert flowing.sends.dispositions[0][1:] == (ACCEPTED, True)


def test_stale_dispositions() -> None:
    """What is said of a delivery that was settled before is not heard."""
    flowing = Flowing()
    sent = flowing.sender.send(1, b"", b"x", False)
    assert sent is not None
    flowing.run()
    flowing.sender.settle(sent, RELEASED)
    delivery, _ = flowing.receives.messages[0]
    assert delivery is not None
    flowing.receiver.settle(delivery, ACCEPTED)
    flowing.run()
    assert flowing.sends.dispositions == []
    assert flowing.receives.dispositions == []


@pytest.mark.parametrize("mode", [SND_SETTLED, SND_UNSETTLED])
def test_sender_settle_modes(mode: int) -> None:
    """A sender that does not keep to what was agreed on loses the link."""
    flowing = Flowing(attach=Attach(source=Source(), target=Target(), snd_settle_mode=mode))
    assert flowing.receiver.snd_settle_mode == mode
    flowing.sender.send(1, b"", b"good", mode == SND_SETTLED)
    flowing.sender.send(2, b"", b"bad", mode == SND_UNSETTLED)
    flowing.run()
    assert [payload for _, payload in flowing.receives.messages] == [b"good"]
    assert condition(flowing.sends.detached[0][0]) == "amqp:invalid-field"


@pytest.mark.parametrize("mode", [SND_SETTLED, SND_UNSETTLED])
def test_sender_settle_modes_of_several_transfers(mode: int) -> None:
    """What a message of several transfers says last, or says at all, is what counts."""
    attach = Attach(source=Source(), target=Target(), snd_settle_mode=mode)
    flowing = Flowing(attach=attach, server=Tuning(frame_max=512))
    flowing.sender.send(1, b"", b"g" * 2000, mode == SND_SETTLED)
    flowing.sender.send(2, b"", b"b" * 2000, mode == SND_UNSETTLED)
    flowing.run()
    assert [payload for _, payload in flowing.receives.messages] == [b"g" * 2000]
    assert condition(flowing.sends.detached[0][0]) == "amqp:invalid-field"


def test_receiver_settle_mode_of_a_transfer() -> None:
    """A transfer may ask for mode first on a link of mode second, and not the other way around."""
    flowing = Flowing(attach=Attach(source=Source(), target=Target(), rcv_settle_mode=RCV_SECOND))
    flowing.receives.accepts = True
    transfer = Transfer(handle=0, delivery_id=0, delivery_tag=b"t", message_format=0, rcv_settle_mode=0)
    flowing.session.begin_transfer(encode(transfer), 1)
    flowing.session.write_payload(b"x", 0, 1)
    flowing.run()
    assert flowing.receiver.unsettled == 0
    flowing = Flowing()
    transfer.rcv_settle_mode = RCV_SECOND
    flowing.session.send_transfer(transfer)
    flowing.run()
    assert condition(flowing.sends.detached[0][0]) == "amqp:invalid-field"


@pytest.mark.parametrize(
    ("transfer", "expected"),
    [
        (Transfer(handle=0, delivery_tag=b"t"), "amqp:invalid-field"),
        (Transfer(handle=0, delivery_id=1), "amqp:invalid-field"),
        (Transfer(handle=7, delivery_id=1, delivery_tag=b"t"), "amqp:session:unattached-handle"),
    ],
)
def test_wrong_transfers(transfer: Transfer, expected: str) -> None:
    """A transfer without what it needs ends the session."""
    flowing = Flowing()
    flowing.session.send_transfer(transfer)
    flowing.run()
    assert condition(flowing.owner.ended[0]) == expected


def test_long_tag() -> None:
    """A delivery tag has 32 bytes at most."""
    flowing = Flowing()
    flowing.sender.send_tagged(b"t" * 32, [b"x"])
    flowing.sender.send_tagged(b"t" * 33, [b"x"])
    flowing.run()
    assert len(flowing.receives.messages) == 1
    assert condition(flowing.sends.detached[0][0]) == "amqp:invalid-field"


def test_continuation_of_another_delivery() -> None:
    """A delivery must be complete before the next one begins on the same link."""
    flowing = Flowing()
    flowing.session.send_transfer(Transfer(handle=0, delivery_id=0, delivery_tag=b"a", more=True))
    flowing.session.send_transfer(Transfer(handle=0, delivery_id=1, delivery_tag=b"b"))
    flowing.run()
    assert condition(flowing.owner.ended[0]) == "amqp:invalid-field"


def test_delivery_id_twice() -> None:
    """A number that an unsettled delivery has is not given to another."""
    flowing = Flowing()
    flowing.session.send_transfer(Transfer(handle=0, delivery_id=5, delivery_tag=b"a"))
    flowing.session.send_transfer(Transfer(handle=0, delivery_id=5, delivery_tag=b"b"))
    flowing.run()
    assert condition(flowing.owner.ended[0]) == "amqp:invalid-field"


def test_resume() -> None:
    """A delivery of our unsettled map can be resumed; others are ignored if the peer says they are resumed."""
    flowing = Flowing()
    flowing.peer.answer = Attach(unsettled={b"known": Received(0, 3)})
    sends = Sends()
    link = flowing.session.attach_sender(
        sends, Attach(name="again", source=Source(), target=Target(), unsettled={b"known": None, b"other": None})
    )
    flowing.run()
    receives = flowing.peer.receivers[-1]
    assert flowing.peer.attaches[-1].unsettled == {b"known": None, b"other": None}
    assert sends.attached[0].unsettled == {b"known": Received(0, 3)}
    link.resume(b"other", [b"lost"])
    link.resume(b"known", [b"rest"], Received(0, 3))
    link.send(1, b"", b"new", False)
    flowing.run()
    assert [payload for _, payload in receives.messages] == [b"rest", b"new"]
    delivery, _ = receives.messages[0]
    assert delivery is not None
    assert (delivery.is_resumed, delivery.state, delivery.tag) == (True, Received(0, 3), b"known")
    link.resume(b"known", [b"again"])
    flowing.run()
    assert len(receives.messages) == 2


def test_resumed_and_given_up() -> None:
    """A delivery that cannot be resumed is aborted, which its receiver hears of."""
    flowing = Flowing()
    flowing.peer.answer = Attach(unsettled={b"tag": None})
    link = flowing.session.attach_sender(Sends(), Attach(name="again", source=Source(), target=Target(), unsettled={}))
    flowing.run()
    link.abort_resumed(b"tag")
    link.resume(b"unknown", [], ACCEPTED, settled=True)
    flowing.run()
    receives = flowing.peer.receivers[-1]
    assert [delivery.tag for delivery in receives.aborted] == [b"tag"]
    assert receives.messages == []


def test_incomplete_unsettled() -> None:
    """An unsettled map that does not fit is cut; who sent it may send, and who was sent it may only resume."""
    flowing = Flowing(server=Tuning(frame_max=512))
    states = {number.to_bytes(8, "big"): None for number in range(200)}
    sends = Sends()
    link = flowing.session.attach_sender(
        sends, Attach(name="again", source=Source(), target=Target(), unsettled=dict(states))
    )
    flowing.run()
    assert flowing.peer.attaches[-1].incomplete_unsettled
    assert 0 < len(flowing.peer.attaches[-1].unsettled or {}) < 200
    assert link.can_send
    answer = Attach(name="from", source=Source(), target=Target(), unsettled=dict(states))
    into = flowing.session.attach_receiver(Receives(), answer)
    into.grant(1)
    flowing.run()
    sender = flowing.peer.senders[-1].link
    assert sender is not None
    assert sender.credit > 0
    assert sender.can_resume
    assert not sender.can_send


def test_owner_fault_detaches() -> None:
    """What an owner raises over a message ends the link."""
    flowing = Flowing()
    flowing.receives.fault = NotFound("the queue is gone")
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    assert condition(flowing.sends.detached[0][0]) == "amqp:not-found"
    assert flowing.sender.local is Endpoint.CLOSED
    assert flowing.pair.client.engine.is_open


def test_owner_fault_of_larger_scope() -> None:
    """An error says itself what it ends."""
    flowing = Flowing()
    flowing.receives.fault = InvalidField("the session has to go")
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    assert condition(flowing.owner.ended[0]) == "amqp:invalid-field"


def test_held_transfers() -> None:
    """While publishes are held, everything behind a transfer waits, and nothing is lost."""
    flowing = Flowing()
    server = flowing.pair.server
    server.engine.holds_publishes = True
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    assert (server.held, server.engine.is_holding) == (1, True)
    assert flowing.receives.messages == []
    server.engine.take_publishes()
    assert server.engine.is_paused
    server.engine.receive(b"", 0.0)
    assert len(flowing.receives.messages) == 1


def test_work_is_bounded() -> None:
    """A connection that had its share of work is heard again in the next tick."""
    flowing = Flowing()
    server = flowing.pair.server
    server.engine.spend(100_000)
    flowing.sender.send(1, b"", b"x", False)
    flowing.run()
    assert server.engine.is_paused
    server.engine.refresh()
    server.engine.receive(b"", 0.0)
    assert len(flowing.receives.messages) == 1


def test_slow_reader() -> None:
    """A message goes out as far as the socket takes it, and goes on when there is room."""
    flowing = Flowing(to_server=False, client=Tuning(frame_max=128 * 1024))
    body = b"x" * 10_000_000
    server = flowing.pair.server
    flowing.sender.send(1, b"", body, True)
    first = server.take()
    assert 4_000_000 < len(first) < 5_000_000
    flowing.pair.feed(flowing.pair.client, first)
    flowing.run()
    assert flowing.receives.messages == [(None, body)]


def test_many_handles() -> None:
    """A peer that allows fewer links than it attaches loses the session and not more."""
    flowing = Flowing(client=Tuning(handle_max=0))
    flowing.session.attach_sender(Sends(), Attach(name="second", source=Source(), target=Target()))
    flowing.run()
    assert condition(flowing.owner.ended[0]) == "amqp:resource-limit-exceeded"
    assert flowing.pair.client.engine.is_open


def test_what_was_said_comes_first() -> None:
    """A disposition that waits for others like it goes out before a transfer that was sent behind it."""
    flowing = Flowing()
    replies = Receives()
    back = flowing.session.attach_receiver(replies, Attach(name="back", source=Source(), target=Target()))
    back.grant(10)
    flowing.run()
    reply = flowing.peer.senders[-1].link
    assert reply is not None
    reply.send(1, b"", b"x", False)
    flowing.run()
    delivery, _ = replies.messages[0]
    assert delivery is not None
    for number, send_long in enumerate((False, True)):
        back.update(delivery, Received(0, number))
        flowing.sender.send(number, b"", b"y" * (200_000 if send_long else 1), False)
    flowing.run()
    kinds = [each for each in frames(flowing.pair.from_client) if each in (TRANSFER, DISPOSITION)]
    assert kinds[:3] == [DISPOSITION, TRANSFER, DISPOSITION]


def frames(data: bytes) -> list[int]:
    """The descriptors of the frames behind a protocol header."""
    found = []
    pos = 8
    while pos < len(data):
        found.append(data[pos + 10])
        pos += int.from_bytes(data[pos : pos + 4], "big")
    return found
