"""Part 2 §2.6.1 to §2.6.6, §2.7.3: links are attached and detached."""

import pytest

from flintmq.wire.amqp10.performatives import Attach, Detach, Disposition, Flow, Transfer
from flintmq.wire.amqp10.states import ACCEPTED, Error
from flintmq.wire.amqp10.termini import Coordinator, Source, Target
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import data_section, text
from tests.conformance.amqp10.links import Receiver, Sender
from tests.conformance.amqp10.peer import frame, fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session


@pytest.mark.parametrize("elsewhere", ["connection", "session"])
@pytest.mark.parametrize("kind", ["sender", "receiver", "controller"])
@rule("2.6.1.unique")
def test_2_6_1_unique(connect: Connect, queues: Queues, kind: str, elsewhere: str) -> None:
    """Of two links of one name and direction between two containers, the first is detached: stolen."""
    name, address, peer = fresh("shared name"), queues.address(), connect()
    peers = [peer, peer if elsewhere == "session" else connect(peer.container)]
    links: list[Sender | Receiver] = []
    for each in peers:
        session = each.session()
        if kind == "receiver":
            links.append(session.receiver(address, name=name))
        else:
            target = address if kind == "sender" else Coordinator(["amqp:local-transactions"])
            links.append(session.sender(target, name=name))
    first, second = links
    first.expect_detach("amqp:link:stolen", closed=False)
    second.session.sync()
    assert second.detached is None


@clause("2.6.1.others")
def test_2_6_1_others(connect: Connect, queues: Queues) -> None:
    """One name: a sender and a receiver of a container, and both of another, are four links."""
    name, address = fresh("shared name"), queues.address()
    sessions = [connect().session() for _ in range(2)]
    senders = [session.sender(address, name=name) for session in sessions]
    receivers = [session.receiver(address, name=name) for session in sessions]
    for sender, receiver in zip(senders, receivers, strict=True):
        sender.accepted(text("m"))
        receiver.credit(1)
        assert receiver.bodies(1) == ["m"]


@rule("2.6.3.no-terminus")
def test_2_6_3_no_terminus(session: Session) -> None:
    """As the source and as the target: null in the attach, and a detach with the error behind it."""
    session.receiver("/queues/no-such").expect_refusal("amqp:not-found")
    session.sender("/queues/no-such").expect_refusal("amqp:not-found")


@rule("2.6.3.actual-properties")
def test_2_6_3_actual_properties(session: Session, queues: Queues) -> None:
    """Address, durability and expiry as they are in place."""
    address = queues.address()
    asked = Source(address=address, durable=1, expiry_policy="never", timeout=7)
    link = session.receiver(asked)
    source = link.answer.source
    assert source is not None
    assert (source.address, source.durable, source.expiry_policy, source.timeout) == (address, 1, "never", 7)
    link.detach()
    target = session.sender(address).answer.target
    assert isinstance(target, Target)
    assert (target.address, target.durable, target.dynamic) == (address, 0, False)


@rule("2.6.3.peer-verifies")
def test_2_6_3_peer_verifies(session: Session, queues: Queues) -> None:
    """A peer that finds its wish unmet detaches with an error, and the session goes on."""
    link = session.receiver(Source(address=queues.address(), capabilities=["made-up"]))
    answer = link.detach(error=Error("amqp:not-implemented", "made-up is missing"))
    assert answer.error is None
    session.sync()


@rule("2.6.3.not-pre-empted")
def test_2_6_3_not_pre_empted(session: Session, queues: Queues) -> None:
    """A capability, an outcome and a property that nobody knows: attached all the same."""
    source = Source(address=queues.address(), capabilities=["made-up"], outcomes=["amqp:accepted:list", "made:up:list"])
    link = session.receiver(source, properties={"made-up": 1}, desired_capabilities=["made-up"])
    assert link.answer.source is not None


@pytest.mark.parametrize("closed", [True, False])
@rule("2.6.4.detach-answered")
def test_2_6_4_detach_answered(session: Session, queues: Queues, closed: bool) -> None:
    """For senders and receivers; the handle is free again."""
    address = queues.address()
    for link in (session.sender(address), session.receiver(address)):
        assert link.detach(closed).closed == closed
        assert session.sender(address, handle=link.handle).detach().closed


@rule("2.6.5.detached-with-error")
def test_2_6_5_detached_with_error(session: Session, queues: Queues) -> None:
    """Its queue is deleted: the detach says so, and only this link is detached."""
    address = queues.address()
    receiver, other = session.receiver(address), session.receiver(queues.address())
    queues.delete(address)
    error = receiver.expect_detach("amqp:resource-deleted")
    assert error is not None
    assert error.description
    session.sync()
    assert other.detached is None


