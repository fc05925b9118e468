"""Receiving by AMQP 1.0: credit, deliveries, and what becomes of them."""

import pytest

from flintmq.broker.message import Address, Message
from flintmq.broker.ports import VHostRecord
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.properties import Header, Properties
from flintmq.wire.amqp10.sections import decode_header, decode_message_annotations, encode_data, scan
from flintmq.wire.amqp10.spec import CODES, COPY, EXPIRE_LINK_DETACH, RCV_SECOND, SND_SETTLED, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, Accepted, Modified, Received, Rejected
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import Described, Int, Symbol, ULong
from tests.unit.broker.memory import got
from tests.unit.gateway.amqp10.pair import Client, Receiver, Server, body_of


def _publish(client: Client, *bodies: str) -> None:
    client.sender().publish(*bodies)


def test_credit_is_how_much_comes(client: Client, queue: Queue) -> None:
    """No delivery without credit, and not one more than there is."""
    _publish(client, "one", "two", "three")
    receiver = client.receiver(credit=0)
    assert receiver.bodies() == []
    receiver.link.grant(2)
    client.tick()
    assert receiver.bodies() == ["one", "two"]
    receiver.link.grant(1)
    client.tick()
    assert receiver.bodies() == ["three"]
    assert queue.message_count == 0


def test_settled_deliveries_have_left_the_queue(client: Client, queue: Queue, server: Server) -> None:
    """In settle mode settled there is nothing to say of a delivery."""
    _publish(client, "one")
    receiver = client.receiver(attach=Attach(name="r", snd_settle_mode=SND_SETTLED))
    ((delivery, _),) = receiver.take()
    assert delivery is None
    assert receiver.answer.snd_settle_mode == SND_SETTLED
    client.engine.lost(None)
    client.connection.engine.lost(None)
    assert queue.message_count == 0
    client.durable()
    assert server.storage.memory_journal.kept == {}


def _one(client: Client, credit: int = 10) -> Receiver:
    _publish(client, "one")
    return client.receiver(credit=credit)


def test_accepted_leaves_the_queue(client: Client, queue: Queue) -> None:
    """An accepted message does not come again."""
    receiver = _one(client)
    receiver.settle(receiver.take()[0][0], ACCEPTED)
    receiver.link.detach()
    client.tick()
    assert queue.message_count == 0


def test_released_comes_again_and_is_not_counted(client: Client) -> None:
    """A released message is unchanged but that it was acquired before."""
    receiver = _one(client)
    receiver.settle(receiver.take()[0][0], RELEASED)
    ((_, payload),) = receiver.take()
    header = decode_header(payload, 0)
    assert (header.delivery_count, header.first_acquirer) == (0, False)


def test_failed_deliveries_are_counted(client: Client) -> None:
    """modified with delivery-failed adds to the delivery-count."""
    receiver = _one(client)
    receiver.settle(receiver.take()[0][0], Modified(delivery_failed=True))
    ((_, payload),) = receiver.take()
    assert decode_header(payload, 0).delivery_count == 1


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


def test_what_is_undeliverable_here_is_dropped_without_dead_letters(client: Client, server: Server) -> None:
    """Where there is nowhere to, the message is gone, and nobody gets it."""
    receiver = _one(client)
    receiver.settle(receiver.take()[0][0], Modified(undeliverable_here=True))
    assert server.vhost.queues["q"].message_count == 0
    assert client.receiver(attach=Attach(name="other", snd_settle_mode=SND_UNSETTLED)).take() == []


def test_what_is_undeliverable_here_goes_to_others(client: Client, server: Server) -> None:
    """In the strict dialect, the link that says so does not get the message again, and another does."""
    server.broker.put_vhost(VHostRecord("/", "strict"))
    receiver = _one(client)
    receiver.settle(receiver.take()[0][0], Modified(undeliverable_here=True))
    assert receiver.take() == []
    other = client.receiver(attach=Attach(name="other", snd_settle_mode=SND_UNSETTLED))
    assert other.bodies() == ["one"]


def test_modified_annotations_are_the_messages(client: Client) -> None:
    """What a receiver adds to a message's annotations is there for the next."""
    receiver = _one(client)
    receiver.settle(receiver.take()[0][0], Modified(message_annotations={"x-seen": "by me"}))
    ((_, payload),) = receiver.take()
    assert decode_message_annotations(payload, scan(payload).message_annotations)["x-seen"] == "by me"


