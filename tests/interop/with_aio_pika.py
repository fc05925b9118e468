"""aio-pika, on an event loop that runs while a method of ours does."""

# ruff: noqa: ANN401 - what the client gives and takes has no types to name

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import aio_pika
import aiormq
from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractIncomingMessage, AbstractQueue

from tests.interop.peer import (
    WAIT_SECONDS,
    Arguments,
    Declared,
    Flag,
    Message,
    Peer,
    PeerChannel,
    Properties,
    Refused,
    Returned,
    plain,
)

T = TypeVar("T")

# aiormq names most of its errors instead of keeping the code.
_CODES: Final[dict[type[Exception], int]] = {
    aiormq.exceptions.ProbableAuthenticationError: 403,
    aiormq.exceptions.ChannelAccessRefused: 403,
    aiormq.exceptions.ChannelNotFoundEntity: 404,
    aiormq.exceptions.ChannelLockedResource: 405,
    aiormq.exceptions.ChannelPreconditionFailed: 406,
    aiormq.exceptions.ConnectionCommandInvalid: 503,
    aiormq.exceptions.ConnectionNotAllowed: 530,
    aiormq.exceptions.ConnectionNotImplemented: 540,
}
_NAMED: Final = ("content_type", "content_encoding", "priority", "correlation_id", "reply_to", "message_id")


def _as_refused(error: BaseException) -> Refused | None:
    code = _CODES.get(type(error))  # type: ignore[arg-type]
    if code is not None:
        return Refused(code, str(error.args[0]))
    if isinstance(error, aiormq.exceptions.ConnectionClosed | aiormq.exceptions.ChannelClosed) and len(error.args) > 1:
        return Refused(*error.args[:2])
    return None


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except aiormq.exceptions.AMQPError as error:
        refused = _as_refused(error)
        if refused is None:
            raise
        raise refused from error


class AioPikaChannel(PeerChannel):
    def __init__(self, loop: asyncio.AbstractEventLoop, channel: AbstractChannel) -> None:
        super().__init__()
        self._loop = loop
        self._channel = channel
        self._came = asyncio.Event()
        self._held: dict[int, AbstractIncomingMessage] = {}
        self._queues: dict[str, AbstractQueue] = {}
        self._closed: BaseException | None = None
        channel.close_callbacks.add(self._on_close)
        underlay: Any = loop.run_until_complete(channel.get_underlay_channel())
        underlay.on_consumer_cancel_callbacks.add(self._on_cancel)

    def _on_close(self, _: object, error: BaseException | None) -> None:
        self._closed = error

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            with _refusals():
                return self._loop.run_until_complete(asyncio.wait_for(work, WAIT_SECONDS))
        except aiormq.exceptions.ChannelInvalidStateError:
            # The channel was closed before: why, its callback was told.
            refused = _as_refused(self._closed) if self._closed else None
            if refused is None:
                raise
            raise refused from None

    def _exchange(self, name: str) -> AbstractExchange:
        if name == "":
            return self._channel.default_exchange
        return self._run(self._channel.get_exchange(name, ensure=False))

    def _queue(self, name: str) -> AbstractQueue:
        return self._run(self._channel.get_queue(name, ensure=False))

    def declare_exchange(self, name: str, type: str = "direct", *, passive: bool = False, **flags: Flag) -> None:
        given: dict[str, Any] = dict(flags)
        self._run(self._channel.declare_exchange(name, type, passive=passive, **given))

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self._run(self._channel.exchange_delete(name, if_unused=if_unused))

    def declare_queue(self, name: str = "", **flags: Flag) -> Declared:
        given: dict[str, Any] = dict(flags)
        ok = self._run(self._channel.declare_queue(name, **given)).declaration_result
        assert ok.queue is not None
        assert ok.message_count is not None
        assert ok.consumer_count is not None
        return Declared(ok.queue, ok.message_count, ok.consumer_count)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        deleted = self._run(self._channel.queue_delete(name, if_unused=if_unused, if_empty=if_empty))
        return deleted.message_count or 0

    def purge(self, name: str) -> int:
        return self._run(self._queue(name).purge()).message_count or 0

    def bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None:
        self._run(self._queue(queue).bind(exchange, key, arguments=arguments))

    def unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None:
        self._run(self._queue(queue).unbind(exchange, key, arguments=arguments))

    def publish(
        self, exchange: str, key: str, body: bytes, properties: Properties | None = None, *, mandatory: bool = False
    ) -> None:
        given = dict(properties or {})
        if "expiration" in given:
            # Seconds here, milliseconds in the protocol.
            given["expiration"] = int(given["expiration"]) / 1000
        given["headers"] = _sendable(given.get("headers", {}))
        message = aio_pika.Message(body, **given)
        try:
            self._run(self._exchange(exchange).publish(message, key, mandatory=mandatory))
        except aiormq.exceptions.PublishError as error:
            back: Any = error.message
            why = back.delivery
            self.returned.append(Returned(why.reply_code, why.reply_text, why.exchange, why.routing_key, back.body))

    def get(self, queue: str, *, no_ack: bool = False) -> Message | None:
        message = self._run(self._queue(queue).get(no_ack=no_ack, fail=False, timeout=WAIT_SECONDS))
        return self._took(message) if message else None

    def consume(self, queue: str, *, no_ack: bool = False, exclusive: bool = False) -> str:
        subscribed = self._queue(queue)
        tag = self._run(subscribed.consume(self._on_message, no_ack=no_ack, exclusive=exclusive))
        self._queues[tag] = subscribed
        return tag

    async def _on_message(self, message: AbstractIncomingMessage) -> None:
        self.deliveries.append(self._took(message))
        self._came.set()

    def _on_cancel(self, cancel: Any) -> None:
        self.cancelled.append(cancel.consumer_tag)
        self._came.set()

    def _took(self, message: AbstractIncomingMessage) -> Message:
        tag = message.delivery_tag
        assert tag is not None
        self._held[tag] = message
        return Message(
            message.body,
            _properties(message),
            message.exchange or "",
            message.routing_key or "",
            bool(message.redelivered),
            tag,
        )

    def cancel(self, consumer_tag: str) -> None:
        self._run(self._queues[consumer_tag].cancel(consumer_tag))

    async def _underlay(self, method: str, *arguments: Any, **named: Any) -> None:
        await getattr(await self._channel.get_underlay_channel(), method)(*arguments, **named)

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        held = self._held.get(tag)
        self._run(held.ack(multiple) if held else self._underlay("basic_ack", tag, multiple))

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._run(self._held[tag].nack(multiple, requeue))

    def reject(self, tag: int, *, requeue: bool) -> None:
        self._run(self._held[tag].reject(requeue))

    def qos(self, count: int, *, whole_channel: bool = False) -> None:
        self._run(self._channel.set_qos(count, global_=whole_channel))

    def recover(self) -> None:
        self._run(self._underlay("basic_recover", requeue=True))

    def close(self) -> None:
        self._run(self._closing())

    async def _closing(self) -> None:
        await self._channel.close()

    def wait(self, seconds: float) -> None:
        self._loop.run_until_complete(_round_robin())
        if seconds and not self.deliveries and not self.cancelled:
            self._came.clear()
            self._loop.run_until_complete(asyncio.wait([self._loop.create_task(self._came.wait())], timeout=seconds))


