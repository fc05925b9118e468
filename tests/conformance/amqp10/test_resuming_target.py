"""Part 3 §3.4.6, part 2 §2.6.13: a link is resumed by which the peer sends. The tags' numbers are those of §3.4.6."""

import pytest

from flintmq.wire.amqp10.performatives import Transfer
from flintmq.wire.amqp10.received import received_state
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, DeliveryState, Received
from flintmq.wire.amqp10.termini import Source, Target
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import data_section, properties, text
from tests.conformance.amqp10.links import Sender
from tests.conformance.amqp10.long_encodings import (
    FALSE,
    NULL,
    described,
    list32,
    map32,
    string32,
    uint32,
    ulong64,
)
from tests.conformance.amqp10.peer import fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session

MESSAGE = properties(message_id="whole") + data_section(b"first" * 10) + data_section(b"second" * 10)
# In the second section, behind five bytes of it.
CUT = len(properties(message_id="whole")) + 5
TAG = b"the tag"
SECOND = 1
Unsettled = dict[bytes, DeliveryState | None]


class Suspension:
    """A link to a queue, by which the peer sends, and whose target is there until it is closed."""

    def __init__(self, session: Session, queues: Queues, address: str = "") -> None:
        self.session = session
        self.queues = queues
        self.address = address or queues.address()
        self.name = fresh("suspended")
        self.sender = self.attach(None)

    def attach(self, unsettled: Unsettled | None) -> Sender:
        # The settlement of what was answered is the sender's: so there is something to be in doubt about.
        target = Target(address=self.address, expiry_policy="never")
        return self.session.sender(
            target, name=self.name, rcv_settle_mode=SECOND, unsettled=unsettled, source=Source(expiry_policy="never")
        )

    def half_sent(self, cut: int = CUT) -> None:
        """The first bytes of the message are there, and the link is suspended."""
        self.session.peer.wait(lambda: self.sender.credit > 0, self.sender.ill)
        self.sender.begin(MESSAGE[:cut], TAG)
        self.session.sync()
        self.suspend()

    def answered(self) -> DeliveryState | None:
        """The message is there, what became of it was said, and the link is suspended before anybody settled."""
        id = self.sender.send(MESSAGE, tag=TAG)
        outcome = self.session.outcome(id)
        assert not self.session.outcomes[id].settled, "mode second: the sender settles first"
        self.suspend()
        return outcome

    def suspend(self) -> None:
        assert not self.sender.detach(closed=False).closed

    def resume(self, unsettled: Unsettled | None) -> Unsettled:
        """Attach again; what the server considers unsettled."""
        self.sender = self.attach(unsettled)
        assert self.sender.answer.unsettled is not None
        return self.sender.answer.unsettled

    def transfer(
        self, payload: bytes = b"", state: DeliveryState | None = None, resume: bool = True, **fields: object
    ) -> int:
        """A transfer of the delivery; returns its new id."""
        self.session.peer.wait(lambda: self.sender.credit > 0, self.sender.ill)
        id = self.sender.number(TAG)
        self.session.transfer(Transfer(self.sender.handle, id, TAG, 0, state=state, resume=resume, **fields), payload)  # type: ignore[arg-type]
        return id

    def completes(self, payload: bytes, state: DeliveryState | None) -> None:
        """With that transfer the message is whole: it is accepted, and on the queue once."""
        id = self.transfer(payload, state)
        assert self.session.outcome(id) == ACCEPTED
        self.session.dispose(id, state=ACCEPTED, role=False)
        self.holds(MESSAGE)

    def holds(self, *messages: bytes) -> None:
        """The queue has these messages, and no other."""
        assert self.queues.count(self.address) == len(messages)
        receiver = self.session.receiver(self.address, credit=len(messages))
        assert [each.message.bare for each in receiver.take(len(messages))] == list(messages)

    def forgotten(self) -> bool:
        """Whether the server has no more to say of the delivery, to a sender that is in doubt about it."""
        self.session.sync()
        self.suspend()
        return self.resume({TAG: None}) == {}


@pytest.fixture
def suspension(session: Session, queues: Queues) -> Suspension:
    return Suspension(session, queues)


@clause("3.4.6.target-keeps-parts")
def test_3_4_6_target_keeps_parts(suspension: Suspension) -> None:
    """Its map says the first byte that it has not; sent from there, the message is whole."""
    suspension.half_sent()
    place = received_state(MESSAGE[:CUT])
    assert suspension.resume({TAG: None}) == {TAG: place}
    suspension.completes(MESSAGE[CUT:], place)


@rule("3.4.6.tag-2-receiver-skips")
def test_3_4_6_tag_2_receiver_skips(suspension: Suspension) -> None:
    """Sent again from the beginning, with a state of null: what was there is not there twice."""
    suspension.half_sent()
    suspension.resume({TAG: None})
    suspension.completes(MESSAGE, None)


