"""What addresses mean here, and what becomes of messages that nobody takes: as RabbitMQ has it."""

from flintmq.wire.amqp10.performatives import Open
from flintmq.wire.amqp10.states import RELEASED, Rejected, Released
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import Symbol
from tests.conformance.amqp10.catalogue import clause
from tests.conformance.amqp10.conftest import Connect
from tests.conformance.amqp10.encoding import properties, text
from tests.conformance.amqp10.peer import Peer, fresh
from tests.conformance.amqp10.queues import Queues
from tests.conformance.amqp10.session import Session
from tests.conformance.brokers import Broker


def _reaches(session: Session, address: str, queue: str, **fields: object) -> None:
    """What is sent there is on this queue."""
    session.sender(address).accepted((properties(**fields) if fields else b"") + text(address))
    receiver = session.receiver(f"/queues/{queue}", credit=1)
    assert receiver.bodies(1) == [address]
    receiver.detach()


def _bound(queues: Queues, type: str, key: str) -> tuple[str, str]:
    """An exchange of this type, and a queue that is bound to it."""
    exchange, queue = queues.exchange(type), queues.new()
    queues.bind(queue, exchange, key)
    return exchange, queue


@clause("address.v2-queue")
def test_address_v2_queue(session: Session, queues: Queues) -> None:
    """The answer has the address as it was asked for."""
    queue = queues.new()
    _reaches(session, f"/queues/{queue}", queue)
    source = session.receiver(f"/queues/{queue}").answer.source
    assert source is not None
    assert source.address == f"/queues/{queue}"


@clause("address.v2-exchange-key")
def test_address_v2_exchange_key(session: Session, queues: Queues) -> None:
    """By that key, and not by the subject."""
    exchange, queue = _bound(queues, "direct", "key")
    _reaches(session, f"/exchanges/{exchange}/key", queue)
    _reaches(session, f"/exchanges/{exchange}/key", queue, subject="other")


@clause("address.v2-exchange")
def test_address_v2_exchange(session: Session, queues: Queues) -> None:
    """The key is empty, whatever the subject; in the first form it is the subject."""
    exchange, queue = _bound(queues, "direct", "")
    _reaches(session, f"/exchanges/{exchange}", queue)
    _reaches(session, f"/exchanges/{exchange}", queue, subject="key")
    exchange, queue = _bound(queues, "direct", "key")
    _reaches(session, f"/exchange/{exchange}", queue, subject="key")


@clause("address.v2-null")
def test_address_v2_null(session: Session, queues: Queues) -> None:
    """A queue, an exchange with a key; without a `to`, or with one that leads nowhere, the message is not accepted."""
    exchange, bound = _bound(queues, "direct", "key")
    queue = queues.new()
    sender = session.sender(Target())
    sender.accepted(properties(to=f"/queues/{queue}") + text(), properties(to=f"/exchanges/{exchange}/key") + text())
    assert [queues.count(queue), queues.count(bound)] == [1, 1]
    for wrong in (text(), properties(to="/queues/no-such") + text()):
        assert isinstance(sender.outcome(wrong), Rejected | Released)


@clause("address.v2-percent")
def test_address_v2_percent(session: Session, queues: Queues) -> None:
    """A slash, a blank, a percent sign and a letter beyond ASCII, in names and in keys."""
    name = f"a/b c%\u20ac {fresh('queue')}"
    encoded = name.replace("%", "%25").replace("/", "%2F").replace(" ", "%20").replace("\u20ac", "%E2%82%AC")
    queues.new(name)
    session.sender(f"/queues/{encoded}").accepted(text("m"))
    assert session.receiver(f"/queues/{encoded}", credit=1).bodies(1) == ["m"]
    exchange, queue = _bound(queues, "direct", "k/e y")
    _reaches(session, f"/exchanges/{exchange}/k%2Fe%20y", queue)


@clause("address.v1")
def test_address_v1(session: Session, queues: Queues) -> None:
    """Each of the four, as a target; a queue as a source, too."""
    queue = queues.new()
    _reaches(session, f"/queue/{queue}", queue)
    _reaches(session, f"/amq/queue/{queue}", queue)
    exchange, bound = _bound(queues, "direct", "key")
    _reaches(session, f"/exchange/{exchange}/key", bound)
    queues.bind(queue, "amq.topic", "some.*")
    _reaches(session, "/topic/some.key", queue)
    session.sender(f"/queue/{queue}").accepted(text("m"))
    assert session.receiver(f"/queue/{queue}", credit=1).bodies(1) == ["m"]