class AioPikaPeer(Peer):
    name = "aio-pika"

    def __init__(self, url: str) -> None:
        self._loop = asyncio.new_event_loop()
        try:
            with _refusals():
                self._connection = self._loop.run_until_complete(aio_pika.connect(url, timeout=WAIT_SECONDS))
        except BaseException:
            self._loop.close()
            raise

    def channel(self, *, confirms: bool = False) -> AioPikaChannel:
        with _refusals():
            return AioPikaChannel(self._loop, self._loop.run_until_complete(self._open(confirms)))

    async def _open(self, confirms: bool) -> AbstractChannel:
        channel = self._connection.channel(publisher_confirms=confirms, on_return_raises=confirms)
        await channel.initialize(WAIT_SECONDS)
        return channel

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._loop.run_until_complete(self._connection.close())
        # What the client left to be done, such as closing callbacks.
        for task in (pending := asyncio.all_tasks(self._loop)):
            task.cancel()
        if pending:
            self._loop.run_until_complete(asyncio.wait(pending))
        self._loop.close()


async def _round_robin() -> None:
    """Callbacks are tasks of their own, which take a few turns of the loop, however long those are."""
    for _ in range(50):
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)


def _sendable(value: Any) -> Any:
    """aio-pika sends bytes only as bytearray."""
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, dict):
        return {key: _sendable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sendable(item) for item in value]
    return value


def _properties(message: AbstractIncomingMessage) -> Properties:
    properties: Properties = {name: getattr(message, name) for name in (*_NAMED, "type", "user_id", "app_id")}
    properties["headers"] = plain(message.headers)
    properties["delivery_mode"] = int(message.delivery_mode)
    if message.expiration is not None:
        assert isinstance(message.expiration, float | int)
        properties["expiration"] = str(round(message.expiration * 1000))
    if message.timestamp is not None:
        assert isinstance(message.timestamp, datetime)
        properties["timestamp"] = int(message.timestamp.replace(tzinfo=UTC).timestamp())
    return properties
