"""aio-pika as its users write it: context managers, iterators, a pattern for calls, and connections that come back."""

import asyncio
from pathlib import Path

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from tests.interop.peer import WAIT_SECONDS
from tests.servers import BrokerProcess, free_port


def test_queue_iterator(broker: BrokerProcess) -> None:
    """An iterator over a queue takes a thousand persistent messages, published at once, in order."""

    async def use() -> list[bytes]:
        connection = await aio_pika.connect_robust(broker.url)
        async with connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=50)
            queue = await channel.declare_queue(durable=True, exclusive=True)
            messages = [
                aio_pika.Message(b"%d" % number, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                for number in range(1000)
            ]
            publishing = [channel.default_exchange.publish(message, queue.name) for message in messages]
            await asyncio.gather(*publishing)
            taken = []
            async with queue.iterator(timeout=WAIT_SECONDS) as incoming:
                async for message in incoming:
                    async with message.process():
                        taken.append(message.body)
                    if len(taken) == 1000:
                        break
            return taken

    assert asyncio.run(use()) == [b"%d" % number for number in range(1000)]


def test_failed_processing(broker: BrokerProcess) -> None:
    """What a handler fails on comes again, redelivered, or is dropped, as the handler was told."""

    async def use() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(b"hard"), queue.name)
            for requeue in (True, False):
                message = await queue.get(timeout=WAIT_SECONDS)
                assert message.redelivered is not requeue
                try:
                    async with message.process(requeue=requeue):
                        raise ValueError
                except ValueError:
                    pass
            assert await queue.get(fail=False, timeout=WAIT_SECONDS) is None

    asyncio.run(use())


def test_calls(broker: BrokerProcess) -> None:
    """Requests with reply-to and correlation id, all at once, each get their own answer by an exclusive queue."""

    async def use() -> dict[str | None, bytes]:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            requests = await channel.declare_queue(exclusive=True)
            replies = await channel.declare_queue(exclusive=True)

            async def answer(request: AbstractIncomingMessage) -> None:
                async with request.process():
                    reply = aio_pika.Message(request.body.upper(), correlation_id=request.correlation_id)
                    await channel.default_exchange.publish(reply, request.reply_to or "")

            await requests.consume(answer)
            calls = [
                aio_pika.Message(b"call %d" % number, correlation_id=str(number), reply_to=replies.name)
                for number in range(50)
            ]
            await asyncio.gather(*(channel.default_exchange.publish(call, requests.name) for call in calls))
            answers: dict[str | None, bytes] = {}
            async with replies.iterator(no_ack=True, timeout=WAIT_SECONDS) as incoming:
                async for reply in incoming:
                    answers[reply.correlation_id] = reply.body
                    if len(answers) == len(calls):
                        break
            return answers

    assert asyncio.run(use()) == {str(number): b"CALL %d" % number for number in range(50)}


def test_robust_connection(tmp_path: Path) -> None:
    """A robust connection to a broker that was killed and started again finds its queue and goes on consuming."""
    port = free_port()
    with BrokerProcess(tmp_path / "data", FLINTMQ_LISTEN_PORT=str(port)) as broker:
        again = BrokerProcess(tmp_path / "data", FLINTMQ_LISTEN_PORT=str(port))

        async def use() -> list[tuple[bytes, bool | None]]:
            taken: asyncio.Queue[tuple[bytes, bool | None]] = asyncio.Queue()

            async def take(message: AbstractIncomingMessage) -> None:
                await taken.put((message.body, message.redelivered))

            connection = await aio_pika.connect_robust(broker.url, reconnect_interval=0.2)
            channel = await connection.channel()
            queue = await channel.declare_queue("robust", durable=True)
            message = aio_pika.Message(b"persistent", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "robust")
            await queue.consume(take)
            seen = [await asyncio.wait_for(taken.get(), WAIT_SECONDS)]
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(again.start)
            seen.append(await asyncio.wait_for(taken.get(), WAIT_SECONDS))
            await connection.close()
            return seen

        try:
            assert asyncio.run(use()) == [(b"persistent", False), (b"persistent", True)]
        finally:
            again.close()