@clause("address.plain")
def test_address_plain(session: Session, queues: Queues) -> None:
    """As a target and as a source."""
    queue = queues.new()
    _reaches(session, queue, queue)
    session.sender(queue).accepted(text("m"))
    assert session.receiver(queue, credit=1).bodies(1) == ["m"]


@clause("address.not-found")
def test_address_not_found(session: Session) -> None:
    """A queue as source and as target, an exchange, a plain name."""
    session.receiver("/queues/no-such").expect_refusal("amqp:not-found")
    for address in ("/queues/no-such", "/exchanges/no-such/key", "no-such-name"):
        session.sender(address).expect_refusal("amqp:not-found")


@clause("address.malformed")
def test_address_malformed(session: Session) -> None:
    """Bad percent-encoding, too many parts, nothing that is known, no name."""
    for address in ("/queues/%zz", "/exchanges/a/b/c", "/made-up/a", "/queues/"):
        session.sender(address).expect_refusal("amqp:invalid-field")
        session.receiver(address).expect_refusal("amqp:invalid-field")


@clause("address.vhost")
def test_address_vhost(broker: Broker, connect: Connect, queues: Queues) -> None:
    """Another virtual host has not the queues of the first, which is the one of who names none, or the host."""
    address = queues.address()
    connect(vhost="/").session().sender(address).accepted(text())
    connect(vhost="other").session().sender(address).expect_refusal("amqp:not-found")
    for hostname in (None, "localhost"):
        connect(hostname=hostname).session().sender(address).accepted(text())
    # As RabbitMQ does: not a word.
    with Peer(broker.connect()) as peer:
        peer.log_in()
        peer.write(0, Open("lost", "vhost:no-such"))
        assert peer.rest() == b""


@clause("address.refused")
def test_address_refused(broker: Broker, connect: Connect, queues: Queues) -> None:
    """To read a queue, to write to it and to an exchange, to make a node: refused; what is permitted can be used.

    A user who may not enter a strict virtual host is told so; another is hung up on, as RabbitMQ does.
    """
    session = connect(user="narrow").session()
    allowed, other = queues.new(fresh("allowed")), queues.new()
    open_one, exchange = queues.exchange("fanout", fresh("allowed")), queues.exchange("fanout")
    queues.bind(allowed, open_one)
    queues.bind(other, exchange)
    unauthorized = "amqp:unauthorized-access"
    session.sender(f"/exchanges/{open_one}").accepted(text("m"))
    assert session.receiver(f"/queues/{allowed}", credit=1).bodies(1) == ["m"]
    # A queue is written to by the default exchange.
    session.sender(f"/queues/{other}").expect_refusal(unauthorized)
    session.receiver(f"/queues/{other}").expect_refusal(unauthorized)
    # Who may not read it is not told whether it is there.
    session.receiver("/queues/no-such").expect_refusal(unauthorized)
    session.sender(f"/exchanges/{exchange}").expect_refusal(unauthorized)
    session.receiver(Source(dynamic=True)).expect_refusal(unauthorized)
    outcome = session.sender(Target()).outcome(properties(to=f"/queues/{other}") + text())
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == unauthorized
    assert queues.count(other) == 0
    with Peer(broker.connect()) as peer:
        peer.log_in("limited", "limited")
        peer.write(0, Open("limited", "vhost:other"))
        assert peer.rest() == b""
    with Peer(broker.connect()) as peer:
        peer.log_in("limited", "limited")
        peer.write(0, Open("limited", "vhost:strict"))
        peer.expect_close(unauthorized)


@clause("outcome.unroutable")
def test_outcome_unroutable(session: Session, queues: Queues) -> None:
    """An exchange that is bound to nothing, and a key that is bound to nothing."""
    assert session.sender(f"/exchanges/{queues.exchange('fanout')}").outcome(text()) == RELEASED
    exchange, _ = _bound(queues, "direct", "key")
    assert session.sender(f"/exchanges/{exchange}/other").outcome(text()) == RELEASED


@clause("outcome.refused")
def test_outcome_refused(session: Session, queues: Queues) -> None:
    """With the name of the queue and the reason."""
    queue = queues.new(max_length=1, overflow="reject-publish")
    sender = session.sender(f"/queues/{queue}")
    sender.accepted(text())
    outcome = sender.outcome(text())
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "amqp:resource-limit-exceeded"
    assert outcome.error.info == {"queue": queue, "reason": Symbol("maxlen")}
    assert queues.count(queue) == 1
