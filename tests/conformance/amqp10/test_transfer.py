"""Part 2 §2.6.12, §2.6.14, §2.7.5: deliveries, whole and in parts."""

from flintmq.wire.amqp10.performatives import Transfer
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED
from flintmq.wire.amqp10.termini import Target
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import data_section, text
from tests.conformance.amqp10.links import Arrived, Sender
from tests.conformance.amqp10.peer import fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session

BIG = data_section(bytes(range(256)) * 2000)
SMALL = data_section(bytes(1000))


def _big(session: Session, queues: Queues, **fields: object) -> Arrived:
    """A message that the server sends in several transfers."""
    address = queues.address()
    session.sender(address).accepted(BIG)
    found = session.receiver(address, credit=1, **fields).get()
    assert len(found.transfers) > 2
    assert found.payload.endswith(BIG)
    return found


def _sender(session: Session, queues: Queues, **fields: object) -> tuple[Sender, str]:
    """A sender with credit, and where it sends to."""
    address = queues.address()
    sender = session.sender(address, **fields)
    session.peer.wait(lambda: sender.credit > 1, sender.ill)
    return sender, address


# -- §2.6.12 ----------------------------------------------------------------------------------------------------------


@rule("2.6.12.tag")
def test_2_6_12_tag(session: Session, queues: Queues) -> None:
    """Settled or not, 1 to 32 octets."""
    for mode in (0, 1):
        address = queues.address()
        session.sender(address).accepted(text())
        found = session.receiver(address, credit=1, snd_settle_mode=mode).get()
        assert 1 <= len(found.tag) <= 32


@rule("2.6.12.tag-unique")
def test_2_6_12_tag_unique(session: Session, queues: Queues) -> None:
    """A hundred unsettled ones, released and delivered again among them: the server's all differ; ours have to."""
    address = queues.address()
    session.sender(address).accepted(*[text()] * 100)
    receiver = session.receiver(address, credit=150)
    found = receiver.take(100)
    for each in found[:50]:
        receiver.settle(each, RELEASED)
    unsettled = found[50:] + receiver.take(50)
    assert len({each.tag for each in unsettled}) == 100
    sender, address = _sender(session, queues)
    sender.begin(text(), b"same", more=False)
    sender.begin(text(), b"other", more=False)
    session.sync()
    assert queues.count(address) == 2


# -- §2.6.14 ----------------------------------------------------------------------------------------------------------


@rule("2.6.14.not-interleaved")
def test_2_6_14_not_interleaved(session: Session, queues: Queues) -> None:
    """The server's transfers of a delivery follow each other on the link; ours of two mixed are an error."""
    address = queues.address()
    session.sender(address).accepted(BIG, BIG)
    receiver = session.receiver(address, credit=2)
    for found in receiver.take(2):
        # A transfer without an id goes on with the delivery that began last: nothing else came between.
        assert [each.delivery_id for each in found.transfers if each.delivery_id is not None] in (
            [found.id],
            [found.id] * len(found.transfers),
        )
        assert found.message.bare == BIG
    sender, address = _sender(session, queues)
    sender.begin(BIG[:100], b"one")
    sender.begin(text(), b"two")
    session.expect_end("amqp:invalid-field")
    assert queues.count(address) == 0


@rule("2.6.14.aborted")
def test_2_6_14_aborted(session: Session, queues: Queues) -> None:
    """Half a message, and then abort: nothing is on the queue, and what comes next is whole, in one transfer or two."""
    sender, address = _sender(session, queues)
    for size in (1, 1000):
        sender.begin(BIG[:size])
        sender.go_on(b"", aborted=True)
    sender.accepted(text("next"))
    behind = text("behind")
    id = sender.begin(behind[:4])
    sender.go_on(behind[4:])
    assert session.outcome(id) == ACCEPTED
    assert session.receiver(address, credit=2).bodies(2) == ["next", "behind"]
    assert queues.count(address) == 0


