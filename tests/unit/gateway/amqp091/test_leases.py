"""lease.* as the server answers it: once it is durable, to whom it belongs, and with what was leased."""

from flintmq.wire.amqp091.chunk import ChunkRecord, decode_chunk
from flintmq.wire.amqp091.methods import (
    LeaseExtend,
    LeaseExtendOk,
    LeaseFetch,
    LeaseFetchOk,
    LeaseOpen,
    LeaseOpenOk,
    LeaseQuery,
    LeaseQueryOk,
    LeaseRelease,
    LeaseReleaseOk,
    LeaseSettle,
    LeaseSettleOk,
    QueueDeclare,
)
from tests.unit.gateway.amqp091.pair import PERSISTENT, Client, ClientChannel, Server

HIGHEST = 2**64 - 1


def leased(client: Client, published: int, count: int) -> tuple[ClientChannel, int]:
    """A channel, and the epoch by which it has leased so many of so many messages."""
    channel = client.channel()
    channel.call(QueueDeclare(queue="q", durable=True))
    for number in range(published):
        channel.publish(f"{number}", "q", properties=PERSISTENT)
    (opened,) = channel.call(LeaseOpen(queue="q", consumer="c"))
    assert isinstance(opened, LeaseOpenOk)
    channel.call(LeaseExtend(queue="q", consumer="c", epoch=opened.epoch, max_messages=count))
    return channel, opened.epoch


def fetched(channel: ClientChannel) -> list[ChunkRecord]:
    return [record for _, _, body in channel._recorder.contents for record in decode_chunk(body)]


def test_answers_wait_for_the_disk() -> None:
    """Whoever hears of a range, or that it is settled, can rely on it; also where there was nothing new to write."""
    client = Client(Server())
    channel, epoch = leased(client, 3, 1)
    channel._recorder.methods.clear()
    for sent, expected in (
        (LeaseOpen(queue="q", consumer="c", epoch=epoch), LeaseOpenOk(epoch=epoch, first=0, next=1)),
        (
            LeaseExtend(queue="q", consumer="c", epoch=epoch, max_messages=HIGHEST, max_bytes=HIGHEST),
            LeaseExtendOk(first=0, next=3, ready=0, size=2),
        ),
        (LeaseExtend(queue="q", consumer="c", epoch=epoch), LeaseExtendOk(first=0, next=3, ready=0)),
        (LeaseSettle(queue="q", consumer="c", epoch=epoch, up_to=2), LeaseSettleOk()),
        (LeaseRelease(queue="q", consumer="c", epoch=epoch), LeaseReleaseOk(message_count=1)),
    ):
        channel.send(sent)
        client.tick()
        assert channel._recorder.methods == []
        client.durable()
        assert channel._recorder.methods == [expected]
        channel._recorder.methods.clear()


def test_anybody_may_fetch() -> None:
    """Over any connection and as often as need be, by ranges, without the epoch; empty where nothing is leased."""
    server = Server()
    leased(Client(server), 5, 4)
    other = Client(server)
    channel = other.channel()
    channel.send(
        LeaseFetch(queue="q", consumer="c", offset=1, end_offset=3),
        LeaseFetch(queue="q", consumer="c", offset=2, end_offset=HIGHEST),
        LeaseFetch(queue="q", consumer="c", offset=4, end_offset=9),
        LeaseFetch(queue="q", consumer="c", offset=0, end_offset=4, max_bytes=1),
    )
    other.tick()
    other.durable()
    assert [method for method, _, _ in channel.contents] == [
        LeaseFetchOk(first_offset=1, next_offset=3, record_count=2),
        LeaseFetchOk(first_offset=2, next_offset=4, record_count=2),
        LeaseFetchOk(first_offset=4, next_offset=4, record_count=0),
        LeaseFetchOk(first_offset=0, next_offset=1, record_count=1),
    ]
    records = fetched(channel)
    assert [(record.offset, record.body) for record in records] == [
        (1, b"1"),
        (2, b"2"),
        (2, b"2"),
        (3, b"3"),
        (0, b"0"),
    ]
    assert {(record.exchange, record.routing_key, record.properties, record.redelivered) for record in records} == {
        ("", "q", PERSISTENT, False)
    }


