"""pika's blocking connection."""

# ruff: noqa: ANN401 - what the client gives and takes has no types to name

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pika
import pika.exceptions

from tests.interop.peer import (
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

# pika takes a close during the login for what it probably means, and keeps only the text of it.
_PROBABLE: Final = (pika.exceptions.ProbableAuthenticationError, pika.exceptions.ProbableAccessDeniedError)
_CLOSED: Final = re.compile(r"ConnectionClosedByBroker: \((\d+)\) (.*)", re.DOTALL)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker) as error:
        raise Refused(error.reply_code, error.reply_text) from error
    except _PROBABLE as error:
        if found := _CLOSED.search(str(error)):
            raise Refused(int(found[1]), found[2]) from error
        raise


class PikaChannel(PeerChannel):
    def __init__(self, connection: Any, confirms: bool) -> None:
        super().__init__()
        self._connection = connection
        self._channel = connection.channel()
        self._channel.add_on_cancel_callback(lambda frame: self.cancelled.append(frame.method.consumer_tag))
        self._channel.add_on_return_callback(self._on_return)
        if confirms:
            self._channel.confirm_delivery()

    def _on_return(self, _: Any, method: Any, __: Any, body: bytes) -> None:
        self.returned.append(Returned(method.reply_code, method.reply_text, method.exchange, method.routing_key, body))

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        with _refusals():
            return getattr(self._channel, name)(*arguments, **named)

    def declare_exchange(self, name: str, type: str = "direct", *, passive: bool = False, **flags: Flag) -> None:
        self._call("exchange_declare", name, type, passive=passive, **flags)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self._call("exchange_delete", name, if_unused=if_unused)

    def declare_queue(self, name: str = "", **flags: Flag) -> Declared:
        ok = self._call("queue_declare", name, **flags).method
        return Declared(ok.queue, ok.message_count, ok.consumer_count)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        return int(self._call("queue_delete", name, if_unused=if_unused, if_empty=if_empty).method.message_count)

    def purge(self, name: str) -> int:
        return int(self._call("queue_purge", name).method.message_count)

    def bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None:
        self._call("queue_bind", queue, exchange, key, arguments=arguments)

    def unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments | None = None) -> None:
        self._call("queue_unbind", queue, exchange, key, arguments=arguments)

    def publish(
        self, exchange: str, key: str, body: bytes, properties: Properties | None = None, *, mandatory: bool = False
    ) -> None:
        # The callback has it already.
        with suppress(pika.exceptions.UnroutableError):
            self._call("basic_publish", exchange, key, body, pika.BasicProperties(**properties or {}), mandatory)

    def get(self, queue: str, *, no_ack: bool = False) -> Message | None:
        method, properties, body = self._call("basic_get", queue, no_ack)
        return _message(method, properties, body) if method else None

    def consume(self, queue: str, *, no_ack: bool = False, exclusive: bool = False) -> str:
        return str(self._call("basic_consume", queue, self._on_message, auto_ack=no_ack, exclusive=exclusive))

    def _on_message(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self.deliveries.append(_message(method, properties, body))

    def cancel(self, consumer_tag: str) -> None:
        self._call("basic_cancel", consumer_tag)

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        self._call("basic_ack", tag, multiple)

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._call("basic_nack", tag, multiple, requeue)

    def reject(self, tag: int, *, requeue: bool) -> None:
        self._call("basic_reject", tag, requeue)

    def qos(self, count: int, *, whole_channel: bool = False) -> None:
        self._call("basic_qos", prefetch_count=count, global_qos=whole_channel)

    def recover(self) -> None:
        self._call("basic_recover", requeue=True)

    def close(self) -> None:
        self._call("close")

    def wait(self, seconds: float) -> None:
        with _refusals():
            self._connection.process_data_events(seconds)


class PikaPeer(Peer):
    name = "pika"
    # pika refuses to send floats, and cuts those it reads to integers.
    unknown = (float,)

    def __init__(self, url: str) -> None:
        with _refusals():
            self._connection = pika.BlockingConnection(pika.URLParameters(url))

    def channel(self, *, confirms: bool = False) -> PikaChannel:
        with _refusals():
            return PikaChannel(self._connection, confirms)

    def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()


def _message(method: Any, properties: Any, body: bytes) -> Message:
    present = {name: plain(value) for name, value in vars(properties).items() if value is not None}
    return Message(body, present, method.exchange, method.routing_key, method.redelivered, method.delivery_tag)
