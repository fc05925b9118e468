"""A client's channel without its socket: requests, confirms, deliveries and how few frames settle them."""

from collections.abc import Iterator

import pytest

from flintmq.base.errors import LocalProtocolError, NotFound
from flintmq.client.channel import ClientChannel
from flintmq.client.delivery import Inbox
from flintmq.client.errors import ChannelClosed, ConnectionClosed, ConsumerCancelled, PublishFailed
from flintmq.client.publish import Publish, Publishable
from flintmq.client.waitable import Request
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from flintmq.wire.amqp091.properties import Properties, decode_properties
from tests.unit.client.scripted import NO_PROPERTIES, Scripted, wire
from tests.unit.protocol.amqp091.pair import Recorder


@pytest.fixture
def scripted() -> Scripted:
    return Scripted().open()


def consumer(scripted: Scripted, channel: ClientChannel, recorder: Recorder, *, no_ack: bool = False) -> Inbox:
    inbox = channel.subscribe(Request(BasicConsume(queue="q", no_ack=no_ack), BasicConsumeOk))
    scripted.pump()
    scripted.say(recorder, BasicConsumeOk(consumer_tag=inbox.consumer_tag))
    return inbox


def confirming(scripted: Scripted) -> tuple[ClientChannel, Recorder]:
    channel, recorder = scripted.channel()
    channel.ask(Request(ConfirmSelect(), ConfirmSelectOk))
    scripted.pump()
    scripted.say(recorder, ConfirmSelectOk())
    return channel, recorder


# -- requests ---------------------------------------------------------------------------------------------------


def test_answers_go_to_requests_in_their_order(scripted: Scripted) -> None:
    """Two requests may be under way at once; each gets its own answer."""
    channel, recorder = scripted.channel()
    first = channel.ask(Request(QueueDeclare(queue="a", arguments={"x-max-length": 1}), QueueDeclareOk))
    second = channel.ask(Request(QueuePurge(queue="b"), QueuePurgeOk))
    scripted.pump()
    sent = recorder.methods[0]
    assert isinstance(sent, QueueDeclare)
    assert (sent.queue, sent.arguments) == ("a", {"x-max-length": 1})
    scripted.say(recorder, QueueDeclareOk(queue="a", message_count=2, consumer_count=1))
    assert first.is_ready
    assert not second.is_ready
    scripted.say(recorder, QueuePurgeOk(message_count=3))
    assert first.result().method.message_count == 2
    assert second.result().method.message_count == 3


def test_a_waiter_is_woken_once(scripted: Scripted) -> None:
    """The driver learns that its request is ready; one that lost interest does not."""
    channel, recorder = scripted.channel()
    request = channel.ask(Request(QueuePurge(queue="q"), QueuePurgeOk))
    woken: list[str] = []
    stay, leave = (lambda: woken.append("stay")), (lambda: woken.append("leave"))
    request.when_ready(stay)
    request.when_ready(leave)
    request.forget(leave)
    scripted.pump()
    scripted.say(recorder, QueuePurgeOk())
    assert woken == ["stay"]


def test_a_channel_that_is_closed_fails_what_waits(scripted: Scripted) -> None:
    """Requests, confirms and subscriptions all end with the server's code and words; later calls say so, too."""
    channel, recorder = confirming(scripted)
    inbox = consumer(scripted, channel, recorder)
    channel.publish("", "q", b"", None, False)
    request = channel.ask(Request(QueueDeclare(queue="q", passive=True), QueueDeclareOk))
    scripted.pump()
    wire(recorder).close(404, "NOT_FOUND - no queue 'q'", error=NotFound("no queue 'q'"))
    scripted.pump()
    for raising in (request.result, channel.report, lambda: inbox.take(1), lambda: channel.ack(1, False)):
        with pytest.raises(ChannelClosed) as caught:
            raising()
        assert caught.value.code == 404
        assert str(caught.value) == "404 NOT_FOUND - no queue 'q'"
    assert channel.ended.is_ready


def test_an_answer_nobody_asked_for_ends_the_connection(scripted: Scripted) -> None:
    """A server that lost count cannot be believed any more."""
    channel, recorder = scripted.channel()
    scripted.say(recorder, QueuePurgeOk())
    assert isinstance(channel.closed, ConnectionClosed)
    assert "broke the protocol" in channel.closed.text
    assert channel.closed.code == 505


