"""Part 3 §3.5.5, §3.5.6: what is left of a terminus when its link is detached, its session ends, or in a kill."""

import pytest

from flintmq.wire.amqp10.received import bytes_before
from flintmq.wire.amqp10.spec import DURABLE_CONFIGURATION, DURABLE_NONE, DURABLE_UNSETTLED_STATE
from flintmq.wire.amqp10.states import ACCEPTED, Received
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import Described, Symbol
from tests.conformance.amqp10.catalogue import clause
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import text
from tests.conformance.amqp10.links import Receiver, Sender
from tests.conformance.amqp10.peer import Peer, fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session
from tests.conformance.brokers import Broker
from tests.servers import BrokerProcess

Unsettled = dict[bytes, object]


def _receiver(session: Session, source: Source, name: str, credit: int = 0) -> Receiver:
    return session.receiver(source, credit, name=name, unsettled={})


def _is_resumed(session: Session, source: Source, name: str, tag: bytes) -> bool:
    """Whether the source knows its unsettled delivery; the link is detached again, and not closed."""
    link = _receiver(session, source, name)
    found = link.answer.unsettled or {}
    link.detach(closed=False)
    return tag in found


def _suspended(session: Session, queues: Queues, policy: str, timeout: int = 0) -> tuple[Source, str, bytes]:
    """A source with this policy and an unsettled delivery, whose link is detached; its name, and the tag."""
    address = queues.address()
    session.sender(address).accepted(text())
    source = Source(address=address, expiry_policy=policy, timeout=timeout)
    link = session.receiver(source, 1, name=fresh(policy))
    told = link.answer.source
    assert told is not None
    assert (told.expiry_policy, told.timeout) == (policy, timeout)
    tag = link.get().tag
    link.detach(closed=False)
    return source, link.name, tag


# -- expiry policies --------------------------------------------------------------------------------------------------


@clause("3.5.6.link-detach")
def test_3_5_6_link_detach(session: Session, queues: Queues) -> None:
    """Without a timeout it goes at once, and its delivery is available; with one, it is there a while."""
    source, name, tag = _suspended(session, queues, "link-detach")
    session.sync()
    assert not _is_resumed(session, source, name, tag)
    assert source.address is not None
    assert queues.count(source.address) == 1
    later, name, tag = _suspended(session, queues, "link-detach", timeout=30)
    assert _is_resumed(session, later, name, tag)


@clause("3.5.6.session-end")
def test_3_5_6_session_end(peer: Peer, queues: Queues) -> None:
    """Detached, it is there as long as the session; then it goes."""
    session, other = peer.session(), peer.session()
    source, name, tag = _suspended(session, queues, "session-end")
    assert _is_resumed(session, source, name, tag)
    session.end()
    assert not _is_resumed(other, source, name, tag)


@clause("3.5.6.connection-close")
def test_3_5_6_connection_close(connect: Connect, queues: Queues) -> None:
    """Another session of the connection finds it, another connection of the same container does not."""
    container = fresh("container")
    peer = connect(container)
    session = peer.session()
    source, name, tag = _suspended(session, queues, "connection-close")
    session.end()
    assert _is_resumed(peer.session(), source, name, tag)
    peer.shut()
    assert not _is_resumed(connect(container).session(), source, name, tag)


@clause("3.5.6.never")
def test_3_5_6_never(connect: Connect, queues: Queues) -> None:
    """Another connection of the same container finds it, a link of another container does not; closed, it is gone."""
    container = fresh("container")
    peer = connect(container)
    source, name, tag = _suspended(peer.session(), queues, "never")
    peer.close()
    session = connect(container).session()
    assert not _is_resumed(connect().session(), source, name, tag)
    assert _is_resumed(session, source, name, tag)
    link = _receiver(session, source, name)
    link.detach(closed=True)
    assert source.address is not None
    assert queues.count(source.address) == 1
    assert not _is_resumed(session, source, name, tag)


@clause("3.5.6.reattach-stops-the-clock")
def test_3_5_6_reattach_stops_the_clock(broker: Broker, session: Session, queues: Queues) -> None:
    """A timeout of seconds; attached in time and for longer than that, it stays, and then has as many more."""
    # Over sockets: long enough for a machine that stands still for a while to be in time.
    timeout = 4
    source, name, tag = _suspended(session, queues, "link-detach", timeout=timeout)
    link = session.receiver(source, 0, name=name, unsettled={tag: None})
    assert tag in (link.answer.unsettled or {})
    broker.pass_time(timeout + 0.2)
    session.sync()
    assert link.detached is None
    link.detach(closed=False)
    assert _is_resumed(session, source, name, tag)
    broker.pass_time(timeout + 0.6)
    assert not _is_resumed(session, source, name, tag)


# -- durability -------------------------------------------------------------------------------------------------------


