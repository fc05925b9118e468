"""How messages are delivered, limited and settled: as a client finds the server."""

from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxSelect,
    TxSelectOk,
)
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import Peer, fresh
from tests.conformance.amqp091.rules import rule


@rule("delivery-tag.channel-local")
def test_delivery_tag_channel_local(peer: Peer) -> None:
    """Another channel knows nothing of the tag: 406 there; here the message is still to be acknowledged, and can be."""
    queue = peer.queue()
    peer.ask(ChannelOpen(), ChannelOpenOk, 2)
    peer.publish(b"m", queue)
    peer.consume(queue)
    (delivery,) = peer.deliveries(1)
    peer.refused(BasicAck(delivery_tag=delivery.tag), 406, 2)
    peer.ack(delivery.tag)
    peer.sync()
    peer.send_method(1, ChannelClose(reply_code=200))
    assert peer.answer() == (1, ChannelCloseOk())
    peer.ask(ChannelOpen(), ChannelOpenOk, 1)
    assert peer.count(queue) == 0


@rule("delivery-tag.non-zero")
def test_delivery_tag_non_zero(peer: Peer) -> None:
    """Delivered or fetched, to be acknowledged or not: tags count from 1."""
    queue = peer.queue()
    tags = []
    for no_ack in (True, False):
        peer.publish(b"m", queue)
        peer.sync()
        found = peer.get(queue, no_ack=no_ack)
        assert found is not None
        tags.append(found.tag)
    for no_ack in (True, False):
        consumed = peer.queue()
        peer.publish(b"m", consumed)
        peer.consume(consumed, no_ack=no_ack)
        tags += [delivery.tag for delivery in peer.deliveries(1)]
    assert tags == [1, 2, 3, 4]


@rule("redelivered.implementation")
def test_redelivered_implementation(peer: Peer, connect: Connect) -> None:
    """A message is not acknowledged, its connection closed; the next consumer gets it with the flag set."""
    queue = peer.queue(fresh("q"), exclusive=False)
    first = connect()
    first.consume(queue)
    peer.publish(b"m", queue)
    assert [delivery.redelivered for delivery in first.deliveries(1)] == [False]
    first.send_method(0, ConnectionClose(reply_code=200))
    assert first.answer() == (0, ConnectionCloseOk())
    again = connect()
    again.consume(queue)
    (delivery,) = again.deliveries(1)
    assert (delivery.body, delivery.redelivered) == (b"m", True)
    again.ask(QueueDelete(queue=queue), QueueDeleteOk)


# -- limits -----------------------------------------------------------------------------------------------------------


@rule("basic.qos.prefetch-size.01")
def test_basic_qos_prefetch_size_01(peer: Peer) -> None:
    """1,000 bytes come although 100 are the limit; what follows waits until they are acknowledged."""
    queue = peer.queue()
    peer.prefetch(0, size=100)
    peer.consume(queue)
    for letter in (b"a", b"b"):
        peer.publish(letter * 1_000, queue)
    (first,) = peer.deliveries(1)
    assert peer.silent()
    peer.ack(first.tag)
    assert peer.bodies(1) == [b"b" * 1_000]


@rule("basic.qos.prefetch-count.01")
def test_basic_qos_prefetch_count_01(peer: Peer) -> None:
    """Three messages or 100 bytes: large ones come one by one, small ones three at a time."""
    for size, window in ((150, 1), (60, 1), (40, 2), (10, 3)):
        queue = peer.queue()
        peer.ask(ChannelOpen(), ChannelOpenOk, 2)
        peer.prefetch(3, size=100, channel=2)
        for _ in range(6):
            peer.publish(bytes(size), queue)
        peer.sync()
        peer.consume(queue, channel=2)
        left = 6
        while left:
            expected = min(window, left)
            came = peer.deliveries(expected)
            assert peer.silent(), size
            peer.ack(came[-1].tag, multiple=True, channel=2)
            left -= expected
        peer.send_method(2, ChannelClose(reply_code=200))
        assert peer.answer() == (2, ChannelCloseOk())