def test_a_close_of_ours_ends_in_two_steps(scripted: Scripted) -> None:
    """The channel takes nothing from its close on, and has ended when the server agreed."""
    channel, _ = scripted.channel()
    channel.close()
    assert not channel.is_open
    assert not channel.ended.is_ready
    scripted.pump()
    assert channel.ended.is_ready
    with pytest.raises(ChannelClosed, match="200"):
        channel.ask(Request(QueuePurge(queue="q"), QueuePurgeOk))


# -- publishing -------------------------------------------------------------------------------------------------


def test_publishes_come_as_they_were_meant(scripted: Scripted) -> None:
    """Exchange, key, flag, properties in all their forms, and any body."""
    channel, recorder = scripted.channel()
    big = bytes(range(256)) * 2000
    encoded = b"\x10\x00\x02"
    publishes: list[Publishable] = [
        ("x", "a", b"1"),
        ("x", "a", b"2", Properties(message_id="m")),
        ("x", "b", b"", encoded),
        Publish("", "b", big, mandatory=True),
        ("", "b", bytearray(b"5"), NO_PROPERTIES, False),
    ]
    assert not channel.publish_some(iter(publishes), 1 << 30)
    scripted.pump()
    came = [decode_method(method) for method, _, _ in recorder.contents]
    assert came == [
        BasicPublish(exchange="x", routing_key="a"),
        BasicPublish(exchange="x", routing_key="a"),
        BasicPublish(exchange="x", routing_key="b"),
        BasicPublish(exchange="", routing_key="b", mandatory=True),
        BasicPublish(exchange="", routing_key="b"),
    ]
    assert [body for _, _, body in recorder.contents] == [b"1", b"2", b"", big, b"5"]
    assert [decode_properties(properties) for _, properties, _ in recorder.contents] == [
        Properties(),
        Properties(message_id="m"),
        Properties(delivery_mode=2),
        Properties(),
        Properties(),
    ]


def test_publishes_are_written_piece_by_piece(scripted: Scripted) -> None:
    """A batch of any length is never in memory whole: the iterator is asked for more when the last piece is out."""
    channel, recorder = scripted.channel()
    asked = 0

    def endless() -> Iterator[Publishable]:
        nonlocal asked
        while True:
            asked += 1
            yield ("", "q", bytes(1000))

    publishes = endless()
    assert channel.publish_some(publishes, 10_000)
    first = asked
    assert first <= 11
    scripted.pump()
    assert channel.publish_some(publishes, 10_000)
    assert asked == 2 * first
    scripted.pump()
    assert len(recorder.contents) == asked


@pytest.mark.parametrize(
    ("publish", "error"),
    [
        (("x", "k" * 256, b""), LocalProtocolError),
        (("x", "k", "text"), TypeError),
        (("x", "k", b"", "text"), TypeError),
        (("x", "k", b"", Properties(priority=256)), LocalProtocolError),
    ],
)
def test_a_publish_that_cannot_be_leaves_no_trace(
    scripted: Scripted, publish: Publishable, error: type[Exception]
) -> None:
    """What is wrong with a message is said before any of it is written, so that the next one is understood."""
    channel, recorder = confirming(scripted)
    with pytest.raises(error):
        channel.publish_some(iter([publish]), 1000)
    channel.publish("", "q", b"good", None, False)
    scripted.pump()
    assert [body for _, _, body in recorder.contents] == [b"good"]
    assert channel.confirms.published == 1


def test_refused_and_returned_messages_are_reported(scripted: Scripted) -> None:
    """A batch fails with the positions of what was refused and with the messages that came back, once."""
    channel, recorder = confirming(scripted)
    channel.publish_some(iter([("x", str(n), b"body") for n in range(6)]), 1 << 30)
    scripted.pump()
    returned = BasicReturn(reply_code=312, reply_text="NO_ROUTE", exchange="x", routing_key="0")
    wire(recorder).send_content(encode_method(returned), NO_PROPERTIES, b"body")
    scripted.say(recorder, BasicAck(delivery_tag=2, multiple=True), BasicNack(delivery_tag=4, multiple=True))
    assert not channel.confirms.is_ready
    scripted.say(recorder, BasicAck(delivery_tag=6), BasicAck(delivery_tag=5))
    assert channel.confirms.is_ready
    with pytest.raises(PublishFailed) as caught:
        channel.report()
    assert caught.value.nacked == [2, 3]
    assert [(back.reply_code, back.routing_key, back.body) for back in caught.value.returned] == [(312, "0", b"body")]
    assert "refused 2 messages" in str(caught.value)
    assert "'0': 312 NO_ROUTE" in str(caught.value)
    channel.report()