def test_that_something_was_fetched_is_on_the_disk() -> None:
    """Whoever got the first of what is not settled can rely on that being known; later fetches do not wait."""
    server = Server()
    client = Client(server)
    channel, epoch = leased(client, 5, 5)
    (before,) = channel.call(LeaseQuery(queue="q", consumer="c"))
    assert before == LeaseQueryOk(epoch=epoch, first=0, next=5, ready=0, fetched=0)
    for offset, end in ((2, 3), (0, 1)):
        channel.send(LeaseFetch(queue="q", consumer="c", offset=offset, end_offset=end))
        client.tick()
        assert len(channel.contents) == (0 if end == 3 else 2)
        client.durable()
    (after,) = channel.call(LeaseQuery(queue="q", consumer="c"))
    assert after == LeaseQueryOk(epoch=epoch, first=0, next=5, ready=0, fetched=3)


def test_what_is_settled_cannot_be_fetched() -> None:
    """A reader that is behind must hear of it, and not get a part of what it asked for."""
    client = Client(Server())
    channel, epoch = leased(client, 3, 3)
    channel.call(LeaseSettle(queue="q", consumer="c", epoch=epoch, up_to=2))
    channel.call(LeaseFetch(queue="q", consumer="c", offset=1, end_offset=3))
    assert "406 PRECONDITION_FAILED - position 1 of the lease 'c' of queue 'q' in vhost '/' is settled" in str(
        channel.closed
    )


def test_an_old_epoch_costs_the_channel() -> None:
    """The text says what happened."""
    client = Client(Server())
    channel, epoch = leased(client, 1, 1)
    channel.call(LeaseOpen(queue="q", consumer="c"))
    channel.call(LeaseSettle(queue="q", consumer="c", epoch=epoch, up_to=1))
    assert str(channel.closed) == (
        "406 PRECONDITION_FAILED - the lease 'c' of queue 'q' in vhost '/' has been taken over by another reader with "
        "the same consumer name"
    )


def test_the_queue_of_somebody_else() -> None:
    """An exclusive queue is leased by its own connection only, and a lease that is not there is 404."""
    server = Server()
    Client(server).channel().call(QueueDeclare(queue="mine", exclusive=True))
    client = Client(server)
    channel = client.channel()
    channel.call(LeaseOpen(queue="mine", consumer="c"))
    assert "405 RESOURCE_LOCKED" in str(channel.closed)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"), LeaseFetch(queue="q", consumer="c"))
    assert "404 NOT_FOUND - no lease 'c' of queue 'q' in vhost '/'" in str(channel.closed)


def test_nothing_is_leased_once_the_storage_has_failed() -> None:
    """What cannot become durable is refused; what was leased can still be read."""
    server = Server()
    client = Client(server)
    _, epoch = leased(client, 2, 1)
    server.gateway.failure = "no disk"
    for method in (
        LeaseOpen(queue="q", consumer="c"),
        LeaseExtend(queue="q", consumer="c", epoch=epoch, max_messages=1),
        LeaseSettle(queue="q", consumer="c", epoch=epoch, up_to=1),
        LeaseRelease(queue="q", consumer="c", epoch=epoch),
    ):
        channel = Client(server).channel()
        channel.send(method)
        channel._client.tick()
        assert "506 RESOURCE_ERROR - nothing durable can be stored: no disk" in str(channel.closed)
    channel = Client(server).channel()
    channel.send(LeaseFetch(queue="q", consumer="c", end_offset=1))
    channel._client.tick()
    assert [record.body for record in fetched(channel)] == [b"0"]