class Killed:
    """A broker with a queue; a peer with a container of its own, which comes back after each kill."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.container = fresh("durable")
        self.name = fresh("link")
        with Queues(broker.port) as queues:
            self.address = queues.address()
        self.session = self.connect()

    def connect(self) -> Session:
        self.peer = Peer(self.broker.port, self.container)
        return self.peer.start().session()

    def kill(self) -> None:
        self.broker.kill()
        self.peer.close()
        self.broker.start()
        self.session = self.connect()

    def receiver(self, durable: int, credit: int = 0, unsettled: Unsettled | None = None) -> Receiver:
        source = Source(address=self.address, durable=durable, expiry_policy="never")
        return self.session.receiver(source, credit, name=self.name, unsettled=unsettled)

    def sender(self, durable: int, unsettled: Unsettled | None = None) -> Sender:
        target = Target(address=self.address, durable=durable, expiry_policy="never")
        source = Source(durable=durable, expiry_policy="never")
        return self.session.sender(target, name=self.name, source=source, unsettled=unsettled, rcv_settle_mode=1)

    def count(self) -> int:
        with Queues(self.broker.port) as queues:
            return queues.count(self.address)


@clause("3.5.5.none")
def test_3_5_5_none(mortal: BrokerProcess) -> None:
    """After a kill the server knows no source by this name, nor a delivery, and the message is available again."""
    killed = Killed(mortal)
    killed.session.sender(killed.address).accepted(text(durable=True))
    tag = killed.receiver(DURABLE_NONE, credit=1).get().tag
    # Definitions are written before later messages: had the source been kept, it would be on the disk by now.
    killed.session.sender(killed.address).accepted(text(durable=True))
    killed.kill()
    killed.session.receiver(None, 0, name=killed.name, unsettled={tag: None}).expect_refusal("amqp:invalid-field")
    link = killed.receiver(DURABLE_NONE, credit=1, unsettled={tag: None})
    assert not link.answer.unsettled
    assert not link.get().first.resume


@clause("3.5.5.configuration")
def test_3_5_5_configuration(mortal: BrokerProcess) -> None:
    """Recovered by its name alone, the source is as it was; its deliveries are not."""
    killed = Killed(mortal)
    killed.session.sender(killed.address).accepted(text(durable=True))
    tag = killed.receiver(DURABLE_CONFIGURATION, credit=1).get().tag
    killed.kill()
    link = killed.session.receiver(None, 0, name=killed.name, unsettled={tag: None})
    source = link.answer.source
    assert source is not None
    assert (source.address, source.durable) == (killed.address, DURABLE_CONFIGURATION)
    assert not link.answer.unsettled
    link.credit(1)
    assert not link.get().first.resume


@clause("3.5.5.unsettled-state-source")
def test_3_5_5_unsettled_state_source(mortal: BrokerProcess) -> None:
    """Two deliveries, a kill: both are in its map, one is settled by its resumption, of the other the rest comes."""
    killed = Killed(mortal)
    killed.session.sender(killed.address).accepted(text("one", durable=True), text("two", durable=True))
    one, two = killed.receiver(DURABLE_UNSETTLED_STATE, credit=2).take(2)
    killed.kill()
    link = killed.receiver(DURABLE_UNSETTLED_STATE, 5, {one.tag: ACCEPTED, two.tag: None})
    assert set(link.answer.unsettled or {}) == {one.tag, two.tag}
    resumed = {each.tag: each for each in link.take(2)}
    assert all(each.first.resume for each in resumed.values())
    assert resumed[one.tag].payload == b""
    assert resumed[two.tag].message.value == "two"
    for each in resumed.values():
        if not each.settled:
            link.settle(each)
    assert link.is_silent()
    link.detach()
    assert killed.count() == 0


@pytest.mark.parametrize("kind", ["classic", "stream"])
@clause("3.5.5.unsettled-state-copy")
def test_3_5_5_unsettled_state_copy(mortal: BrokerProcess, kind: str) -> None:
    """Two copies, one of them accepted, a kill: that one does not come again, and the other one does."""
    killed = Killed(mortal)
    with Queues(mortal.port) as queues:
        killed.address = queues.address(queue_type=kind)
    killed.session.sender(killed.address).accepted(text("one", durable=True), text("two", durable=True))
    filters: dict[str, object] = {}
    if kind == "stream":
        filters["offset"] = Described(Symbol("rabbitmq:stream-offset-spec"), "first")

    def copies(unsettled: Unsettled | None) -> Receiver:
        source = Source(killed.address, DURABLE_UNSETTLED_STATE, "never", distribution_mode="copy", filter=filters)
        return killed.session.receiver(source, 2, name=killed.name, unsettled=unsettled)

    link = copies(None)
    one, _ = link.take(2)
    link.settle(one, ACCEPTED, settled=False)
    # What the server says of it means that it is kept.
    killed.session.peer.wait(lambda: any(each.settled and not each.role for each in killed.session.dispositions))
    killed.kill()
    again = copies({})
    assert again.get().message.value == "two"
    assert again.is_silent()


@clause("3.5.5.unsettled-state-target")
def test_3_5_5_unsettled_state_target(mortal: BrokerProcess) -> None:
    """One answered and one half sent, a kill: its map has an outcome and a place; each message is there once."""
    killed = Killed(mortal)
    link = killed.sender(DURABLE_UNSETTLED_STATE)
    whole, half = text("whole", durable=True), text("half " * 20, durable=True)
    id = link.send(whole, tag=b"whole")
    assert killed.session.outcome(id) == ACCEPTED
    killed.session.peer.wait(lambda: link.credit > 0, link.ill)
    link.begin(half[:40], b"half")
    # What the server has to say of the half means that it is kept.
    link.session.peer.wait(lambda: any(isinstance(each.state, Received) for each in killed.session.dispositions))
    killed.kill()
    link = killed.sender(DURABLE_UNSETTLED_STATE, {b"whole": None, b"half": None})
    found = link.answer.unsettled
    assert found is not None
    assert found[b"whole"] == ACCEPTED
    place = found[b"half"]
    assert isinstance(place, Received)
    assert killed.count() == 1
    session = killed.session
    session.peer.wait(lambda: link.credit > 1, link.ill)
    id = link.begin(b"", b"whole", more=False, state=ACCEPTED, settled=True, resume=True)
    session.sync()
    id = link.begin(half[bytes_before(half, place) :], b"half", more=False, state=place, resume=True)
    assert session.outcome(id) == ACCEPTED
    bodies = [each.message.bare for each in session.receiver(killed.address, credit=3).take(2)]
    assert bodies == [text("whole"), text("half " * 20)]
