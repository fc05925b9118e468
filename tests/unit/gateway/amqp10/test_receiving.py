"""Receiving by AMQP 1.0: credit, deliveries, and what becomes of them."""

import pytest

from flintmq.base.limits import EXPIRY_STEP_MESSAGES
from flintmq.broker.message import Address, Message
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.properties import Header, Properties
from flintmq.wire.amqp10.sections import decode_header, decode_message_annotations, encode_data, scan
from flintmq.wire.amqp10.spec import COPY, EXPIRE_LINK_DETACH, SND_SETTLED, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, Modified
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import Described, Int, Symbol, ULong
from tests.unit.broker.memory import got
from tests.unit.gateway.amqp10.pair import Client, Receiver, Server, body_of


def _publish(client: Client, *bodies: str) -> None:
    client.sender().publish(*bodies)


def _one(client: Client, credit: int = 10) -> Receiver:
    _publish(client, "one")
    return client.receiver(credit=credit)


@pytest.mark.parametrize(("failed", "count"), [(False, 0), (True, 1)])
def test_what_is_undeliverable_here_is_a_dead_letter(client: Client, server: Server, failed: bool, count: int) -> None:
    """As RabbitMQ has it: the annotations go along, and it is a failure if the receiver says so."""
    server.queue("dead")
    server.queue("source", dead_letter_exchange="", dead_letter_routing_key="dead")
    client.sender("/queues/source").publish("one")
    receiver = client.receiver("/queues/source")
    receiver.settle(receiver.take()[0][0], Modified(failed, True, {"x-seen": "by me"}))
    assert receiver.take() == []
    assert server.vhost.queues["source"].message_count == 0
    ((_, payload),) = client.receiver("/queues/dead").take()
    found = scan(payload)
    annotations = decode_message_annotations(payload, found.message_annotations)
    assert (annotations["x-seen"], annotations["x-first-death-reason"]) == ("by me", "rejected")
    assert decode_header(payload, found.header).delivery_count == count


def test_priority_decides_who_gets_a_message(client: Client) -> None:
    """RabbitMQ's link property ranks consumers."""
    low = client.receiver(attach=Attach(name="low", snd_settle_mode=SND_UNSETTLED))
    high = client.receiver(
        attach=Attach(name="high", snd_settle_mode=SND_UNSETTLED, properties={"rabbitmq:priority": Int(5)})
    )
    _publish(client, "one")
    assert (low.bodies(), high.bodies()) == ([], ["one"])


def test_the_default_outcome_when_the_connection_is_closed(client: Client, queue: Queue) -> None:
    """It becomes the outcome of what the client has not settled."""
    _publish(client, "one")
    receiver = client.receiver(source=Source(address="/queues/q", default_outcome=ACCEPTED))
    assert len(receiver.take()) == 1
    client.engine.close()
    client.tick()
    assert queue.message_count == 0


def test_an_unknown_lifetime_declares_no_queue(client: Client, server: Server) -> None:
    wanted = Described(Symbol("forever"), [])
    receiver = client.receiver(None, source=Source(dynamic=True, dynamic_node_properties={"lifetime-policy": wanted}))
    assert receiver.refusal[0] == "amqp:not-implemented"
    assert list(server.vhost.queues) == ["q"]


def test_a_queue_that_is_deleted_ends_its_links(client: Client, server: Server) -> None:
    """The client learns why nothing comes any more."""
    receiver = client.receiver()
    server.vhost.delete_queue("q", False, False, None)
    client.tick()
    assert receiver.refusal == ("amqp:resource-deleted", "queue 'q' in vhost '/' was deleted")


def test_what_the_broker_knows_is_in_annotations(client: Client) -> None:
    """Exchange and routing key are told by RabbitMQ's names."""
    receiver = _one(client)
    ((_, payload),) = receiver.take()
    annotations = decode_message_annotations(payload, scan(payload).message_annotations)
    assert annotations == {"x-exchange": "", "x-routing-key": "q"}


@pytest.mark.parametrize(
    ("address", "condition", "text"),
    [
        ("/queues/no", "amqp:not-found", "no queue 'no' in vhost '/'"),
        ("no", "amqp:not-found", "no queue 'no' in vhost '/'"),
        ("/exchange/no/k", "amqp:not-found", "no exchange 'no' in vhost '/'"),
        ("/nonsense", "amqp:invalid-field", 'Attach refused: {bad_address_string,<<"/nonsense">>}'),
    ],
)
def test_sources_that_are_not_there(client: Client, address: str, condition: str, text: str) -> None:
    """The link is refused with RabbitMQ's reason, and no source."""
    receiver = client.receiver(address)
    assert receiver.answer.source is None
    assert receiver.refusal == (condition, text)