@clause("2.6.14.large")
def test_2_6_14_large(session: Session, queues: Queues) -> None:
    """Ten megabytes in, and out again."""
    message = data_section(bytes(10_000_000))
    address = queues.address()
    session.sender(address).accepted(message)
    assert session.receiver(address, credit=1).get().message.bare == message


# -- §2.7.5 transfer --------------------------------------------------------------------------------------------------


@rule("2.7.5.delivery-id-first")
def test_2_7_5_delivery_id_first(session: Session, queues: Queues) -> None:
    """The server's have one; ours without it is refused."""
    assert _big(session, queues).first.delivery_id is not None
    sender, address = _sender(session, queues)
    session.transfer(Transfer(sender.handle, None, b"t", 0), text())
    session.expect_end("amqp:invalid-field")
    assert queues.count(address) == 0


@rule("2.7.5.delivery-tag-first")
def test_2_7_5_delivery_tag_first(session: Session, queues: Queues, strict: Session, strict_queues: Queues) -> None:
    """The server's have one; ours without it is refused in the dialect strict, and taken in the other."""
    assert _big(session, queues).first.delivery_tag
    sender, address = _sender(strict, strict_queues)
    strict.transfer(Transfer(sender.handle, sender.number(), None, 0), text())
    strict.expect_end("amqp:invalid-field")
    assert strict_queues.count(address) == 0
    sender, address = _sender(session, queues)
    id = sender.number()
    session.transfer(Transfer(sender.handle, id, None, 0), text())
    assert session.outcome(id) == ACCEPTED
    assert queues.count(address) == 1


@rule("2.7.5.message-format-first")
def test_2_7_5_message_format_first(session: Session, queues: Queues) -> None:
    """0, for a message of one transfer and of many, settled or not."""
    for mode in (0, 1):
        assert _big(session, queues, snd_settle_mode=mode).first.message_format == 0
        address = queues.address()
        session.sender(address).accepted(text())
        assert session.receiver(address, credit=1, snd_settle_mode=mode).get().first.message_format == 0


@rule("2.7.5.settled-unset")
def test_2_7_5_settled_unset(session: Session, queues: Queues) -> None:
    """The server answers: it was asked to."""
    sender, _ = _sender(session, queues)
    assert sender.outcome(text()) == ACCEPTED


@rule("2.7.5.settled-inherited")
def test_2_7_5_settled_inherited(session: Session, queues: Queues) -> None:
    """Settled on the first of three, or on the second: no answer, and the message is there."""
    sender, address = _sender(session, queues)
    for first, second in ((True, None), (None, True)):
        id = sender.begin(SMALL[:100], settled=first)
        sender.go_on(SMALL[100:200], more=True, settled=second)
        sender.go_on(SMALL[200:])
        session.sync()
        assert id not in session.outcomes
    assert queues.count(address) == 2


@rule("2.7.5.settled-never")
def test_2_7_5_settled_never(session: Session, queues: Queues) -> None:
    """Three transfers, none of which says it: answered."""
    sender, _ = _sender(session, queues)
    id = sender.begin(SMALL[:100])
    sender.go_on(SMALL[100:200], more=True)
    sender.go_on(SMALL[200:])
    assert session.outcome(id) == ACCEPTED


@rule("2.7.5.snd-settled")
def test_2_7_5_snd_settled(session: Session, queues: Queues) -> None:
    """Asked for, it is the answer's mode too, and what is sent in several transfers is settled on one at least."""
    address = queues.address()
    receiver = session.receiver(address, snd_settle_mode=1)
    assert receiver.answer.snd_settle_mode == 1
    assert _big(session, queues, snd_settle_mode=1).settled


@rule("2.7.5.snd-unsettled")
def test_2_7_5_snd_unsettled(session: Session, queues: Queues) -> None:
    """Asked for, no transfer is settled; a sender of ours that promised unsettled is answered."""
    assert not _big(session, queues, snd_settle_mode=0).settled
    sender, _ = _sender(session, queues, snd_settle_mode=0)
    assert sender.answer.snd_settle_mode == 0
    assert sender.outcome(text()) == ACCEPTED


