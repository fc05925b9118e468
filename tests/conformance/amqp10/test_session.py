"""Part 2 §2.5, §2.7.2: sessions and their windows."""

from flintmq.wire.amqp10.performatives import Attach, Begin, End, Flow, Transfer
from flintmq.wire.amqp10.termini import Source, Target
from tests.conformance.amqp10.catalogue import clause, rule
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import data_section, text
from tests.conformance.amqp10.links import Receiver
from tests.conformance.amqp10.peer import Peer, frame
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import WINDOW, Session


@rule("2.5.1.remote-channel")
def test_2_5_1_remote_channel(peer: Peer) -> None:
    """Begun on channels 0 and 5, each is answered with that number; a begin with one, answering nothing, is refused."""
    for channel in (0, 5):
        session = Session(peer, channel)
        peer.sessions.append(session)
        session.begin()
        assert session.begun is not None
        assert session.begun.remote_channel == channel
    peer.write(6, Begin(remote_channel=6, incoming_window=WINDOW, outgoing_window=WINDOW))
    peer.expect_close("amqp:invalid-field")


@clause("2.5.2.end")
def test_2_5_2_end(peer: Peer) -> None:
    """Three times on the same channel."""
    for _ in range(3):
        session = peer.session()
        assert session.channel == 0
        session.end()
        assert session.ended == End()


@rule("2.5.4.end-with-error")
def test_2_5_4_end_with_error(peer: Peer) -> None:
    """The session is ended and says why; another one of the connection goes on."""
    wrong, other = peer.session(), peer.session()
    wrong.flow(handle=77, link_credit=1)
    error = wrong.expect_end("amqp:session:unattached-handle")
    assert error.description
    other.sync()


def _pipelined(session: Session, address: str) -> None:
    """In one batch: what ends the session, and a message behind it; then wait for the end."""
    sender = session.sender(address)
    session.peer.wait(lambda: sender.credit > 0)
    flow = Flow(session.next_incoming_id, WINDOW, session.next_outgoing_id, WINDOW, handle=77, link_credit=1)
    late = Transfer(sender.handle, 0, b"late", 0, settled=True)
    again = Attach("late", 5, False, source=Source(), target=Target(address), initial_delivery_count=0)
    session.peer.send(
        frame(session.channel, flow), frame(session.channel, late, text("late")), frame(session.channel, again)
    )
    session.peer.wait(lambda: session.ended is not None)


@rule("2.5.4.discards")
def test_2_5_4_discards(peer: Peer, queues: Queues) -> None:
    """A transfer and an attach that were on their way: no word of them; the end is taken, and the channel is free."""
    session, other = peer.session(), peer.session()
    address = queues.address()
    _pipelined(session, address)
    before = len(session.links)
    other.sync()
    assert len(session.links) == before
    session.expect_end("amqp:session:unattached-handle")
    peer.session().sync()


@rule("2.5.5.discarding")
def test_2_5_5_discarding(peer: Peer, queues: Queues) -> None:
    """The message behind the error is not on the queue."""
    session, other = peer.session(), peer.session()
    address = queues.address()
    _pipelined(session, address)
    other.sync()
    assert queues.count(address) == 0


def _receive_with_window(session: Session, queues: Queues, count: int) -> Receiver:
    """A receiver with plenty of credit, and so many messages on its queue."""
    address = queues.address()
    session.sender(address).accepted(*map(text, range(count)))
    return session.receiver(address, credit=100)


@rule("2.5.6.remote-incoming-window")
def test_2_5_6_remote_incoming_window(peer: Peer, queues: Queues) -> None:
    """A window of three: three transfers, of whole messages or of one message in parts, and no more."""
    session = peer.session(incoming_window=3)
    receiver = _receive_with_window(session, queues, 10)
    receiver.take(3)
    assert _is_quiet(session, receiver)
    small = peer.session(incoming_window=2)
    address = queues.address()
    peer.session().sender(address).accepted(data_section(bytes(400_000)))
    receiver = small.receiver(address, credit=1)
    peer.wait(lambda: receiver.partial is not None and len(receiver.partial.transfers) == 2, receiver.ill)
    assert _is_quiet(small, receiver)


def _is_quiet(session: Session, receiver: Receiver) -> bool:
    """No transfer comes, though other sessions are served."""
    seen = session.next_incoming_id
    other = session.peer.session()
    other.sync()
    other.end()
    return session.next_incoming_id == seen and not receiver.arrived