def test_reading_needs_permission(client: Client, server: Server) -> None:
    """Who may not read a queue receives nothing from it."""
    server.allow(read="x")
    assert client.receiver().refusal == (
        "amqp:unauthorized-access",
        "read access to queue 'q' in vhost '/' refused for user 'u'",
    )


def test_an_exchange_as_a_source_is_a_queue_of_ones_own(client: Client, server: Server) -> None:
    """RabbitMQ's first form: what the exchange has for the key comes, and nothing is left behind."""
    receiver = client.receiver("/exchange/amq.direct/k")
    client.sender("/exchanges/amq.direct/k").publish("one")
    assert receiver.bodies() == ["one"]
    receiver.link.detach()
    client.tick()
    assert list(server.vhost.queues) == ["q"]


def test_a_dynamic_source_is_there_for_its_link(client: Client, server: Server) -> None:
    """The node has a name that tells whose it is, can be sent to, and goes with the link."""
    receiver = client.receiver(None, source=Source(dynamic=True, capabilities=["temporary-queue"]))
    address = receiver.source.address
    assert address is not None
    assert address.startswith("/queues/amq.dyn-client-")
    assert receiver.source.dynamic
    client.sender(address).publish("one")
    assert receiver.bodies() == ["one"]
    receiver.link.detach()
    client.tick()
    assert list(server.vhost.queues) == ["q"]


def test_streams_are_read_from_an_offset(client: Client, server: Server) -> None:
    """RabbitMQ's filter says where a stream is read from; its messages stay, and say their offsets."""
    server.queue("s", queue_type="stream")
    client.sender("/queues/s").publish("one", "two", "three")
    offset = Described(Symbol("rabbitmq:stream-offset-spec"), 1)
    for name in ("first", "second"):
        receiver = client.receiver(
            source=Source(address="/queues/s", filter={"o": offset}),
            attach=Attach(name=name, snd_settle_mode=SND_SETTLED),
        )
        came = receiver.take()
        assert [body_of(payload) for _, payload in came] == ["two", "three"]
        annotations = decode_message_annotations(came[0][1], scan(came[0][1]).message_annotations)
        assert annotations["x-stream-offset"] == ULong(1)


def test_a_single_active_consumer_knows_that_it_is(client: Client, server: Server) -> None:
    """RabbitMQ's flow property tells each consumer of a quorum queue when its turn has come."""
    server.queue("single", queue_type="quorum", single_active_consumer=True)
    first = client.receiver("/queues/single", attach=Attach(name="first", snd_settle_mode=SND_UNSETTLED))
    second = client.receiver("/queues/single", attach=Attach(name="second", snd_settle_mode=SND_UNSETTLED))
    assert [flow for flow in first.flows if flow] == [{"rabbitmq:active": True}]
    assert [flow for flow in second.flows if flow] == [{"rabbitmq:active": False}]
    client.sender("/queues/single").publish("one")
    assert first.bodies() == ["one"]
    first.link.detach()
    client.tick()
    assert [flow for flow in second.flows if flow][-1] == {"rabbitmq:active": True}
    assert second.bodies() == ["one"]


def test_who_waits_is_told_that_it_is_active_before_there_is_a_message(client: Client, server: Server) -> None:
    """Also without credit, and where the queue is empty; what is available is so to the active one alone."""
    server.queue("single", queue_type="quorum", single_active_consumer=True)
    first = client.receiver("/queues/single", attach=Attach(name="first", snd_settle_mode=SND_UNSETTLED), credit=0)
    second = client.receiver("/queues/single", attach=Attach(name="second", snd_settle_mode=SND_UNSETTLED), credit=0)
    assert [flow for flow in second.flows if flow] == [{"rabbitmq:active": False}]
    first.link.detach()
    client.tick()
    assert [flow for flow in second.flows if flow] == [{"rabbitmq:active": False}, {"rabbitmq:active": True}]


@pytest.mark.parametrize("kind", ["classic", "stream"])
def test_only_consumers_of_quorum_queues_are_told(client: Client, server: Server, kind: str) -> None:
    """RabbitMQ tells nobody else, and a client may take the property for more than it is."""
    server.queue("single", queue_type=kind, single_active_consumer=True)
    first = client.receiver("/queues/single", attach=Attach(name="first", snd_settle_mode=SND_UNSETTLED))
    second = client.receiver("/queues/single", attach=Attach(name="second", snd_settle_mode=SND_UNSETTLED))
    first.link.detach()
    client.tick()
    assert [flow for flow in first.flows + second.flows if flow] == []