def test_confirms_have_to_be_asked_for(scripted: Scripted) -> None:
    """Waiting for confirms that cannot come is a fault of ours; getting some is one of the server's."""
    channel, recorder = scripted.channel()
    with pytest.raises(LocalProtocolError, match="confirms=True"):
        channel.report()
    scripted.say(recorder, BasicAck(delivery_tag=1))
    assert isinstance(channel.closed, ConnectionClosed)


def test_a_server_may_stop_the_flow(scripted: Scripted) -> None:
    """channel.flow is answered, and whoever publishes can wait for its end."""
    channel, recorder = scripted.channel()
    assert channel.flow.is_ready
    scripted.say(recorder, ChannelFlow(active=False))
    assert not channel.flow.is_ready
    scripted.say(recorder, ChannelFlow(active=True))
    assert channel.flow.is_ready
    assert recorder.methods == [ChannelFlowOk(active=False), ChannelFlowOk(active=True)]


# -- deliveries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [0, 1])
def test_deliveries_are_gathered_by_consumer(step: int) -> None:
    """Each consumer gets its own, in order, with all that came with them."""
    scripted = Scripted(step=step).open()
    channel, recorder = scripted.channel()
    one = consumer(scripted, channel, recorder)
    two = consumer(scripted, channel, recorder)
    for tag in range(1, 7):
        scripted.deliver(recorder, (one if tag % 3 else two).consumer_tag, tag, b"%d" % tag)
    assert [message.body for message in two.take(9)] == [b"3", b"6"]
    taken = one.take(3)
    assert [(m.delivery_tag, m.exchange, m.routing_key) for m in taken] == [
        (1, "x", "k1"),
        (2, "x", "k2"),
        (4, "x", "k4"),
    ]
    assert one.is_ready
    assert [message.delivery_tag for message in one.take(3)] == [5]
    assert not one.is_ready
    assert one.held_bytes == 0


def test_a_delivery_to_nobody_ends_the_connection(scripted: Scripted) -> None:
    """A consumer tag that is none of ours cannot be settled by anybody."""
    channel, recorder = scripted.channel()
    scripted.deliver(recorder, "unknown", 1)
    assert isinstance(channel.closed, ConnectionClosed)


def settlements(recorder: Recorder) -> list[tuple[int, bool]]:
    """Acknowledgements the server was told of since the last call: tag, multiple."""
    came = recorder.acks
    recorder.acks = []
    return came


def test_a_batch_is_acknowledged_by_one_frame(scripted: Scripted) -> None:
    """Batches that are settled in order take one multiple acknowledgement each."""
    channel, recorder = scripted.channel()
    inbox = consumer(scripted, channel, recorder)
    for tag in range(1, 11):
        scripted.deliver(recorder, inbox.consumer_tag, tag)
    first, second = inbox.take(4), inbox.take(6)
    channel.ack_all(first)
    channel.ack_all(second)
    scripted.pump()
    assert settlements(recorder) == [(4, True), (10, True)]


def test_a_batch_never_acknowledges_for_another(scripted: Scripted) -> None:
    """Out of order, or mixed with another consumer's, each message is acknowledged by itself, until order is back."""
    channel, recorder = scripted.channel()
    one = consumer(scripted, channel, recorder)
    two = consumer(scripted, channel, recorder)
    for tag, inbox in enumerate([one, one, two, two, one, one], start=1):
        scripted.deliver(recorder, inbox.consumer_tag, tag)
    channel.ack_all(two.take(9))
    scripted.pump()
    assert settlements(recorder) == [(3, False), (4, False)]
    channel.ack_all(one.take(9))
    scripted.pump()
    # Once 1 and 2 are settled, so is everything before 5.
    assert settlements(recorder) == [(2, True), (6, True)]
    scripted.deliver(recorder, one.consumer_tag, 7)
    channel.ack_all(one.take(9))
    scripted.pump()
    assert settlements(recorder) == [(7, True)]


def test_what_was_settled_by_itself_is_left_out(scripted: Scripted) -> None:
    """One message of a batch may be rejected before the rest is acknowledged, and a second acknowledgement is none."""
    channel, recorder = scripted.channel()
    inbox = consumer(scripted, channel, recorder)
    for tag in range(1, 6):
        scripted.deliver(recorder, inbox.consumer_tag, tag)
    batch = inbox.take(9)
    channel.nack(3, False, False)
    channel.ack_all(batch)
    channel.ack_all(batch)
    scripted.pump()
    assert recorder.methods[-1] == BasicNack(delivery_tag=3, requeue=False)
    assert settlements(recorder) == [(2, True), (5, True)]


