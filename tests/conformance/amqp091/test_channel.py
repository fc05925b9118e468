"""channel.*: as a client finds the server."""

from flintmq.wire.amqp091.methods import (
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    QueueDeclare,
    QueueDelete,
)
from tests.conformance.amqp091.conftest import Connect
from tests.conformance.amqp091.peer import Peer, fresh
from tests.conformance.amqp091.rules import rule
from tests.conformance.brokers import Broker, MemoryBroker


@rule("channel.open.state")
def test_channel_open_state(connect: Connect) -> None:
    """Opening what is open is a fault of the channel: 504."""
    connect().ended(ChannelOpen(), 504)


@rule("channel.flow.initial-state")
def test_channel_flow_initial_state(peer: Peer) -> None:
    """Messages flow on a new channel; once it is paused they wait, until it is resumed."""
    queue = peer.queue()
    peer.consume(queue)
    peer.publish(b"one", queue)
    assert peer.bodies(1) == [b"one"]
    assert peer.ask(ChannelFlow(active=False), ChannelFlowOk).active is False
    peer.publish(b"two", queue)
    assert peer.silent()
    assert peer.ask(ChannelFlow(active=True), ChannelFlowOk).active is True
    assert peer.bodies(1) == [b"two"]


@rule("channel.flow.bidirectional")
def test_channel_flow_bidirectional(peer: Peer, connect: Connect) -> None:
    """While the server sends more than its client has read, flow is heard: most of the messages stay in the queue."""
    queue = peer.queue(exclusive=False, auto_delete=True)
    publisher = connect()
    publisher.confirms()
    count, size = 200, 100_000
    for _ in range(count):
        publisher.publish(bytes(size), queue)
    publisher.confirmed(count)
    peer.consume(queue, no_ack=True)
    # Sent, and answered in its turn behind what was on its way by then.
    assert peer.ask(ChannelFlow(active=False), ChannelFlowOk).active is False
    came = len(peer.deliveries(len(peer.delivered)))
    assert peer.silent()
    assert came < count
    assert publisher.count(queue) == count - came
    peer.ask(ChannelFlow(active=True), ChannelFlowOk)
    peer.deliveries(count - came)


@rule("channel.close.stability")
def test_channel_close_stability(peer: Peer) -> None:
    """The server has sent close: what comes on this channel is thrown away, but for a close, which is answered."""
    victim = peer.queue(fresh("victim"))
    peer.send_method(1, QueueDeclare(queue="nowhere", passive=True))
    peer.send_method(1, QueueDelete(queue=victim), BasicQos(prefetch_count=1))
    _, close = peer.answer()
    assert isinstance(close, ChannelClose)
    peer.send_method(1, QueueDelete(queue=victim), ChannelClose(reply_code=200))
    assert peer.answer() == (1, ChannelCloseOk())
    peer.send_method(1, ChannelCloseOk())
    # Other channels, and this one in its next life, are as they should be.
    peer.ask(ChannelOpen(), ChannelOpenOk, 2)
    peer.ask(ChannelOpen(), ChannelOpenOk, 1)
    peer.ask(BasicQos(), BasicQosOk, 1)
    assert peer.count(victim) == 0


@rule("channel.close-ok.reporting")
def test_channel_close_ok_reporting(broker: Broker, peer: Peer) -> None:
    """A client that hangs up instead of agreeing to a close is in the log, as is why the channel was closed."""
    peer.send_method(1, QueueDeclare(queue="nowhere", passive=True))
    _, close = peer.answer()
    assert isinstance(close, ChannelClose)
    peer.close()
    closed = broker.wait_for_log("channel closed", peer=peer.name, channel=1)
    assert "no queue 'nowhere'" in closed["reason"]
    assert broker.wait_for_log("connection ended", peer=peer.name)["level"] == "warning"


@rule("channel.flow.throttling")
def test_channel_flow_throttling(full_disk: MemoryBroker, strict: bool) -> None:
    """Where a publisher cannot be told that it is blocked, it is paused by flow; who does not publish is not."""
    hears = {} if strict else {"connection.blocked": True}
    with Peer(full_disk.connect(), **hears) as other, Peer(full_disk.connect(), **hears) as publisher:
        other.start()
        publisher.start().publish(b"m", "nowhere")
        if strict:
            assert publisher.waits(ChannelFlow).active is False
        else:
            assert publisher.waits(ConnectionBlocked).reason == "low on disk"
        assert not publisher.aside
        other.sync()
        assert not other.aside


@rule("channel.flow.expected-behaviour")
def test_channel_flow_expected_behaviour(full_disk: MemoryBroker, strict: bool) -> None:
    """Who goes on publishing is not cut off, but it is not heard either: nothing gets in."""
    hears = {} if strict else {"connection.blocked": True}
    with Peer(full_disk.connect()) as other, Peer(full_disk.connect(), **hears) as publisher:
        queue = other.start().queue(fresh("q"), exclusive=False, auto_delete=True)
        publisher.start().publish(b"m", queue)
        if strict:
            publisher.waits(ChannelFlow)
            publisher.send_method(1, ChannelFlowOk(active=False))
        else:
            publisher.waits(ConnectionBlocked)
        for _ in range(10):
            publisher.publish(b"m", queue)
        other.sync()
        assert other.count(queue) == 0