@rule("3.4.6.tag-2-any-start")
@pytest.mark.parametrize("start", [0, 3, CUT - 5, CUT - 1, CUT])
def test_3_4_6_tag_2_any_start(suspension: Suspension, start: int) -> None:
    """From wherever the sender begins, up to where the server is."""
    suspension.half_sent()
    suspension.resume({TAG: None})
    suspension.completes(MESSAGE[start:], received_state(MESSAGE[:start]))


@rule("3.4.6.tag-4-receiver-forgets")
def test_3_4_6_tag_4_receiver_forgets(suspension: Suspension) -> None:
    """A delivery that had begun with no payload is not in the server's map; sent as new, it is taken."""
    suspension.half_sent(cut=0)
    assert suspension.resume({TAG: None}) == {}
    id = suspension.transfer(MESSAGE, resume=False)
    assert suspension.session.outcome(id) == ACCEPTED
    suspension.holds(MESSAGE)


@rule("3.4.6.tag-5-resend")
def test_3_4_6_tag_5_resend(suspension: Suspension) -> None:
    """The sender says received, the server knows nothing of it: sent as new, it is taken."""
    suspension.suspend()
    assert suspension.resume({TAG: Received(0, 2)}) == {}
    id = suspension.transfer(MESSAGE, resume=False)
    assert suspension.session.outcome(id) == ACCEPTED
    suspension.holds(MESSAGE)


@rule("3.4.6.tag-6-receiver-skips")
def test_3_4_6_tag_6_receiver_skips(suspension: Suspension) -> None:
    """The sender can go back to the second section only, and the server is further: it is whole all the same."""
    suspension.half_sent()
    first = len(properties(message_id="whole"))
    suspension.resume({TAG: Received(1, 0)})
    suspension.completes(MESSAGE[first:], Received(1, 0))


@clause("3.4.6.tag-7")
def test_3_4_6_tag_7(suspension: Suspension) -> None:
    """The sender is past where the server is, and aborts: the server forgets, and takes it as new."""
    suspension.half_sent()
    suspension.resume({TAG: Received(2, 0)})
    suspension.transfer(resume=True, aborted=True)
    assert suspension.forgotten()
    suspension.holds()
    id = suspension.transfer(MESSAGE, resume=False)
    assert suspension.session.outcome(id) == ACCEPTED
    suspension.holds(MESSAGE)


@clause("3.4.6.target-outcome")
def test_3_4_6_target_outcome(suspension: Suspension) -> None:
    """Its map says accepted; settled by the sender, it is on the queue once, and forgotten."""
    assert suspension.answered() == ACCEPTED
    assert suspension.resume({TAG: None}) == {TAG: ACCEPTED}
    suspension.transfer(state=ACCEPTED, settled=True)
    assert suspension.forgotten()
    suspension.holds(MESSAGE)


@clause("3.4.6.tag-8")
def test_3_4_6_tag_8(suspension: Suspension) -> None:
    """The sender could not send all of it again, and need not."""
    assert suspension.answered() == ACCEPTED
    assert suspension.resume({TAG: Received(2, 5)}) == {TAG: ACCEPTED}
    suspension.transfer(state=ACCEPTED, settled=True)
    assert suspension.forgotten()
    suspension.holds(MESSAGE)


@clause("3.4.6.tag-10")
def test_3_4_6_tag_10(suspension: Suspension) -> None:
    """Settled on both sides long ago; a sender that still has it says so, and nothing happens."""
    id = suspension.sender.send(MESSAGE, tag=TAG)
    assert suspension.session.outcome(id) == ACCEPTED
    suspension.session.dispose(id, state=ACCEPTED, role=False)
    suspension.session.sync()
    suspension.suspend()
    assert suspension.resume({TAG: ACCEPTED}) == {}
    suspension.holds(MESSAGE)


@rule("3.4.6.tag-11-aborted")
def test_3_4_6_tag_11_aborted(suspension: Suspension) -> None:
    """The sender has an outcome already, and aborts: the half that the server had is gone."""
    suspension.half_sent()
    assert TAG in suspension.resume({TAG: ACCEPTED})
    suspension.transfer(resume=True, aborted=True)
    assert suspension.forgotten()
    suspension.holds()


@rule("3.4.6.tag-12-settled")
def test_3_4_6_tag_12_settled(suspension: Suspension) -> None:
    """A settled transfer without a state: both agreed already."""
    assert suspension.answered() == ACCEPTED
    assert suspension.resume({TAG: ACCEPTED}) == {TAG: ACCEPTED}
    suspension.transfer(settled=True)
    assert suspension.forgotten()
    suspension.holds(MESSAGE)


