"""Publishing by AMQP 1.0: targets, outcomes, and when they are told."""

import pytest

from flintmq.base.errors import EndedByPeer
from flintmq.broker.ports import PolicyRecord, TopicPermissionRecord
from flintmq.gateway.amqp10.incoming_link import LINK_CREDIT, SETTLED_CREDIT
from flintmq.protocol.amqp10.delivery import tag_of
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.spec import SND_SETTLED
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, Error, Rejected
from flintmq.wire.amqp10.termini import Target
from flintmq.wire.amqp10.writer import encode_value
from tests.unit.gateway.amqp10.pair import Client, Sender, Server


def test_a_stored_message_is_accepted_once_it_is_on_the_disk(client: Client, server: Server) -> None:
    """The outcome of a durable message waits for the sync that covers it."""
    sender = client.sender()
    sender.send("one")
    client.tick()
    assert sender.said == []
    client.durable()
    assert sender.said == [(1, ACCEPTED, True)]
    assert server.vhost.queues["q"].message_count == 1


def test_a_transient_message_is_accepted_at_once(client: Client) -> None:
    """What nothing is stored of has nothing to wait for."""
    sender = client.sender()
    sender.send("one", durable=False)
    client.tick()
    assert sender.said == [(1, ACCEPTED, True)]


@pytest.mark.parametrize(
    ("address", "subject", "reached"), [("/queue/new", None, "new"), ("/queue", "q", "q"), ("x", "k", "x k")]
)
def test_targets(client: Client, server: Server, address: str, subject: str | None, reached: str) -> None:
    """A queue that is made, one that the subject names, and an exchange by its name alone (RabbitMQ's first form)."""
    vhost = server.vhost
    vhost.exchanges.declare("x", "direct", True, False, False, {})
    server.queue("x k")
    vhost.exchanges.bind_queue(vhost.queues["x k"], "x", "k", {})
    sender = client.sender(address)
    client.durable()
    sender.send("m", properties=Properties(subject=subject))
    client.durable()
    assert sender.said == [(1, ACCEPTED, True)]
    assert [name for name, queue in vhost.queues.items() if queue.message_count] == [reached]


@pytest.mark.parametrize(
    ("address", "condition", "text"),
    [
        ("/queues/no", "amqp:not-found", "no queue 'no' in vhost '/'"),
        ("/amq/queue/no", "amqp:not-found", "no queue 'no' in vhost '/'"),
        ("no", "amqp:not-found", "no queue 'no' in vhost '/'"),
        ("/exchanges/no", "amqp:not-found", "no exchange 'no' in vhost '/'"),
        ("/exchanges/", "amqp:invalid-field", 'Attach refused: {bad_address_string,<<"/exchanges/">>}'),
        (
            "/exchanges/amq.default",
            "amqp:invalid-field",
            'Attach refused: {bad_address_string,<<"/exchanges/amq.default">>}',
        ),
        ("/queues/%zz", "amqp:invalid-field", 'Attach refused: {bad_address_string,<<"/queues/%zz">>}'),
        ("/nonsense", "amqp:invalid-field", 'Attach refused: {bad_address_string,<<"/nonsense">>}'),
    ],
)
def test_targets_that_are_not_there(client: Client, address: str, condition: str, text: str) -> None:
    """The link is refused with RabbitMQ's reason, and no target."""
    sender = client.sender(address)
    assert sender.answer.target is None
    assert sender.refusal == (condition, text)


def test_permissions_are_asked_where_the_link_is_attached(client: Client, server: Server) -> None:
    """Who may not write to the default exchange sends to no queue."""
    server.allow(write="x.*")
    assert client.sender().refusal == (
        "amqp:unauthorized-access",
        "write access to exchange 'amq.default' in vhost '/' refused for user 'u'",
    )


def test_a_permission_that_is_withdrawn_ends_the_link(client: Client, server: Server) -> None:
    """What was allowed is asked again once permissions have changed."""
    sender = client.sender()
    assert sender.publish("one") == [ACCEPTED]
    server.allow(write="x.*")
    sender.send("two")
    client.tick()
    assert sender.refusal[0] == "amqp:unauthorized-access"