def _failed(session: Session, queues: Queues) -> Sender:
    """A sender whose link the server has detached with an error."""
    sender = session.sender(queues.address())
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    sender.session.transfer(Transfer(sender.handle, 0, b"t", 0, settled=True), b"no message")
    session.next_delivery_id = 1
    session.peer.wait(lambda: sender.detached is not None, session.ill)
    return sender


@rule("2.6.5.endpoint-destroyed")
def test_2_6_5_endpoint_destroyed(session: Session, queues: Queues) -> None:
    """The handle names another link, of the same name or not, which begins anew."""
    sender = _failed(session, queues)
    session.write(Detach(sender.handle, closed=True))
    sender.is_gone = True
    address = queues.address()
    session.sender(address, handle=sender.handle, name=sender.name).accepted(text())


@pytest.mark.parametrize("by", ["its handle", "a delivery-id", "delivery-ids", "a delivery-id, detached by both"])
@rule("2.6.5.errant-link")
def test_2_6_5_errant_link(session: Session, queues: Queues, by: str) -> None:
    """A flow for the handle, and a disposition for what is unsettled on it, behind the server's detach."""
    sender = session.sender(queues.address(), rcv_settle_mode=1)
    id = sender.send(text())
    session.outcome(id)
    session.transfer(Transfer(sender.handle, id + 1, b"t", 0), b"no message")
    session.peer.wait(lambda: sender.detached is not None, session.ill)
    if by == "its handle":
        session.flow(handle=sender.handle, link_credit=0, delivery_count=0)
    elif by == "delivery-ids":
        session.dispose(id, id + 5, ACCEPTED, role=False)
    else:
        if by == "a delivery-id, detached by both":
            session.write(Detach(sender.handle, closed=True))
        session.dispose(id, state=ACCEPTED, role=False)
    session.expect_end("amqp:session:errant-link")


@pytest.mark.parametrize("detaches", ["before", "behind"])
@rule("2.6.5.resumed-not-reattached")
def test_2_6_5_resumed_not_reattached(session: Session, queues: Queues, detaches: str) -> None:
    """After the error it can be resumed by its name, when both have detached or before: nothing of it is unsettled."""
    sender = _failed(session, queues)
    if detaches == "before":
        session.write(Detach(sender.handle, closed=True))
        sender.is_gone = True
    again = session.sender(queues.address(), name=sender.name, unsettled={})
    assert not again.answer.unsettled
    if detaches == "behind":
        session.write(Detach(sender.handle, closed=True))
    again.accepted(text())


@rule("2.6.5.pipelined-reattach")
def test_2_6_5_pipelined_reattach(session: Session, queues: Queues) -> None:
    """A bad message, then an attach by the link's name before the server's detach was seen: errant-link."""
    address = queues.address()
    sender = session.sender(address)
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    attach = Attach(
        sender.name, sender.handle + 1, False, source=Source(), target=Target(address), initial_delivery_count=0
    )
    session.peer.send(
        frame(session.channel, Transfer(sender.handle, 0, b"t", 0, settled=True), b"no message"),
        frame(session.channel, attach),
    )
    session.expect_end("amqp:session:errant-link")


@rule("2.6.6.close-answered-with-close")
def test_2_6_6_close_answered_with_close(session: Session, queues: Queues) -> None:
    """Also a link that was only detached before: attached again and closed, nothing of it is left."""
    address = queues.address()
    source = Source(address=address, expiry_policy="never")
    session.sender(address).accepted(text())
    link = session.receiver(source, credit=1, name=fresh("closed"))
    link.get()
    assert not link.detach(closed=False).closed
    again = session.receiver(source, name=link.name, unsettled={})
    assert again.detach(closed=True).closed
    new = session.receiver(source, name=link.name, unsettled={})
    assert not new.answer.unsettled


# -- §2.7.3 attach ----------------------------------------------------------------------------------------------------


@rule("2.7.3.handle-single")
def test_2_7_3_handle_single(session: Session, queues: Queues) -> None:
    """One after the other, a sender, a receiver and a sender have the same handle."""
    address = queues.address()
    for _ in range(2):
        sender = session.sender(address, handle=0)
        sender.accepted(text("m"))
        sender.detach()
        receiver = session.receiver(address, credit=1, handle=0)
        assert receiver.bodies(1) == ["m"]
        receiver.detach()


