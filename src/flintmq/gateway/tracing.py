"""Taps on messages: the firehose of traced virtual hosts, and spans if they are configured."""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from flintmq.broker.broker import Broker
from flintmq.broker.message import Entry, Message
from flintmq.broker.queue.base import Queue
from flintmq.broker.tap import Client, Tap
from flintmq.broker.vhost import VHost
from flintmq.gateway.firehose import Firehose

# An error that each message causes is reported only once in this time.
_REPORT_INTERVAL_MS: Final = 60_000


@final
class _IsolatedTap(Tap):
    """Isolates messages from errors of a tap. `report` is called with the error, at most once a minute."""

    def __init__(self, broker: Broker, tap: Tap, report: Callable[[Exception], None]) -> None:
        self._broker = broker
        self._tap = tap
        self._report = report
        self._reported_ms: i64 = -_REPORT_INTERVAL_MS

    def published(self, client: Client, message: Message, queues: list[Queue]) -> Message:
        try:
            return self._tap.published(client, message, queues)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._failed(error)
            return message

    def committed(self, client: Client, queue: Queue, message: Message) -> None:
        try:
            self._tap.committed(client, queue, message)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._failed(error)

    def delivered(self, client: Client, queue: Queue, entry: Entry) -> None:
        try:
            self._tap.delivered(client, queue, entry)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._failed(error)

    def end_dispatch(self) -> None:
        try:
            self._tap.end_dispatch()
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        # The difference is negative if the clock was set back.
        since = self._broker.now_ms - self._reported_ms
        if since < 0 or since >= _REPORT_INTERVAL_MS:
            self._reported_ms = self._broker.now_ms
            self._report(error)


@final
class Tracing(Tap):
    """The tap of all tracing. It is in the broker's tick only while something is traced, and costs nothing otherwise.

    `report` is called with errors of tracing, which do not affect messages.
    """

    def __init__(self, broker: Broker, report: Callable[[Exception], None]) -> None:
        self._broker = broker
        self._report = report
        self._firehose: Tap = _IsolatedTap(broker, Firehose(broker), report)
        self._spans: Tap | None = None

    def trace(self, vhost: VHost, on: bool) -> None:
        """Turn the firehose of a virtual host on or off; it is off after a restart (RabbitMQ)."""
        vhost.traced = on
        self._join_or_leave()

    def use(self, spans: Tap) -> None:
        """Show every message to this tap, too, from now on."""
        self._spans = _IsolatedTap(self._broker, spans, self._report)
        self._join_or_leave()

    def _join_or_leave(self) -> None:
        is_wanted = self._spans is not None or any(vhost.traced for vhost in self._broker.vhosts.values())
        self._broker.tick.tap = self if is_wanted else None

    def published(self, client: Client, message: Message, queues: list[Queue]) -> Message:
        spans = self._spans
        if spans is not None:
            message = spans.published(client, message, queues)
        return self._firehose.published(client, message, queues)

    def committed(self, client: Client, queue: Queue, message: Message) -> None:
        spans = self._spans
        if spans is not None:
            spans.committed(client, queue, message)
        self._firehose.committed(client, queue, message)

    def delivered(self, client: Client, queue: Queue, entry: Entry) -> None:
        spans = self._spans
        if spans is not None:
            spans.delivered(client, queue, entry)
        self._firehose.delivered(client, queue, entry)

    def end_dispatch(self) -> None:
        spans = self._spans
        if spans is not None:
            spans.end_dispatch()
        self._firehose.end_dispatch()