@rule("3.4.6.tag-13-restated")
def test_3_4_6_tag_13_restated(session: Session, queues: Queues) -> None:
    """Unroutable, so the server said released; the source says accepted, which the server echoes, settled."""
    suspension = Suspension(session, queues, f"/exchanges/{queues.exchange('fanout')}")
    assert suspension.answered() == RELEASED
    assert suspension.resume({TAG: ACCEPTED}) == {TAG: RELEASED}
    id = suspension.transfer(state=ACCEPTED, settled=False)
    session.peer.wait(lambda: id in session.outcomes, suspension.sender.ill)
    assert (session.outcomes[id].state, session.outcomes[id].settled) == (ACCEPTED, True)
    assert suspension.forgotten()


@clause("3.4.6.target-differs")
def test_3_4_6_target_differs(suspension: Suspension) -> None:
    """The server said accepted, the source released: echoed and settled; the message is not there twice."""
    assert suspension.answered() == ACCEPTED
    assert suspension.resume({TAG: RELEASED}) == {TAG: ACCEPTED}
    id = suspension.transfer(state=RELEASED, settled=False)
    suspension.session.peer.wait(lambda: id in suspension.session.outcomes, suspension.sender.ill)
    found = suspension.session.outcomes[id]
    assert (found.state, found.settled) == (RELEASED, True)
    assert suspension.forgotten()
    assert suspension.queues.count(suspension.address) <= 1


@clause("3.4.6.tag-14")
def test_3_4_6_tag_14(suspension: Suspension) -> None:
    """The server has no more than the fact that it had begun, the source an outcome: aborted, nothing is left."""
    suspension.half_sent(cut=1)
    suspension.resume({TAG: ACCEPTED})
    suspension.transfer(resume=True, aborted=True)
    assert suspension.forgotten()
    suspension.holds()


@clause("3.4.6.target-aborted")
def test_3_4_6_target_aborted(suspension: Suspension) -> None:
    """Aborted in the middle of being resumed: none of it is left."""
    suspension.half_sent()
    place = suspension.resume({TAG: None})[TAG]
    suspension.transfer(MESSAGE[CUT:-3], place, more=True)
    suspension.sender.go_on(b"", aborted=True)
    assert suspension.forgotten()
    suspension.holds()


@clause("3.4.6.target-unknown-resumed")
def test_3_4_6_target_unknown_resumed(suspension: Suspension) -> None:
    """Marked as resumed, what the server does not know has no effect; the next delivery has."""
    suspension.suspend()
    assert suspension.resume({TAG: None}) == {}
    suspension.transfer(MESSAGE, resume=True)
    suspension.sender.send(text("next"))
    suspension.session.sync()
    suspension.holds(text("next"))


@rule("2.6.13.only-source")
def test_2_6_13_only_source(suspension: Suspension) -> None:
    """Resumed without a word of it in the server's map: ignored, and not an error."""
    suspension.suspend()
    suspension.resume({TAG: None})
    suspension.transfer(MESSAGE, resume=True)
    suspension.session.sync()
    assert suspension.sender.detached is None
    suspension.holds()


@rule("2.7.5.resume-unknown")
def test_2_7_5_resume_unknown(suspension: Suspension) -> None:
    """On a link that was never suspended, and in several transfers: ignored, all of them."""
    suspension.transfer(MESSAGE[:CUT], resume=True, more=True)
    suspension.sender.go_on(MESSAGE[CUT:])
    suspension.session.sync()
    suspension.holds()


@rule("2.7.3.no-null-keys")
def test_2_7_3_no_null_keys(suspension: Suspension) -> None:
    """A null tag in the map is no attach."""
    attach = list32(string32("x"), uint32(7), FALSE, NULL, NULL, NULL, NULL, map32(NULL, NULL), NULL, uint32(0))
    suspension.session.peer.write(suspension.session.channel, None, described(ulong64(0x12), attach))
    suspension.session.peer.expect_close("amqp:decode-error")


@rule("2.7.3.incomplete-receiver-detaches")
def test_2_7_3_incomplete_receiver_detaches(connect: Connect, queues: Queues) -> None:
    """A hundred answered deliveries, and frames of 512 octets: its map is cut; something new is then an error."""
    session = connect(max_frame_size=512).session()
    suspension = Suspension(session, queues)
    ids = [suspension.sender.send(text("m")) for _ in range(100)]
    for id in ids:
        assert session.outcome(id) == ACCEPTED
    suspension.suspend()
    assert 0 < len(suspension.resume(None)) < 100
    assert suspension.sender.answer.incomplete_unsettled
    session.peer.wait(lambda: suspension.sender.credit > 0, suspension.sender.ill)
    suspension.sender.send(text("new"))
    session.peer.wait(lambda: suspension.sender.detached is not None, session.ill)
    assert suspension.sender.detached is not None
    assert suspension.sender.detached.error is not None
    assert queues.count(suspension.address) == 100