@rule("basic.deliver.01")
def test_basic_deliver_01(peer: Peer) -> None:
    """With a limit of two redeliveries, the third failure sends the message to the dead letters."""
    dead = peer.queue()
    queue = peer.queue(
        arguments={"x-delivery-limit": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    )
    peer.publish(b"m", queue)
    peer.prefetch(1)
    for attempt in range(3):
        # Each attempt by a channel of its own: the one that rejects need not be the one that tries next.
        peer.ask(ChannelOpen(), ChannelOpenOk, 2)
        peer.consume(queue, channel=2)
        (delivery,) = peer.deliveries(1)
        assert delivery.redelivered is (attempt > 0)
        peer.send_method(2, BasicNack(delivery_tag=delivery.tag, requeue=True), ChannelClose(reply_code=200))
        assert peer.answer() == (2, ChannelCloseOk())
    assert peer.count(queue) == 0
    assert peer.body(dead) == b"m"


# -- settling ---------------------------------------------------------------------------------------------------------


@rule("basic.ack.multiple.exists")
def test_basic_ack_multiple_exists(peer: Peer) -> None:
    """A tag from nowhere, and one that was settled, are 406, in whatever order; zero for all is fine at any time."""
    queue = peer.queue()
    peer.ack(0, multiple=True)
    peer.sync()
    for multiple in (False, True):
        peer.refused(BasicAck(delivery_tag=1, multiple=multiple), 406)
    peer.publish(b"m", queue)
    peer.sync()
    assert peer.get(queue, no_ack=False) is not None
    peer.ack(1)
    peer.refused(BasicAck(delivery_tag=1), 406)
    # Out of order, while others are outstanding on both sides of it.
    for settlement in (BasicAck(delivery_tag=2), BasicReject(delivery_tag=2, requeue=False)):
        for again in (BasicAck(delivery_tag=2), BasicAck(delivery_tag=2, multiple=True), BasicReject(delivery_tag=2)):
            for _ in range(3):
                peer.publish(b"m", queue)
            peer.sync()
            for _ in range(3):
                assert peer.get(queue, no_ack=False) is not None
            peer.send_method(1, settlement)
            peer.refused(again, 406)
            assert peer.ask(QueuePurge(queue=queue), QueuePurgeOk).message_count == 2
    # At once, and not when it is committed.
    peer.ask(TxSelect(), TxSelectOk)
    peer.refused(BasicAck(delivery_tag=1), 406)


@rule("basic.qos.prefetch-count.no-ack")
def test_basic_qos_prefetch_count_no_ack(peer: Peer) -> None:
    """A consumer without acknowledgements gets all there is beside one with them, which gets its one."""
    free, held = peer.queue(), peer.queue()
    peer.prefetch(1)
    peer.consume(held)
    peer.consume(free, no_ack=True)
    # Taken in together, the others could come first, while the window is empty.
    peer.publish(b"held", held)
    assert [content.body for content in peer.deliveries(1)] == [b"held"]
    for number in range(50):
        peer.publish(bytes([number]), free)
        peer.publish(b"held", held)
    peer.sync()
    assert [content.body for content in peer.delivered] == [bytes([number]) for number in range(50)]


@rule("basic.qos.prefetch-size.no-ack")
def test_basic_qos_prefetch_size_no_ack(peer: Peer) -> None:
    """The same for a window of bytes."""
    free, held = peer.queue(), peer.queue()
    peer.prefetch(0, size=100)
    peer.consume(held)
    peer.consume(free, no_ack=True)
    # Taken in together, the others could come first, while the window is empty: a single body always fits.
    peer.publish(b"held" * 15, held)
    assert [content.body for content in peer.deliveries(1)] == [b"held" * 15]
    for number in range(50):
        peer.publish(bytes([number]) * 60, free)
        peer.publish(b"held" * 15, held)
    peer.sync()
    assert [content.body for content in peer.delivered] == [bytes([number]) * 60 for number in range(50)]


@rule("basic.get-ok.acknowledged")
def test_basic_get_ok_acknowledged(peer: Peer) -> None:
    """Without no-ack a message comes again with the end of its channel, unless it was acknowledged; with it never.

    It comes before younger ones, in its old order.
    """
    queue = peer.queue()
    for body in (b"kept", b"acknowledged", b"kept, too", b"no-ack", b"younger"):
        peer.publish(body, queue)
    peer.sync()
    assert peer.get(queue, no_ack=False) is not None
    acknowledged = peer.get(queue, no_ack=False)
    assert acknowledged is not None
    assert peer.get(queue, no_ack=False) is not None
    assert peer.body(queue) == b"no-ack"
    peer.ack(acknowledged.tag)
    peer.send_method(1, ChannelClose(reply_code=200))
    assert peer.answer() == (1, ChannelCloseOk())
    peer.ask(ChannelOpen(), ChannelOpenOk)
    assert [peer.body(queue) for _ in range(4)] == [b"kept", b"kept, too", b"younger", None]


@rule("basic.reject.01")
def test_basic_reject_01(peer: Peer, connect: Connect) -> None:
    """A client that reads nothing has 4 MB and more on their way to it; it rejects, and another gets the message."""
    queue = peer.queue(fresh("q"), exclusive=False, auto_delete=True)
    keeper = connect()
    slow = connect()
    slow.prefetch(200)
    slow.consume(queue)
    peer.publish(b"first", queue)
    (first,) = slow.deliveries(1)
    for _ in range(200):
        peer.publish(bytes(100_000), queue)
    # The server has more to send than the sockets hold, and the client does not read it.
    peer.sync()
    waiting = peer.count(queue)
    assert 0 < waiting <= 160
    slow.send_method(1, BasicReject(delivery_tag=first.tag, requeue=True))
    keeper.prefetch(1)
    keeper.consume(queue)
    (delivery,) = keeper.deliveries(1)
    assert (delivery.body, delivery.redelivered) == (first.body, True)


@rule("basic.reject.02")
def test_basic_reject_02(peer: Peer, connect: Connect) -> None:
    """It was not able to process it now: the message is on the queue, and another gets it."""
    queue = peer.queue(fresh("q"), exclusive=False, auto_delete=True)
    peer.publish(b"m", queue)
    peer.consume(queue)
    (delivery,) = peer.deliveries(1)
    other = connect()
    other.consume(queue)
    peer.send_method(1, BasicReject(delivery_tag=delivery.tag, requeue=True))
    (again,) = other.deliveries(1)
    assert (again.body, again.redelivered) == (b"m", True)
    other.ack(again.tag)


@rule("basic.reject.requeue.01")
def test_basic_reject_requeue_01(peer: Peer, connect: Connect, strict: bool) -> None:
    """It goes to another while there is one. When there is none, it waits in strict, and returns in rabbitmq."""
    queue = peer.queue(fresh("q"), exclusive=False)
    other = connect()
    peer.consume(queue)
    peer.publish(b"m", queue)
    (delivery,) = peer.deliveries(1)
    other.consume(queue)
    peer.send_method(1, BasicReject(delivery_tag=delivery.tag, requeue=True))
    (delivery,) = other.deliveries(1)
    assert peer.silent()
    other.ack(delivery.tag)
    other.sync()
    other.close()
    # Alone now.
    peer.sync()
    peer.publish(b"n", queue)
    (delivery,) = peer.deliveries(1)
    peer.send_method(1, BasicReject(delivery_tag=delivery.tag, requeue=True))
    if not strict:
        assert peer.bodies(1) == [b"n"]
        return
    assert peer.silent()
    assert peer.count(queue) == 1
    # Others pass it by.
    peer.publish(b"o", queue)
    assert peer.bodies(1) == [b"o"]
    assert peer.get(queue) is None
    late = connect()
    late.consume(queue)
    assert late.bodies(1) == [b"n"]


@rule("basic.recover-async.01")
def test_basic_recover_async_01(peer: Peer) -> None:
    """All three come again with the flag set, to whom they came before or not."""
    _recovers(peer, asynchronous=True)


@rule("basic.recover.01")
def test_basic_recover_01(peer: Peer) -> None:
    """All three come again with the flag set, to whom they came before or not."""
    _recovers(peer, asynchronous=False)


def _recovers(peer: Peer, asynchronous: bool) -> None:
    queue = peer.queue()
    first = peer.consume(queue)
    for number in range(3):
        peer.publish(bytes([number]), queue)
    came = peer.deliveries(3)
    assert [delivery.redelivered for delivery in came] == [False] * 3
    # Another who could take them; but without requeue they are for whom they were.
    second = peer.consume(queue)
    for requeue, tags in ((False, {first}), (True, {first, second})):
        if asynchronous:
            peer.send_method(1, BasicRecoverAsync(requeue=requeue))
        else:
            peer.ask(BasicRecover(requeue=requeue), BasicRecoverOk)
        came = peer.deliveries(3)
        assert [delivery.redelivered for delivery in came] == [True] * 3
        assert {delivery.delivery.consumer_tag for delivery in came} <= tags
        assert [delivery.body for delivery in came] == [b"\0", b"\1", b"\2"]
    # What was acknowledged does not.
    peer.ack(came[1].tag)
    peer.send_method(1, BasicRecoverAsync(requeue=True))
    assert peer.bodies(2) == [b"\0", b"\2"]
    assert peer.silent()