def _anonymous(client: Client) -> Sender:
    return client.sender(None, Target())


@pytest.mark.parametrize(
    ("to", "condition", "text"),
    [
        (None, "amqp:precondition-failed", "anonymous terminus requires 'to' address to be set"),
        ("q", "amqp:precondition-failed", "bad 'to' address string: q"),
        ("/exchanges/no/k", "amqp:not-found", "no exchange 'no' in vhost '/'"),
    ],
)
def test_a_message_that_leads_nowhere_is_rejected(client: Client, to: str | None, condition: str, text: str) -> None:
    """The link goes on: the next message may have a better address."""
    sender = _anonymous(client)
    sender.send("one", properties=Properties(to=to))
    client.tick()
    ((_, state, _),) = sender.said
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert (state.error.condition, state.error.description) == (condition, text)
    assert sender.detached == []


@pytest.mark.parametrize("length", [1, 10_000])
def test_a_settled_message_that_leads_nowhere_is_named(client: Client, length: int) -> None:
    """The link ends, and its detach says by the delivery-tag which message it was (anonymous terminus 1.0 §2.2.2)."""
    sender = _anonymous(client)
    sender.send("one", settled=True, properties=Properties(to="/queues/q"))
    sender.send("two", settled=True, properties=Properties(to="q" * length))
    sender.send("three", settled=True, properties=Properties(to="/queues/q"))
    client.tick()
    (error,) = sender.detached
    assert isinstance(error, EndedByPeer)
    assert (error.condition, error.info) == ("amqp:precondition-failed", {"delivery-tag": tag_of(2)})
    assert len(encode_value(Error(error.condition, error.text, error.info))) < 450
    assert client.server.vhost.queues["q"].message_count == 1


def test_what_is_said_of_a_long_address_is_short(client: Client) -> None:
    """An outcome fits the smallest frame that a peer may ask for, whatever the message says."""
    sender = _anonymous(client)
    sender.send("one", properties=Properties(to="q" * 10_000))
    client.tick()
    ((_, state, _),) = sender.said
    assert isinstance(state, Rejected)
    assert len(encode_value(state)) < 450


def test_a_message_that_is_none_ends_the_link(client: Client) -> None:
    """What cannot be read cannot be queued."""
    sender = client.sender()
    sender.send_encoded(b"\x00\x53\x70\x45")
    client.tick()
    assert sender.refusal == ("amqp:decode-error", "failed to parse message: a message has no body")


def test_a_foreign_user_id_is_refused(client: Client) -> None:
    """Who a message says it is from is who sent it."""
    sender = client.sender()
    sender.send("one", properties=Properties(user_id=b"u"))
    client.durable()
    assert sender.said == [(1, ACCEPTED, True)]
    sender.send("two", properties=Properties(user_id=b"somebody"))
    client.tick()
    assert sender.refusal == (
        "amqp:unauthorized-access",
        "user_id property set to 'somebody' but authenticated user was 'u'",
    )


