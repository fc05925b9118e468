"""Part 3 §3.4.6, part 2 §2.6.13: a link is resumed by which the peer receives. The tags' numbers are the text's."""

import pytest

from flintmq.wire.amqp10.received import bytes_before, received_state
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, DeliveryState, Received
from flintmq.wire.amqp10.termini import Source, Target
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import data_section, properties
from tests.conformance.amqp10.links import Receiver, Sender
from tests.conformance.amqp10.peer import fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session

MESSAGE = properties(message_id="whole") + data_section(b"first" * 10) + data_section(b"second" * 10)
Unsettled = dict[bytes, DeliveryState | None]


class Suspension:
    """A queue with a message that was delivered by a link, and is unsettled. The link is detached, and not closed."""

    def __init__(self, session: Session, queues: Queues, message: bytes = MESSAGE) -> None:
        self.session = session
        self.queues = queues
        self.address = queues.address()
        self.name = fresh("suspended")
        session.sender(self.address).accepted(message)
        receiver = self.attach(None, 1)
        self.found = receiver.get()
        self.receiver = receiver
        self.is_suspended = False

    def attach(self, unsettled: Unsettled | None, credit: int) -> Receiver:
        # Until the link is closed: whatever the session does.
        source = Source(address=self.address, expiry_policy="never")
        return self.session.receiver(source, credit, name=self.name, unsettled=unsettled)

    @property
    def tag(self) -> bytes:
        return self.found.tag

    def say(self, state: DeliveryState) -> None:
        """Say this of the delivery, without settling it."""
        self.receiver.settle(self.found, state, settled=False)

    def resume(self, unsettled: Unsettled, credit: int = 5) -> Receiver:
        """Detach, unless that was done, and attach again with this map."""
        if not self.is_suspended:
            assert not self.receiver.detach(closed=False).closed
        self.receiver = self.attach(unsettled, credit)
        self.is_suspended = False
        return self.receiver

    def is_gone(self) -> bool:
        """Whether nothing is left of the message when the link is closed."""
        self.receiver.detach()
        return self.queues.count(self.address) == 0


@pytest.fixture
def suspension(session: Session, queues: Queues) -> Suspension:
    return Suspension(session, queues)


def _unsettled(link: Receiver) -> Unsettled:
    """What the server's attach has."""
    assert link.answer.unsettled is not None
    return link.answer.unsettled


@rule("3.4.6.tag-1-resend")
def test_3_4_6_tag_1_resend(suspension: Suspension) -> None:
    """The receiver forgot it: the message comes again, whole."""
    link = suspension.resume({})
    again = link.get()
    assert again.message.bare == MESSAGE
    link.settle(again)
    assert link.is_silent()
    assert suspension.is_gone()


@rule("3.4.6.tag-1-not-resumed")
def test_3_4_6_tag_1_not_resumed(suspension: Suspension) -> None:
    """No transfer of it says resume."""
    again = suspension.resume({}).get()
    assert not any(each.resume for each in again.transfers)
    assert again.message.bare == MESSAGE


def _resumed_from(suspension: Suspension, cut: int) -> bytes:
    """The receiver has so many bytes; with what then comes it has this."""
    payload = suspension.found.payload
    link = suspension.resume({suspension.tag: received_state(payload[:cut])})
    assert suspension.tag in _unsettled(link)
    again = link.get()
    assert again.first.resume
    assert again.tag == suspension.tag
    state = again.first.state
    start = bytes_before(payload, state) if isinstance(state, Received) else 0
    # It might begin earlier, and the receiver pass over what it has; the broker sends no byte twice.
    assert start == cut
    link.settle(again)
    assert link.is_silent()
    return payload[:cut] + again.payload