def test_a_single_active_consumer_of_a_quorum_queue_is_relieved(client: Client, server: Server) -> None:
    """One of higher priority takes over once what the first one has is settled, and both are told."""
    server.queue("single", queue_type="quorum", single_active_consumer=True)
    first = client.receiver("/queues/single", attach=Attach(name="first", snd_settle_mode=SND_UNSETTLED))
    sender = client.sender("/queues/single")
    sender.publish("one")
    ((held, body),) = first.take()
    assert body_of(body) == "one"
    attach = Attach(name="second", snd_settle_mode=SND_UNSETTLED, properties={"rabbitmq:priority": Int(5)})
    second = client.receiver("/queues/single", attach=attach)
    sender.publish("two")
    assert (first.bodies(), second.bodies()) == ([], [])
    first.settle(held, ACCEPTED)
    assert (first.bodies(), second.bodies()) == ([], ["two"])
    assert [flow for flow in first.flows if flow] == [{"rabbitmq:active": True}, {"rabbitmq:active": False}]
    assert [flow for flow in second.flows if flow] == [{"rabbitmq:active": False}, {"rabbitmq:active": True}]


def test_no_local_keeps_a_clients_own_messages_from_it(client: Client, server: Server) -> None:
    """What came by the same connection is for others."""
    filters: Fields = {"l": Described(Symbol("apache.org:no-local-filter:list"), [])}
    receiver = client.receiver(source=Source(address="/queues/q", filter=filters))
    _publish(client, "mine")
    _publish(Client(server), "theirs")
    client.tick()
    assert receiver.bodies() == ["theirs"]


def test_an_exclusive_queue_is_its_connections(client: Client, server: Server) -> None:
    """Others may send to it, and not receive from it."""
    address = client.receiver(None, source=Source(dynamic=True)).source.address
    other = Client(server)
    assert other.receiver(address).refusal[0] == "amqp:resource-locked"
    assert other.sender(address).detached == []


def test_a_dynamic_node_needs_permission(client: Client, server: Server) -> None:
    """Who may not configure queues makes none."""
    server.allow(configure="x")
    assert client.receiver(None, source=Source(dynamic=True)).refusal[0] == "amqp:unauthorized-access"
    assert list(server.vhost.queues) == ["q"]


def test_a_header_that_cannot_be_read_says_nothing(server: Server, client: Client) -> None:
    """The message behind it, and those behind that, are delivered."""
    receiver = client.receiver()
    sender = client.sender()
    sender.send_encoded(bytes.fromhex("00 53 70 c0 03 01 52 05") + encode_data(b"odd"), True)
    sender.send("next", True)
    client.durable()
    assert receiver.bodies() == ["odd", "next"]


@pytest.mark.parametrize("arguments", [{"queue_type": "stream"}, {}])
def test_available_is_what_is_left_for_the_link(client: Client, server: Server, arguments: dict[str, object]) -> None:
    """What a reader of a stream, or a link that copies, has had is there still, and not available to it."""
    server.queue("kept", True, **arguments)
    client.sender("/queues/kept").publish("one", "two", "three")
    offset = "rabbitmq:stream-offset-spec"
    filters: Fields = {offset: Described(Symbol(offset), "first")} if arguments else {}
    receiver = client.receiver(source=Source(address="/queues/kept", distribution_mode=COPY, filter=filters), credit=0)
    for credit, expected in ((1, (["one"], 2)), (10, (["two", "three"], 0)), (10, ([], 0))):
        receiver.link.grant(credit)
        receiver.link.drain_credit()
        client.durable()
        assert (receiver.bodies(), receiver.link.available) == expected


def test_a_drain_finds_what_is_behind_expired_messages(client: Client, server: Server) -> None:
    """However many ticks their removal takes, the client is not told before that there is nothing for it."""
    server.broker.now_ms = 1_000_000
    server.queue("short", message_ttl=1_000)
    short = server.vhost.queues["short"]
    message = Message(
        Address("", "short"), CODEC_091, CODEC_091.nothing, b"next", CODEC_091.options(CODEC_091.nothing), 0
    )
    for _ in range(20 * EXPIRY_STEP_MESSAGES):
        server.vhost.deliver(message, [short])
    server.broker.now_ms += 2_000
    server.vhost.deliver(message, [short])
    receiver = client.receiver(source=Source(address="/queues/short"), credit=0)
    receiver.link.grant(10)
    receiver.link.drain_credit()
    client.durable()
    assert (receiver.bodies(), receiver.link.credit) == (["next"], 0)


def _dead(client: Client, server: Server) -> Header:
    """The header of what is a dead letter of `source`, and taken from it."""
    ((_, payload),) = client.receiver("/queues/dead").take()
    return decode_header(payload, scan(payload).header)


