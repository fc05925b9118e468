"""kombu's transport for AMQP, which is py-amqp."""

# ruff: noqa: ANN401 - what the client gives and takes has no types to name

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

import amqp.exceptions

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

kombu: Final[Any] = import_module("kombu")


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (amqp.exceptions.ChannelError, amqp.exceptions.ConnectionError) as error:
        raise Refused(error.reply_code, error.reply_text) from error


class KombuChannel(PeerChannel):
    def __init__(self, connection: Any, confirms: bool) -> None:
        super().__init__()
        self._connection = connection
        self._channel = connection.channel()
        self._publish = self._channel.basic_publish_confirm if confirms else self._channel.basic_publish
        self._channel.events["basic_return"].add(self._on_return)

    def _on_return(self, error: Any, exchange: str, routing_key: str, message: Any) -> None:
        self.returned.append(Returned(error.reply_code, error.reply_text, exchange, routing_key, _bytes(message.body)))

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        with _refusals():
            return getattr(self._channel, name)(*arguments, **named)

    def declare_exchange(self, name: str, type: str = "direct", *, passive: bool = False, **flags: Flag) -> None:
        self._call("exchange_declare", name, type, passive=passive, **{"auto_delete": False, **flags})

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self._call("exchange_delete", name, if_unused=if_unused)

    def declare_queue(self, name: str = "", **flags: Flag) -> Declared:
        ok = self._call("queue_declare", name, **{"auto_delete": False, **flags})
        return Declared(ok.queue, ok.message_count, ok.consumer_count)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        return int(self._call("queue_delete", name, if_unused=if_unused, if_empty=if_empty))

    def purge(self, name: str) -> int:
        return int(self._call("queue_purge", name))

    def bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None:
        self._call("queue_bind", queue, exchange, key, arguments=arguments)

    def unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None:
        self._call("queue_unbind", queue, exchange, key, arguments=arguments)

    def publish(
        self, exchange: str, key: str, body: bytes, properties: Properties | None = None, *, mandatory: bool = False
    ) -> None:
        given = dict(properties or {})
        apart = {key: given.pop(key, None) for key in ("content_type", "content_encoding", "priority", "headers")}
        message = self._channel.prepare_message(body, properties=given, **apart)
        with _refusals():
            self._publish(message, exchange, key, mandatory=mandatory)

    def get(self, queue: str, *, no_ack: bool = False) -> Message | None:
        message = self._call("basic_get", queue, no_ack)
        return _message(message) if message else None

    def consume(self, queue: str, *, no_ack: bool = False, exclusive: bool = False) -> str:
        return str(
            self._call(
                "basic_consume",
                queue,
                no_ack=no_ack,
                exclusive=exclusive,
                callback=lambda message: self.deliveries.append(_message(message)),
                on_cancel=self.cancelled.append,
            )
        )

    def cancel(self, consumer_tag: str) -> None:
        self._call("basic_cancel", consumer_tag)

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        self._call("basic_ack", tag, multiple)

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        # py-amqp can receive basic.nack, but has no method to send it.
        with _refusals():
            self._channel.send_method((60, 120), "Lbb", (tag, multiple, requeue))

    def reject(self, tag: int, *, requeue: bool) -> None:
        self._call("basic_reject", tag, requeue)

    def qos(self, count: int, *, whole_channel: bool = False) -> None:
        self._call("basic_qos", 0, count, whole_channel)

    def recover(self) -> None:
        self._call("basic_recover", requeue=True)

    def close(self) -> None:
        self._call("close")

    def wait(self, seconds: float) -> None:
        with _refusals(), suppress(TimeoutError):
            self._connection.drain_events(timeout=seconds or 0.01)


class KombuPeer(Peer):
    name = "kombu"
    # py-amqp sends bytes as it sends text.
    unknown = (bytes,)

    def __init__(self, url: str) -> None:
        self._connection = kombu.Connection(url, connect_timeout=WAIT_SECONDS)
        with _refusals():
            self._connection.connect()

    def channel(self, *, confirms: bool = False) -> KombuChannel:
        with _refusals():
            return KombuChannel(self._connection, confirms)

    def close(self) -> None:
        self._connection.release()


def _bytes(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


def _message(message: Any) -> Message:
    properties = {name: plain(value) for name, value in message.properties.items()}
    properties["headers"] = properties.pop("application_headers", {})
    info = message.delivery_info
    return Message(
        _bytes(message.body),
        properties,
        info["exchange"],
        info["routing_key"],
        bool(info["redelivered"]),
        info["delivery_tag"],
    )