@clause("3.4.6.tag-2")
def test_3_4_6_tag_2(suspension: Suspension) -> None:
    """Half of it is there, the other half comes, and settled it is gone."""
    payload = suspension.found.payload
    assert _resumed_from(suspension, len(payload) // 2) == payload
    assert suspension.is_gone()


@rule("3.4.6.tag-3-resumed")
def test_3_4_6_tag_3_resumed(suspension: Suspension) -> None:
    """A transfer with the tag and an id, and no payload."""
    again = suspension.resume({suspension.tag: ACCEPTED}).get()
    assert (again.tag, again.first.resume, again.payload) == (suspension.tag, True, b"")
    assert again.first.delivery_id is not None


@rule("3.4.6.tag-3-state")
def test_3_4_6_tag_3_state(suspension: Suspension) -> None:
    """Released when that is what the receiver said, and the message comes anew; accepted when it said that."""
    link = suspension.resume({suspension.tag: RELEASED})
    resumed = link.get()
    assert (resumed.tag, resumed.first.resume, resumed.first.state) == (suspension.tag, True, RELEASED)
    if not resumed.settled:
        link.settle(resumed, RELEASED)
    suspension.found = link.get()
    assert not suspension.found.first.resume
    assert suspension.found.message.bare == MESSAGE
    link = suspension.resume({suspension.tag: ACCEPTED})
    assert link.get().first.state == ACCEPTED


@clause("3.4.6.tag-3")
def test_3_4_6_tag_3(suspension: Suspension) -> None:
    """A resumed transfer with that outcome; once it is settled, the message is gone, and no new delivery comes."""
    link = suspension.resume({suspension.tag: ACCEPTED})
    again = link.get()
    assert (again.tag, again.first.resume, again.first.state) == (suspension.tag, True, ACCEPTED)
    if not again.settled:
        link.settle(again)
    assert link.is_silent()
    assert suspension.is_gone()


@rule("3.4.6.tag-4-resend")
def test_3_4_6_tag_4_resend(suspension: Suspension) -> None:
    """Null in the receiver's map, or received(0, 0): all of it comes."""
    for state in (None, Received(0, 0)):
        link = suspension.resume({suspension.tag: state})
        again = link.get()
        assert again.message.bare == MESSAGE
        suspension.found = again


@rule("3.4.6.tag-4-resumed")
def test_3_4_6_tag_4_resumed(suspension: Suspension) -> None:
    """The same tag, and resume on the first transfer, of a message that is not given up."""
    again = suspension.resume({suspension.tag: None}).get()
    assert (again.tag, again.first.resume, again.is_aborted) == (suspension.tag, True, False)
    assert again.message.bare == MESSAGE


@rule("3.4.6.tag-5-not-resumed")
def test_3_4_6_tag_5_not_resumed(suspension: Suspension) -> None:
    """The receiver had confirmed a part, and has lost it: a new delivery, whole."""
    suspension.say(Received(1, 0))
    link = suspension.resume({})
    again = link.get()
    assert not again.first.resume
    assert again.message.bare == MESSAGE


@clause("3.4.6.tag-6")
def test_3_4_6_tag_6(suspension: Suspension) -> None:
    """The receiver had confirmed a part, and has more than that: the rest comes."""
    payload = suspension.found.payload
    suspension.say(Received(1, 0))
    assert _resumed_from(suspension, len(payload) - 3) == payload
    assert suspension.is_gone()


@clause("3.4.6.tag-9")
def test_3_4_6_tag_9(suspension: Suspension) -> None:
    """The broker still has what the receiver had confirmed."""
    suspension.say(Received(2, 0))
    link = suspension.resume({suspension.tag: None})
    again = link.get()
    assert (again.tag, again.first.resume, again.is_aborted) == (suspension.tag, True, False)
    assert again.message.bare == MESSAGE
    link.settle(again)
    assert link.is_silent()
    assert suspension.is_gone()


@rule("3.4.6.tag-10-outcome-final")
def test_3_4_6_tag_10_outcome_final(suspension: Suspension) -> None:
    """Resumed, accepted and settled; a receiver that then says released finds it gone all the same."""
    suspension.found = suspension.resume({suspension.tag: None}).get()
    suspension.receiver.settle(suspension.found)
    suspension.session.sync()
    link = suspension.resume({suspension.tag: RELEASED})
    assert _unsettled(link) == {}
    assert link.is_silent()
    assert suspension.is_gone()


@rule("3.4.6.outcome-only-when-sure")
def test_3_4_6_outcome_only_when_sure(suspension: Suspension) -> None:
    """Said nothing, or only received: the server's map has null, or a place no further than that."""
    link = suspension.resume({suspension.tag: None})
    assert _unsettled(link) == {suspension.tag: None}
    suspension.found = link.get()
    suspension.say(Received(1, 0))
    state = _unsettled(suspension.resume({suspension.tag: Received(1, 0)}))[suspension.tag]
    assert state is None or (isinstance(state, Received) and state.section_number <= 1)


# -- part 2 -----------------------------------------------------------------------------------------------------------


@rule("2.6.13.only-target")
def test_2_6_13_only_target(suspension: Suspension) -> None:
    """Two tags that the server never gave: nothing is sent for them, and what it has is resumed."""
    link = suspension.resume({b"never given": ACCEPTED, b"nor this": None, suspension.tag: ACCEPTED})
    assert set(_unsettled(link)) == {suspension.tag}
    assert link.get().tag == suspension.tag
    assert link.is_silent()


@rule("2.6.13.both")
def test_2_6_13_both(session: Session, queues: Queues) -> None:
    """Three deliveries, said three things of: each is resumed, with what it takes."""
    suspension = Suspension(session, queues)
    session.sender(suspension.address).accepted(MESSAGE, MESSAGE)
    suspension.receiver.credit(2)
    tags = [suspension.tag, *(each.tag for each in suspension.receiver.take(2))]
    states = (ACCEPTED, None, Received(2, 0))
    link = suspension.resume(dict(zip(tags, states, strict=True)))
    resumed = {each.tag: each for each in link.take(3)}
    assert set(resumed) == set(tags)
    assert all(each.first.resume for each in resumed.values())
    assert resumed[tags[0]].payload == b""
    assert resumed[tags[1]].message.bare == MESSAGE


@rule("2.6.13.resume-flag")
def test_2_6_13_resume_flag(suspension: Suspension) -> None:
    """Also when it is resumed a second time."""
    for _ in range(2):
        found = suspension.resume({suspension.tag: None}).get()
        assert found.first.resume
        suspension.found = found


@pytest.mark.parametrize("is_resumed", [False, True])
@rule("2.7.5.resume-own-map")
def test_2_7_5_resume_own_map(suspension: Suspension, is_resumed: bool) -> None:
    """Settled before, by the link that sent it or by one that resumed it: whatever the map says, it is not resumed."""
    if is_resumed:
        suspension.found = suspension.resume({suspension.tag: None}).get()
    suspension.receiver.settle(suspension.found)
    suspension.session.sync()
    link = suspension.resume({suspension.tag: Received(1, 0)})
    assert _unsettled(link) == {}
    assert link.is_silent()


@rule("2.7.5.resume-first-transfer")
def test_2_7_5_resume_first_transfer(session: Session, queues: Queues) -> None:
    """A message of several frames: resume on the first, and the whole arrives."""
    suspension = Suspension(session, queues, data_section(bytes(300_000)))
    again = suspension.resume({suspension.tag: None}).get()
    assert len(again.transfers) > 1
    assert again.first.resume
    assert again.message.bare == data_section(bytes(300_000))


@rule("2.7.3.unsettled-compared")
def test_2_7_3_unsettled_compared(suspension: Suspension) -> None:
    """Both maps name the delivery: what was in doubt is accepted, and no byte of it comes again."""
    link = suspension.resume({suspension.tag: ACCEPTED})
    assert suspension.tag in _unsettled(link)
    again = link.get()
    assert (again.tag, again.first.resume, again.payload) == (suspension.tag, True, b"")
    assert link.is_silent()
    assert suspension.is_gone()


@rule("2.7.3.reattach-without-map")
def test_2_7_3_reattach_without_map(suspension: Suspension) -> None:
    """Detached and attached without a map: nothing is resumed, or lost."""
    assert not suspension.receiver.detach(closed=False).closed
    link = suspension.attach(None, 5)
    again = link.get()
    assert not again.first.resume
    assert again.message.bare == MESSAGE


@rule("2.7.3.incomplete-no-new")
def test_2_7_3_incomplete_no_new(session: Session, queues: Queues) -> None:
    """A receiver whose map is incomplete gets what is resumed, and nothing new until it attaches with all of it."""
    suspension = Suspension(session, queues)
    session.sender(suspension.address).accepted(data_section(b"new"))
    suspension.receiver.detach(closed=False)
    source = Source(address=suspension.address, expiry_policy="never")
    link = session.receiver(
        source, 5, name=suspension.name, unsettled={suspension.tag: ACCEPTED}, incomplete_unsettled=True
    )
    assert link.get().tag == suspension.tag
    assert link.is_silent()
    link.detach(closed=False)
    suspension.is_suspended = True
    assert suspension.resume({}).get().message.bare == data_section(b"new")


@rule("2.7.3.incomplete-rather-than-error")
def test_2_7_3_incomplete_rather_than_error(connect: Connect, queues: Queues) -> None:
    """A hundred unsettled deliveries, and frames of 512 octets: the attach fits, has some of them, and says so."""
    peer = connect(max_frame_size=512)
    session = peer.session()
    address = queues.address()
    session.sender(address).accepted(*[data_section(b"m")] * 100)
    source = Source(address=address, expiry_policy="never")
    link = session.receiver(source, 100, name=fresh("many"))
    tags = [each.tag for each in link.take(100)]
    link.detach(closed=False)
    again = session.receiver(source, 0, name=link.name, unsettled={})
    found = _unsettled(again)
    assert again.answer.incomplete_unsettled
    assert 0 < len(found) < 100
    assert set(found) <= set(tags)


@rule("2.6.3.unsettled-told")
def test_2_6_3_unsettled_told(suspension: Suspension) -> None:
    """The one delivery, and nothing when that was settled."""
    link = suspension.resume({suspension.tag: None})
    assert set(_unsettled(link)) == {suspension.tag}
    link.settle(link.get())
    link.session.sync()
    assert _unsettled(suspension.resume({})) == {}


@rule("2.6.5.resume-has-unsettled")
def test_2_6_5_resume_has_unsettled(suspension: Suspension) -> None:
    """An empty map resumes: the server answers with what it has.

    It tells the attach from one that crossed a detach with an error, also where that detach was not seen.
    """
    assert set(_unsettled(suspension.resume({}))) == {suspension.tag}
    session = suspension.session
    sender = session.sender(suspension.address)
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    sender.begin(b"no message", more=False)
    again = Sender(session)
    target = Target(suspension.address)
    session.attach_unanswered(
        again, name=sender.name, unsettled={}, source=Source(), target=target, initial_delivery_count=0
    )
    session.peer.wait(lambda: again.attached is not None, session.ill)
    again.accepted(MESSAGE)