def test_rejected_messages_are_dead_lettered(client: Client, server: Server) -> None:
    """A rejected message goes to the queue's dead letters."""
    server.queue("dead")
    server.queue("source", dead_letter_exchange="", dead_letter_routing_key="dead")
    client.sender("/queues/source").publish("one")
    receiver = client.receiver("/queues/source")
    receiver.settle(receiver.take()[0][0], Rejected())
    assert client.receiver("/queues/dead").bodies() == ["one"]


def test_a_link_that_ends_releases_what_it_has(client: Client, queue: Queue) -> None:
    """By default, what is not settled goes back."""
    receiver = _one(client)
    receiver.link.detach()
    client.tick()
    assert queue.message_count == 1
    assert queue.consumers == []


def test_a_sources_default_outcome_is_what_becomes_of_the_unsettled(client: Client, queue: Queue) -> None:
    """The client may ask for another outcome of what it does not settle."""
    _publish(client, "one")
    receiver = client.receiver(source=Source(address="/queues/q", default_outcome=Accepted()))
    assert receiver.source.default_outcome == ACCEPTED
    client.engine.close()
    client.tick()
    assert queue.message_count == 0


def test_a_lost_connection_gives_everything_back(client: Client, queue: Queue) -> None:
    """Nothing stays with a client that is gone."""
    _one(client)
    client.connection.engine.lost(None)
    assert queue.message_count == 1


def test_settle_mode_second_lets_the_broker_settle(client: Client, queue: Queue) -> None:
    """The receiver says the outcome, and waits until the broker has applied it."""
    _publish(client, "one")
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED, rcv_settle_mode=RCV_SECOND)
    receiver = client.receiver(attach=attach)
    delivery = receiver.take()[0][0]
    assert delivery is not None
    receiver.settle(delivery, ACCEPTED)
    assert receiver.said == [(ACCEPTED, True)]
    receiver.link.detach()
    client.tick()
    assert queue.message_count == 0


def test_how_far_a_delivery_came_is_no_outcome(client: Client, queue: Queue) -> None:
    """`received` leaves the delivery unsettled."""
    receiver = _one(client)
    delivery = receiver.take()[0][0]
    assert delivery is not None
    receiver.link.update(delivery, Received(section_number=0, section_offset=1))
    client.tick()
    assert receiver.said == []
    receiver.link.detach()
    client.tick()
    assert queue.message_count == 1


def test_draining_uses_up_the_credit(client: Client) -> None:
    """What there is comes, and the rest of the credit is given back."""
    _publish(client, "one", "two")
    receiver = client.receiver(credit=0)
    receiver.link.grant(10)
    receiver.link.drain_credit()
    client.tick()
    assert receiver.bodies() == ["one", "two"]
    assert receiver.link.credit == 0


def test_copies_leave_the_queue_as_it_is(client: Client, queue: Queue) -> None:
    """Distribution mode copy shows messages, whatever becomes of the copies."""
    _publish(client, "one", "two")
    browser = client.receiver(source=Source(address="/queues/q", distribution_mode=COPY))
    assert browser.source.distribution_mode == COPY
    came = browser.take()
    assert len(came) == 2
    for delivery, _ in came:
        browser.settle(delivery, ACCEPTED)
    assert queue.message_count == 2
    assert client.receiver(attach=Attach(name="move", snd_settle_mode=SND_UNSETTLED)).bodies() == ["one", "two"]


def test_priority_decides_who_gets_a_message(client: Client) -> None:
    """RabbitMQ's link property ranks consumers."""
    low = client.receiver(attach=Attach(name="low", snd_settle_mode=SND_UNSETTLED))
    high = client.receiver(
        attach=Attach(name="high", snd_settle_mode=SND_UNSETTLED, properties={"rabbitmq:priority": Int(5)})
    )
    _publish(client, "one")
    assert (low.bodies(), high.bodies()) == ([], ["one"])


def test_a_queue_that_is_deleted_ends_its_links(client: Client, server: Server) -> None:
    """The client learns why nothing comes any more."""
    receiver = client.receiver()
    server.vhost.delete_queue("q", False, False, None)
    client.tick()
    assert receiver.refusal == ("amqp:resource-deleted", "queue 'q' in vhost '/' was deleted")