@rule("2.7.3.handle-in-use")
def test_2_7_3_handle_in_use(session: Session, queues: Queues) -> None:
    """A second link by the handle of the first."""
    address = queues.address()
    session.sender(address, handle=0)
    session.attach_unanswered(Receiver(session), handle=0, source=Source(address), target=Target())
    session.expect_end("amqp:session:handle-in-use")


@rule("2.7.3.initial-delivery-count")
def test_2_7_3_initial_delivery_count(session: Session, queues: Queues) -> None:
    """The server's is there as a sender; ours missing is refused."""
    address = queues.address()
    assert session.receiver(address).answer.initial_delivery_count is not None
    session.write(Attach("without", 9, False, source=Source(), target=Target(address)))
    session.expect_end("amqp:invalid-field")


@clause("2.7.3.max-message-size")
def test_2_7_3_max_message_size(session: Session, queues: Queues) -> None:
    """The server's own limit is in its attach: one octet more detaches. It does not send more than a receiver takes."""
    address = queues.address()
    sender = session.sender(address)
    limit = sender.answer.max_message_size
    assert limit
    session.peer.wait(lambda: sender.credit > 0, sender.ill)
    sender.send(data_section(bytes(limit)))
    sender.expect_detach("amqp:link:message-size-exceeded")
    session.sender(address).accepted(data_section(bytes(5000)))
    receiver = session.receiver(address, credit=1, max_message_size=1000)
    receiver.expect_detach("amqp:link:message-size-exceeded")
    assert queues.count(address) == 1


@clause("2.8.18.stolen")
def test_2_8_18_stolen(connect: Connect, queues: Queues) -> None:
    """The same container and name on another connection: the first link is detached, the other has it."""
    container, name, address = fresh("container"), fresh("link"), queues.address()
    source = Source(address=address, expiry_policy="never")
    first = connect(container).session().receiver(source, name=name)
    second = connect(container).session().receiver(source, name=name)
    first.expect_detach("amqp:link:stolen", closed=False)
    second.session.sender(address).accepted(text("m"))
    second.credit(1)
    assert second.bodies(1) == ["m"]


# -- §2.7.4 flow ------------------------------------------------------------------------------------------------------


@rule("2.7.4.handle-unattached")
def test_2_7_4_handle_unattached(session: Session) -> None:
    """A handle that never was."""
    session.flow(handle=3, link_credit=1)
    session.expect_end("amqp:session:unattached-handle")


def _session_flow(session: Session) -> Flow:
    """A flow of the server's about the session, with links there that have credit."""
    session.sync()
    return session.flows[-1]


@rule("2.7.4.delivery-count-with-handle")
def test_2_7_4_delivery_count_with_handle(session: Session, queues: Queues, strict: Session) -> None:
    """Neither the server's, nor may ours in the strict dialect."""
    session.sender(queues.address()).accepted(text())
    assert _session_flow(session).delivery_count is None
    _refused_flow(strict, delivery_count=1)


@rule("2.7.4.link-credit-with-handle")
def test_2_7_4_link_credit_with_handle(session: Session, queues: Queues, strict: Session) -> None:
    """Neither the server's, nor may ours in the strict dialect."""
    session.sender(queues.address()).accepted(text())
    assert _session_flow(session).link_credit is None
    _refused_flow(strict, link_credit=1)


@rule("2.7.4.available-with-handle")
def test_2_7_4_available_with_handle(session: Session, queues: Queues, strict: Session) -> None:
    """Neither the server's, nor may ours in the strict dialect."""
    session.receiver(queues.address(), credit=1)
    assert _session_flow(session).available is None
    _refused_flow(strict, available=1)


@rule("2.7.4.drain-with-handle")
def test_2_7_4_drain_with_handle(session: Session, queues: Queues, strict: Session) -> None:
    """Neither the server's, nor may ours in the strict dialect."""
    session.receiver(queues.address()).drain()
    assert not _session_flow(session).drain
    _refused_flow(strict, drain=True)


def _refused_flow(session: Session, **fields: object) -> None:
    session.flow(**fields)
    session.expect_end("amqp:invalid-field")


@rule("2.7.4.delivery-count-of-sender")
def test_2_7_4_delivery_count_of_sender(session: Session, queues: Queues) -> None:
    """As many as it has sent on the link, on top of what it began with."""
    address = queues.address()
    session.sender(address).accepted(text(), text())
    receiver = session.receiver(address)
    start = receiver.answer.initial_delivery_count
    assert start is not None
    receiver.credit(2)
    receiver.take(2)
    receiver.credit(5, echo=True)
    session.peer.wait(lambda: any(flow.link_credit == 5 for flow in receiver.flows), receiver.ill)
    assert receiver.flows[-1].delivery_count == start + 2