def test_unacknowledged_kinds_need_no_settlement(scripted: Scripted) -> None:
    """What came with no_ack counts as settled: it neither stands in the way of a multiple one, nor is it settled."""
    channel, recorder = scripted.channel()
    quiet = consumer(scripted, channel, recorder, no_ack=True)
    inbox = consumer(scripted, channel, recorder)
    scripted.deliver(recorder, quiet.consumer_tag, 1)
    channel.ask(Request(BasicGet(queue="q", no_ack=True), BasicGetOk))
    scripted.pump()
    wire(recorder).send_content(encode_method(BasicGetOk(delivery_tag=2)), NO_PROPERTIES, b"")
    scripted.pump()
    scripted.deliver(recorder, inbox.consumer_tag, 3)
    channel.ack_all(quiet.take(9))
    channel.ack_all(inbox.take(9))
    scripted.pump()
    assert settlements(recorder) == [(3, True)]


def test_a_message_from_get_is_not_acknowledged_along(scripted: Scripted) -> None:
    """A message in somebody's hands stays there when a later batch is acknowledged."""
    channel, recorder = scripted.channel()
    inbox = consumer(scripted, channel, recorder)
    request = channel.ask(Request(BasicGet(queue="q"), BasicGetOk))
    scripted.pump()
    wire(recorder).send_content(encode_method(BasicGetOk(delivery_tag=1)), NO_PROPERTIES, b"")
    scripted.pump()
    scripted.deliver(recorder, inbox.consumer_tag, 2)
    scripted.deliver(recorder, inbox.consumer_tag, 3)
    channel.ack_all(inbox.take(9))
    scripted.pump()
    assert settlements(recorder) == [(2, False), (3, False)]
    channel.ack(request.result().method.delivery_tag, False)
    scripted.deliver(recorder, inbox.consumer_tag, 4)
    channel.ack_all(inbox.take(9))
    scripted.pump()
    assert settlements(recorder) == [(1, False), (4, True)]


def test_a_subscription_that_ends_gives_back_what_nobody_took(scripted: Scripted) -> None:
    """Messages in no batch yet return to the queue; those in a batch stay with their holder."""
    channel, recorder = scripted.channel()
    inbox = consumer(scripted, channel, recorder)
    for tag in range(1, 6):
        scripted.deliver(recorder, inbox.consumer_tag, tag)
    held = inbox.take(2)
    channel.ask(Request(BasicCancel(consumer_tag=inbox.consumer_tag), BasicCancelOk))
    scripted.pump()
    scripted.deliver(recorder, inbox.consumer_tag, 6)
    scripted.say(recorder, BasicCancelOk(consumer_tag=inbox.consumer_tag))
    channel.unsubscribed(inbox)
    scripted.pump()
    nacks = [method for method in recorder.methods if isinstance(method, BasicNack)]
    assert nacks == [BasicNack(delivery_tag=tag, requeue=True) for tag in (3, 4, 5, 6)]
    channel.ack_all(held)
    scripted.pump()
    assert settlements(recorder) == [(2, True)]


def test_a_subscription_cancelled_by_the_server_says_so(scripted: Scripted) -> None:
    """What came before is handed out first; then its end is an error with a type."""
    channel, recorder = scripted.channel()
    inbox = consumer(scripted, channel, recorder)
    scripted.deliver(recorder, inbox.consumer_tag, 1)
    scripted.say(recorder, BasicCancel(consumer_tag=inbox.consumer_tag, no_wait=False))
    assert recorder.methods[-1] == BasicCancelOk(consumer_tag=inbox.consumer_tag)
    assert len(inbox.take(9)) == 1
    assert inbox.is_ready
    with pytest.raises(ConsumerCancelled):
        inbox.take(9)
    assert channel.is_open


@pytest.mark.parametrize(("no_ack", "left"), [(True, 1), (False, 0)])
def test_what_came_before_the_end_is_handed_out_if_it_will_not_come_again(
    scripted: Scripted, no_ack: bool, left: int
) -> None:
    """Messages that need no acknowledgement would be lost with the channel; the others come again, so they go."""
    channel, recorder = scripted.channel()
    inbox = consumer(scripted, channel, recorder, no_ack=no_ack)
    scripted.deliver(recorder, inbox.consumer_tag, 1)
    scripted.session.lost(None)
    assert len(inbox.deliveries) == left