def test_a_message_that_is_too_large_ends_the_link_and_stays(client: Client, queue: Queue) -> None:
    """A receiver's max-message-size is kept to."""
    _publish(client, "x" * 1000)
    receiver = client.receiver(attach=Attach(name="r", snd_settle_mode=SND_UNSETTLED, max_message_size=500))
    assert receiver.refusal[0] == "amqp:link:message-size-exceeded"
    assert queue.message_count == 1


def test_what_the_broker_knows_is_in_annotations(client: Client) -> None:
    """Exchange and routing key are told by RabbitMQ's names."""
    receiver = _one(client)
    ((_, payload),) = receiver.take()
    annotations = decode_message_annotations(payload, scan(payload).message_annotations)
    assert annotations == {"x-exchange": "", "x-routing-key": "q"}


def test_the_time_to_live_is_what_is_left_of_it(client: Client, server: Server) -> None:
    """A message that waited has that much less to live (part 3 §3.2.1)."""
    server.broker.now_ms = 1_000
    sender = client.sender()
    sender.send("one", ttl=5_000)
    client.durable()
    server.broker.now_ms = 3_000
    ((_, payload),) = client.receiver().take()
    assert decode_header(payload, 0).ttl == 3_000


def test_large_messages_come_whole(client: Client) -> None:
    """A message of many frames arrives as it was sent."""
    body = "x" * 1_000_000
    client.sender().publish(body)
    assert client.receiver().bodies() == [body]


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


def test_filters_choose_messages_and_are_told(client: Client, queue: Queue) -> None:
    """The filters in place are those that the broker answers with; others get what does not match."""
    selector = Described(Symbol("apache.org:selector-filter:string"), "JMSType = 'a'")
    unknown = Described(Symbol("nobody:knows"), "x")
    receiver = client.receiver(source=Source(address="/queues/q", filter={"s": selector, "u": unknown}))
    assert receiver.source.filter == {"s": selector}
    sender = client.sender()
    for subject in ("a", "b"):
        sender.send(subject, properties=Properties(subject=subject))
    client.durable()
    assert receiver.bodies() == ["a"]
    assert queue.message_count == 1


def test_a_selector_that_is_none_is_refused(client: Client) -> None:
    """The link would get what it does not want."""
    selector = Described(Symbol("apache.org:selector-filter:string"), "a = ")
    receiver = client.receiver(source=Source(address="/queues/q", filter={"s": selector}))
    assert receiver.refusal[0] == "amqp:invalid-field"


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


@pytest.mark.parametrize(
    ("policy", "after_link", "after_message"),
    [
        ("delete-on-close", False, False),
        ("delete-on-no-links", False, False),
        ("delete-on-no-messages", True, False),
        ("delete-on-no-links-or-messages", True, False),
    ],
)
def test_dynamic_nodes_live_as_long_as_was_asked(
    client: Client, server: Server, policy: str, after_link: bool, after_message: bool
) -> None:
    """The four lifetime policies (part 3 §3.5.10 to §3.5.13), with a message on the node when its link is closed."""
    wanted = Described(ULong(CODES[f"amqp:{policy}:list"]), [])
    sender = client.sender(target=Target(dynamic=True, dynamic_node_properties={"lifetime-policy": wanted}))
    target = sender.answer.target
    assert isinstance(target, Target)
    assert target.dynamic_node_properties["lifetime-policy"] == wanted
    sender.publish("one")
    sender.link.detach()
    client.tick()
    assert (len(server.vhost.queues) == 2) is after_link
    if after_link:
        receiver = client.receiver(target.address)
        receiver.settle(receiver.take()[0][0], ACCEPTED)
        receiver.link.detach()
        client.tick()
    assert (len(server.vhost.queues) == 2) is after_message


def test_an_unknown_lifetime_is_refused(client: Client, server: Server) -> None:
    """Nothing is made that would live otherwise than was asked for."""
    wanted = Described(Symbol("forever"), [])
    receiver = client.receiver(None, source=Source(dynamic=True, dynamic_node_properties={"lifetime-policy": wanted}))
    assert receiver.refusal[0] == "amqp:not-implemented"
    assert list(server.vhost.queues) == ["q"]


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
