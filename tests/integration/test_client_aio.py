"""The asyncio client where it is more than the blocking one awaited: tasks share it, are cancelled, or are slow."""

import asyncio

import pytest

import flintmq.client as fc
from tests.servers import BrokerProcess


def test_tasks_share_a_connection(broker: BrokerProcess) -> None:
    """Each with its channel: publishing, consuming, declaring, all at once, and everybody gets their own."""

    async def one(connection: fc.aio.Connection, number: int) -> list[bytes]:
        async with await connection.channel(confirms=True) as channel:
            name = (await channel.declare_queue(exclusive=True)).name
            await channel.publish_batch(("", name, b"%d" % number) for _ in range(200))
            came: list[bytes] = []
            async for batch in channel.consume(name, prefetch=50, batch_size=20, timeout=60):
                came += [message.body for message in batch.messages]
                await batch.ack()
                if len(came) == 200:
                    break
            return came

    async def main() -> None:
        async with await fc.aio.connect(broker.url) as connection:
            results = await asyncio.gather(*(one(connection, number) for number in range(20)))
        assert results == [[b"%d" % number] * 200 for number in range(20)]

    asyncio.run(main())


def test_a_cancelled_call_takes_nobodys_answer(broker: BrokerProcess) -> None:
    """The answer to a request that nobody waits for any more is not the next one's."""

    async def main() -> None:
        async with await fc.aio.connect(broker.url) as connection:
            channel = await connection.channel()
            name = (await channel.declare_queue(exclusive=True)).name
            task = asyncio.create_task(channel.purge_queue(name))
            await asyncio.sleep(0)
            task.cancel()
            assert (await channel.declare_queue(name, passive=True)).name == name
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())


def test_a_busy_publisher_leaves_others_their_turn(broker: BrokerProcess) -> None:
    """A task that only publishes, one by one or in a batch, does not keep the loop for itself."""

    async def main() -> None:
        async with await fc.aio.connect(broker.url) as connection:
            channel = await connection.channel(confirms=True)
            name = (await channel.declare_queue(exclusive=True)).name
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            for _ in range(3000):
                await channel.publish(bytes(1000), routing_key=name)
            assert turns > 5
            turns = 0
            await channel.wait_for_confirms()
            turns = 0
            await channel.publish_batch([("", name, bytes(1000))] * 3000)
            assert turns > 5
            task.cancel()

    asyncio.run(main())


def test_publishes_of_other_tasks_are_not_part_of_a_batch(broker: BrokerProcess) -> None:
    """One channel, several tasks: each batch has its own count, its own positions, its own returns."""

    async def main() -> None:
        async with await fc.aio.connect(broker.url) as connection:
            channel = await connection.channel(confirms=True)
            name = (await channel.declare_queue(exclusive=True)).name
            lost = [fc.Publish("", "nowhere", b"%d" % n, mandatory=True) for n in range(3)]
            results = await asyncio.gather(
                channel.publish_batch([("", name, bytes(100))] * 10_000),
                channel.publish(b"alone", routing_key=name),
                channel.publish_batch(lost),
                channel.publish_batch([("", name, bytes(100))] * 10_000),
                return_exceptions=True,
            )
            assert results[:2] == [10_000, None]
            assert isinstance(results[2], fc.PublishFailed)
            assert [back.body for back in results[2].returned] == [b"0", b"1", b"2"]
            assert results[3] == 10_000

    asyncio.run(main())


def test_breaking_out_of_a_subscription_ends_it(broker: BrokerProcess) -> None:
    """What was prefetched is back on the queue soon after the loop was left."""

    async def main() -> None:
        async with await fc.aio.connect(broker.url) as connection:
            channel = await connection.channel(confirms=True)
            name = (await channel.declare_queue(exclusive=True)).name
            await channel.publish_batch([("", name, b"x")] * 100)
            async for batch in channel.consume(name, batch_size=10):
                await batch.ack()
                break
            info = await channel.declare_queue(name, passive=True)
            while info.consumer_count:
                await asyncio.sleep(0.01)
                info = await channel.declare_queue(name, passive=True)
            assert info.message_count >= 90

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_slow_consumer_stops_the_reading_and_nothing_else(broker: BrokerProcess) -> None:
    """Deliveries that nobody takes stay with the server beyond a bound, and requests are answered all the same."""
    size, count = 100_000, 600

    async def main() -> None:
        async with await fc.aio.connect(broker.url) as publisher, await fc.aio.connect(broker.url) as connection:
            channel = await publisher.channel(confirms=True)
            name = (await channel.declare_queue(durable=False)).name
            await channel.publish_batch([("", name, bytes(size))] * count)
            consumer = await connection.channel()
            subscription = aiter(consumer.consume(name, no_ack=True, batch_size=1, timeout=60))
            seen = len((await anext(subscription)).messages)
            before = -1
            while (left := (await channel.declare_queue(name, passive=True)).message_count) != before:
                before = left
                await asyncio.sleep(0.3)
            assert left > 0
            assert (await consumer.declare_queue(exclusive=True)).name
            async for batch in subscription:
                seen += len(batch.messages)
                if seen == count:
                    break
            assert seen == count
            await channel.delete_queue(name)

    asyncio.run(main())


def test_tasks_that_publish_ahead_take_turns(broker: BrokerProcess) -> None:
    """Batches that several tasks send ahead on one channel are all confirmed, and none gets an error of another one."""

    async def main() -> None:
        async with await fc.aio.connect(broker.url) as connection:
            channel = await connection.channel(confirms=True)
            name = (await channel.declare_queue(exclusive=True)).name
            await asyncio.gather(*(channel.publish_ahead([("", name, bytes(100))] * 5_000) for _ in range(5)))
            assert await channel.publish_batch([("", name, b"last")]) == 1
            assert channel.confirmed == channel.published == 25_001
            assert (await channel.declare_queue(name, passive=True)).message_count == 25_001

    asyncio.run(main())


def test_process_raises_what_ended_the_connection(broker: BrokerProcess) -> None:
    """process waits for its time while the connection lives, and raises when it has ended."""

    async def main() -> None:
        connection = await fc.aio.connect(broker.url)
        await connection.process(0.1)
        await connection.process()
        await connection.close()
        with pytest.raises(fc.ConnectionClosed):
            await connection.process()

    asyncio.run(main())