@rule("2.7.4.delivery-count-of-receiver")
def test_2_7_4_delivery_count_of_receiver(session: Session, queues: Queues) -> None:
    """As many as we have sent on the link, counted from a number of our own."""
    sender = session.sender(queues.address(), initial_delivery_count=0xFFFF_FFFE)
    sender.delivery_count = 0xFFFF_FFFE
    session.peer.wait(lambda: bool(sender.flows), sender.ill)
    assert sender.flows[-1].delivery_count == 0xFFFF_FFFE
    for number in range(3):
        sender.session.transfer(Transfer(sender.handle, number, b"%d" % number, 0, settled=True), text())
    before = len(sender.flows)
    session.flow(handle=sender.handle, delivery_count=1, available=0, echo=True)
    session.peer.wait(lambda: len(sender.flows) > before, sender.ill)
    session.sync()
    assert sender.flows[-1].delivery_count == 1


@rule("2.7.4.delivery-count-unknown")
def test_2_7_4_delivery_count_unknown(session: Session, queues: Queues) -> None:
    """Credit sent together with the attach, without a count: it counts from the server's first."""
    address = queues.address()
    session.sender(address).accepted(*[text()] * 3)
    link = Receiver(session)
    session.attach_unanswered(link, source=Source(address), target=Target())
    session.flow(handle=link.handle, link_credit=2)
    link.take(2)
    assert link.is_silent()


@clause("2.6.7.echo")
def test_2_6_7_echo(session: Session, queues: Queues) -> None:
    """For the session, for a sender and for a receiver."""
    address = queues.address()
    links: list[Sender | Receiver] = [session.sender(address), session.receiver(address)]
    session.sync()
    for link in links:
        before = len(link.flows)
        count = 0 if isinstance(link, Sender) else link.delivery_count
        session.flow(handle=link.handle, delivery_count=count, link_credit=0, echo=True)
        session.peer.wait(lambda: len(link.flows) > before, link.ill)  # noqa: B023 - waited for at once


# -- §2.7.6 disposition -----------------------------------------------------------------------------------------------


@rule("2.7.6.direction")
def test_2_7_6_direction(session: Session, queues: Queues) -> None:
    """Said as a sender of a delivery that was received: it settles nothing."""
    address = queues.address()
    session.sender(address).accepted(text())
    receiver = session.receiver(address, credit=1)
    found = receiver.get()
    session.write(Disposition(False, found.id, settled=True, state=ACCEPTED))
    session.sync()
    receiver.detach()
    assert queues.count(address) == 1


@pytest.mark.parametrize("settled", [True, False])
@rule("2.7.6.live")
def test_2_7_6_live(session: Session, queues: Queues, settled: bool) -> None:
    """Accepted behind the detach: the message is gone, at once and for the link that is resumed."""
    address = queues.address()
    session.sender(address).accepted(text())
    receiver = session.receiver(address, credit=1)
    found = receiver.get()
    assert not receiver.detach(closed=False).closed
    session.dispose(found.id, state=ACCEPTED, settled=settled)
    session.sync()
    if not settled:
        session.peer.wait(lambda: any(not said.role and said.settled for said in session.dispositions), session.ill)
    again = session.receiver(address, credit=1, name=receiver.name, unsettled={} if settled else {found.tag: ACCEPTED})
    assert not again.answer.unsettled
    assert again.is_silent()
    again.detach()
    assert queues.count(address) == 0


@clause("2.7.6.several-links")
def test_2_7_6_several_links(session: Session, queues: Queues) -> None:
    """Deliveries of two links in turn, all settled by one range, with credit and window used up."""
    addresses = [queues.address(), queues.address()]
    receivers = [session.receiver(address) for address in addresses]
    ids = []
    for _ in range(2):
        for address, receiver in zip(addresses, receivers, strict=True):
            session.sender(address).accepted(text())
            receiver.credit(1)
            ids.append(receiver.get().id)
    session.dispose(min(ids), max(ids), ACCEPTED)
    session.sync()
    for receiver in receivers:
        receiver.detach()
    assert [queues.count(address) for address in addresses] == [0, 0]


@clause("2.7.6.range")
def test_2_7_6_range(session: Session, queues: Queues) -> None:
    """Ten at once, and a second time, which is no error; then a range with ids that never were."""
    address = queues.address()
    session.sender(address).accepted(*[text()] * 12)
    receiver = session.receiver(address, credit=12)
    found = receiver.take(12)
    for _ in range(2):
        session.dispose(found[0].id, found[9].id, ACCEPTED)
    session.sync()
    receiver.detach()
    assert queues.count(address) == 2