def _with_dead_letters(server: Server, **more: object) -> Queue:
    server.queue("dead")
    server.queue("source", True, dead_letter_exchange="", dead_letter_routing_key="dead", **more)
    return server.vhost.queues["source"]


@pytest.mark.parametrize("requeued", [0, 2])
def test_a_dead_letter_of_the_older_protocol_was_delivered_before(
    client: Client, server: Server, requeued: int
) -> None:
    """It says that somebody may have had it, and how often it was delivered in vain: a reject counts as well."""
    queue = _with_dead_letters(server)
    nothing = CODEC_091.nothing
    server.vhost.deliver(
        Message(Address("", "source"), CODEC_091, nothing, b"m", CODEC_091.options(nothing), 0, 1), [queue]
    )
    for _ in range(requeued):
        entry = got(queue)
        assert entry is not None
        queue.fail([entry])
    entry = got(queue)
    assert entry is not None
    queue.reject(entry)
    client.tick()
    header = _dead(client, server)
    assert (header.first_acquirer, header.delivery_count) == (False, requeued + 1)


def test_a_dead_letter_that_expired_was_not_delivered_in_vain(client: Client, server: Server) -> None:
    """It says that somebody may have had it (RabbitMQ), and counts no failure."""
    queue = _with_dead_letters(server, message_ttl=0)
    client.sender("/queues/source").publish("one")
    assert queue.message_count == 0
    header = _dead(client, server)
    assert (header.first_acquirer, header.delivery_count) == (False, 0)


def _replies(client: Client, **more: object) -> Receiver:
    asked: dict[str, object] = {"expiry_policy": EXPIRE_LINK_DETACH, "capabilities": ["rabbitmq:volatile-queue"]}
    source = Source(dynamic=True, **{**asked, **more})  # type: ignore[arg-type]
    return client.receiver(None, source=source, attach=Attach(name="replies", snd_settle_mode=SND_SETTLED))


def test_direct_reply_to(client: Client, server: Server) -> None:
    """Answers go straight to the link: there is no queue that anybody else could find, and no permission is needed."""
    server.allow("^$", ".*", "^$")
    receiver = _replies(client)
    address = receiver.source.address
    assert address is not None
    assert address.startswith("/queues/amq.rabbitmq.reply-to.")
    assert receiver.source.capabilities == ["rabbitmq:volatile-queue"]
    assert list(server.vhost.queues) == ["q"]
    responder = Client(server)
    assert responder.sender(address).publish("one") == [ACCEPTED]
    client.tick()
    assert receiver.bodies() == ["one"]
    by_itself = responder.sender(None, Target())
    by_itself.send("two", properties=Properties(to=address))
    responder.tick()
    client.tick()
    assert receiver.bodies() == ["two"]
    assert responder.receiver(address).refusal[0] in ("amqp:not-found", "amqp:unauthorized-access")


@pytest.mark.parametrize("closed", [True, False])
def test_an_address_for_answers_ends_with_its_link(client: Client, server: Server, closed: bool) -> None:
    """What comes later is released: nobody is there."""
    receiver = _replies(client)
    address = receiver.source.address
    receiver.link.detach(closed=closed)
    client.tick()
    assert not server.vhost.replies
    assert client.sender(None, Target()).publish("one")[0] != ACCEPTED
    sender = client.sender(address, attach=Attach(name="late"))
    assert sender.refusal[0] == "amqp:not-found"


def test_an_address_for_answers_ends_with_its_connection(client: Client, server: Server) -> None:
    """As with its link."""
    _replies(client)
    client.connection.engine.lost(None)
    assert not server.vhost.replies


def test_answers_cross_protocols(client: Client, server: Server) -> None:
    """One of AMQP 0-9-1 answers to the name that is in reply-to."""
    receiver = _replies(client)
    (name,) = server.vhost.replies
    nothing = CODEC_091.nothing
    answer = Message(Address("", name), CODEC_091, nothing, b"m", CODEC_091.options(nothing), 0, 1)
    exchanges = server.vhost.exchanges
    server.vhost.deliver(answer, exchanges.router.queues_from(exchanges.find(""), [name], answer))
    client.tick()
    assert receiver.bodies() == ["m"]


@pytest.mark.parametrize(
    "more", [{"durable": 1}, {"timeout": 5}, {"expiry_policy": "session-end"}, {"capabilities": []}]
)
def test_what_is_no_address_for_answers_is_a_queue(client: Client, server: Server, more: dict[str, object]) -> None:
    """A source that is to be more than that is a temporary queue, and does not say that it is volatile."""
    receiver = _replies(client, **more)
    client.durable()
    assert not server.vhost.replies
    assert len(server.vhost.queues) == 2
    assert "rabbitmq:volatile-queue" not in receiver.source.capabilities