def test_credit_is_given_back_as_it_is_used(client: Client) -> None:
    """A publisher never waits for credit while there is no alarm."""
    sender = client.sender()
    for _ in range(20):
        for _ in range(LINK_CREDIT // 10):
            assert sender.link.can_send
            sender.send("m", settled=True, durable=False)
        client.tick()


def test_settled_publishers_have_credit_for_what_a_consumer_takes_meanwhile(client: Client) -> None:
    """One who waits to hear of nothing cannot fill the queue much faster than it is emptied, and never waits either."""
    sender = client.sender(attach=Attach(name="settled", snd_settle_mode=SND_SETTLED))
    assert sender.link.credit == SETTLED_CREDIT
    for _ in range(20):
        for _ in range(SETTLED_CREDIT // 4):
            assert sender.link.can_send
            sender.send("m", settled=True, durable=False)
        client.tick()
        assert sender.link.credit > SETTLED_CREDIT // 4


def test_an_alarm_takes_credit_and_loses_nothing(client: Client, server: Server) -> None:
    """What is under way when an alarm goes on is taken; afterwards publishers go on."""
    sender = client.sender()
    server.gateway.alarm = "disk"
    client.connection.block()
    sender.send("under way", settled=True)
    client.tick()
    assert server.vhost.queues["q"].message_count == 1
    assert not sender.link.can_send
    server.gateway.alarm = ""
    client.connection.unblock()
    client.tick()
    assert sender.link.can_send


def test_the_failed_storage_rejects_what_waits_for_it(client: Client, server: Server) -> None:
    """Nothing is accepted that is not safe."""
    sender = client.sender()
    sender.send("one")
    client.tick()
    server.storage.fence("no disk")
    server.gateway.on_durable()
    client.tick()
    ((_, state, _),) = sender.said
    assert isinstance(state, Rejected)


def test_a_target_that_is_deleted_ends_its_links(client: Client, server: Server) -> None:
    """The publisher learns why nothing is taken any more."""
    sender = client.sender()
    server.vhost.delete_queue("q", False, False, None)
    client.tick()
    assert sender.refusal == ("amqp:resource-deleted", "queue 'q' in vhost '/' was deleted")


@pytest.mark.parametrize(("kind", "expected"), [("queue", "classic"), ("quorum", "quorum"), ("topic", "topic")])
def test_a_policy_makes_nodes_that_are_asked_for_by_name(
    client: Client, server: Server, kind: str, expected: str
) -> None:
    """auto-create says of what type, for queues and for exchanges; other addresses make nothing."""
    server.broker.put_rule(PolicyRecord("/", "p", "^made", {"auto-create": kind}))
    sender = client.sender("made")
    client.durable()
    assert sender.detached == []
    vhost = server.vhost
    made = vhost.exchanges.by_name["made"].type if kind == "topic" else vhost.queues["made"].kind
    assert made == expected
    assert client.sender("/queues/made-2").refusal[0] == "amqp:not-found"
    assert client.sender("other").refusal[0] == "amqp:not-found"


def test_topic_permissions_hold(client: Client, server: Server) -> None:
    """A key that the user may not use at a topic exchange ends the link, also where a message brings it."""
    server.broker.put_rule(TopicPermissionRecord("/", "u", "amq.topic", "^mine", "^mine"))
    assert client.sender("/exchanges/amq.topic/mine.a").publish("one") == [RELEASED]
    sender = client.sender("/exchanges/amq.topic/theirs")
    sender.send("two")
    client.tick()
    assert sender.refusal[0] == "amqp:unauthorized-access"


def test_names_that_are_too_long(client: Client, server: Server) -> None:
    """A routing key that no consumer of AMQP 0-9-1 could be told costs its link, or its message where it says it."""
    server.vhost.exchanges.bind_queue(server.vhost.queues["q"], "amq.fanout", "", {})
    by_subject = client.sender("/exchange/amq.fanout")
    by_subject.send(properties=Properties(subject="ü" * 127))
    by_subject.send(properties=Properties(subject="ü" * 128))
    client.tick()
    assert by_subject.refusal == ("amqp:invalid-field", "a routing key has 255 bytes at most")
    by_itself = _anonymous(client)
    by_itself.send(properties=Properties(to="/exchanges/amq.fanout/" + "k" * 256))
    client.tick()
    ((_, state, _),) = by_itself.said
    assert isinstance(state, Rejected)
    assert client.sender("/exchanges/amq.fanout/" + "k" * 256).refusal[0] == "amqp:invalid-field"
    assert server.vhost.queues["q"].message_count == 1


def test_an_answer_goes_to_who_asked_by_the_other_protocol(client: Client, server: Server) -> None:
    """A link can send to an address for answers (direct reply-to), and none can receive from it."""
    waiting = server.vhost.make_reply_queue("amq.rabbitmq.reply-to.x")
    assert client.sender("/queues/amq.rabbitmq.reply-to.x").publish("answer") == [ACCEPTED]
    assert waiting.message_count == 1
    refusal = client.receiver("/queues/amq.rabbitmq.reply-to.x").refusal
    assert refusal == ("amqp:not-found", "no queue 'amq.rabbitmq.reply-to.x' in vhost '/'")