@rule("2.5.6.remote-outgoing-window")
def test_2_5_6_remote_outgoing_window(peer: Peer, queues: Queues) -> None:
    """Begun just before the last number there is: what the server has counted by itself goes on behind it, and its
    window stays open, before the peer says again where it is.
    """
    start = 0xFFFF_FFFE
    session = peer.session(next_outgoing_id=start, outgoing_window=5)
    sender = session.sender(queues.address())
    peer.wait(lambda: sender.credit > 0, sender.ill)
    before, count = len(sender.flows), sender.credit // 2 + 8
    for _ in range(count):
        sender.send(text(), settled=True)
    # More credit comes with the state of the session, and nothing else was said.
    peer.wait(lambda: len(sender.flows) > before, sender.ill)
    told = sender.flows[-1]
    assert told.next_incoming_id is not None
    assert 2 < (told.next_incoming_id - start) % 2**32 <= count
    assert told.incoming_window > 0


@rule("2.5.6.from-flow")
def test_2_5_6_from_flow(peer: Peer, queues: Queues) -> None:
    """With no window nothing comes; with one of two, two; counted from the id that the flow says."""
    session = peer.session(incoming_window=0)
    receiver = _receive_with_window(session, queues, 6)
    assert _is_quiet(session, receiver)
    session.flow(incoming_window=2)
    receiver.take(2)
    assert _is_quiet(session, receiver)
    # The server had sent two already when this was said: one of three is left.
    session.flow(next_incoming_id=session.next_incoming_id - 2, incoming_window=3)
    receiver.take(1)
    assert _is_quiet(session, receiver)


# -- §2.7.2 begin -----------------------------------------------------------------------------------------------------


@rule("2.7.2.no-remote-channel")
def test_2_7_2_no_remote_channel(peer: Peer) -> None:
    """The server begins nothing of its own accord; a begin that answers nothing closes the connection."""
    peer.session().sync()
    peer.write(9, Begin(remote_channel=0, incoming_window=WINDOW, outgoing_window=WINDOW))
    peer.expect_close("amqp:invalid-field")


@rule("2.7.2.remote-channel")
def test_2_7_2_remote_channel(peer: Peer) -> None:
    """Three sessions begun in one batch: each answer names one of them, whatever channel it comes on."""
    sessions = [Session(peer, channel) for channel in (7, 2, 4)]
    peer.sessions.extend(sessions)
    begin = Begin(incoming_window=WINDOW, outgoing_window=WINDOW)
    peer.send(*(frame(session.channel, begin) for session in sessions))
    for session in sessions:
        peer.wait(lambda: session.begun is not None)  # noqa: B023 - waited for at once


@rule("2.7.2.handle-max-kept")
def test_2_7_2_handle_max_kept(peer: Peer, queues: Queues) -> None:
    """handle-max 1: two links are answered on handles up to 1, also when one was given back."""
    session = peer.session(handle_max=1)
    address = queues.address()
    for _ in range(3):
        links = [session.sender(address), session.receiver(address)]
        assert sorted(link.answer.handle for link in links) == [0, 1]
        for link in links:
            link.detach()


@rule("2.7.2.handle-above-max")
def test_2_7_2_handle_above_max(peer: Peer, queues: Queues) -> None:
    """One above the server's handle-max."""
    session = peer.session()
    assert session.begun is not None
    assert session.begun.handle_max < 0xFFFF_FFFF
    handle = session.begun.handle_max + 1
    target = Target(queues.address())
    session.write(Attach("above", handle, False, source=Source(), target=target, initial_delivery_count=0))
    peer.expect_close("amqp:connection:framing-error")


@clause("2.6.2.handles")
def test_2_6_2_handles(connect: Connect, queues: Queues) -> None:
    """Ours are 5 and 3, whatever the server's are; messages come by the right link."""
    session = connect().session()
    addresses = [queues.address(), queues.address()]
    receivers = [session.receiver(each, handle=handle) for each, handle in zip(addresses, (5, 3), strict=True)]
    for address in addresses:
        session.sender(address).accepted(text(address))
    for address, receiver in zip(addresses, receivers, strict=True):
        receiver.credit(1)
        assert receiver.bodies(1) == [address]