@rule("2.7.5.aborted-more")
def test_2_7_5_aborted_more(session: Session, queues: Queues) -> None:
    """Both flags on a transfer: aborted, and what follows is a new delivery."""
    sender, address = _sender(session, queues)
    sender.begin(BIG[:1000])
    sender.go_on(b"", aborted=True, more=True)
    sender.accepted(text("next"))
    assert session.receiver(address, credit=2).bodies(1) == ["next"]
    assert queues.count(address) == 0


@rule("2.7.5.aborted-payload")
def test_2_7_5_aborted_payload(session: Session, queues: Queues) -> None:
    """The rest of the message comes with the abort: it is dropped like the beginning; alone, it is dropped, too."""
    sender, address = _sender(session, queues)
    sender.begin(SMALL[:100])
    sender.go_on(SMALL[100:], aborted=True)
    sender.begin(text("alone"), more=False, aborted=True)
    session.sync()
    assert queues.count(address) == 0


@rule("2.7.5.rcv-first")
def test_2_7_5_rcv_first(session: Session, queues: Queues) -> None:
    """The server's answer is settled; as the sender, it takes ours settled."""
    sender, address = _sender(session, queues, rcv_settle_mode=0)
    id = sender.send(text())
    session.outcome(id)
    assert session.outcomes[id].settled
    receiver = session.receiver(address, credit=1)
    receiver.settle(receiver.get())
    session.sync()
    assert not [each for each in session.dispositions if not each.role]


@rule("2.7.5.rcv-second")
def test_2_7_5_rcv_second(session: Session, queues: Queues) -> None:
    """The server's answer is not settled until ours is; as the sender it settles when it has heard what we say."""
    sender, address = _sender(session, queues, rcv_settle_mode=1)
    assert sender.answer.rcv_settle_mode == 1
    id = sender.send(text())
    assert session.outcome(id) == ACCEPTED
    assert not session.outcomes[id].settled
    session.dispose(id, state=ACCEPTED, role=False)
    receiver = session.receiver(address, credit=1, rcv_settle_mode=1)
    found = receiver.get()
    receiver.settle(found, ACCEPTED, settled=False)
    session.peer.wait(lambda: any(each.settled and not each.role for each in session.dispositions), receiver.ill)
    settled = [each for each in session.dispositions if not each.role]
    assert (settled[-1].first, settled[-1].state) == (found.id, ACCEPTED)
    receiver.detach()
    assert queues.count(address) == 0


@clause("2.7.5.message-format")
def test_2_7_5_message_format(session: Session, queues: Queues) -> None:
    """Of a message that could be one of format 0: the link is detached, the session goes on, nothing is kept.

    Settled or not, in one transfer or two. By a link that can be resumed, too, where the first part is enough.
    """
    for expiry in ("session-end", "never"):
        for settled, size in ((False, len(SMALL)), (True, len(SMALL)), (False, 10), (True, 10)):
            address = queues.address()
            sender = session.sender(Target(address, expiry_policy=expiry), name=fresh("formats"))
            session.peer.wait(lambda: sender.credit > 1, sender.ill)  # noqa: B023 - waited for at once
            first = Transfer(sender.handle, sender.number(), b"t", 0x7777_0000, settled, more=size < len(SMALL))
            session.transfer(first, SMALL[:size])
            if first.more and expiry == "session-end":
                sender.go_on(SMALL[size:])
            sender.expect_detach("amqp:invalid-field")
            assert queues.count(address) == 0


@clause("2.7.5.batchable")
def test_2_7_5_batchable(connect: Connect, queues: Queues) -> None:
    """Twenty batchable transfers, twenty answers, in fewer dispositions or not; and one for a message of two."""
    session = connect().session()
    sender, address = _sender(session, queues)
    sender.accepted(*[text()] * 20, batchable=True)
    id = sender.begin(SMALL[:100], batchable=True)
    sender.go_on(SMALL[100:], batchable=True)
    assert session.outcome(id) == ACCEPTED
    assert queues.count(address) == 21
