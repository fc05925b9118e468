"""Publishes events with pika, and keeps count of what the broker confirmed.

pika's BlockingConnection waits for each confirm before the next publish. Its SelectConnection does not have to: here a
window of messages is on its way at any time, and confirms are counted as they come.
"""

import threading
from collections.abc import Iterator

import pika
from dataset import Event

# Published and not confirmed yet: enough to keep the broker busy through a sync of its disk.
WINDOW = 8_000
# Published before pika may look for confirms again.
BURST = 400


class Publisher(threading.Thread):
    """`confirmed` grows to the number of events; `failure` says why it does not."""

    def __init__(self, url: str, exchange: str, events: Iterator[Event]) -> None:
        super().__init__(name="publisher", daemon=True)
        self.confirmed = 0
        self.failure = ""
        self._exchange = exchange
        self._events = events
        self._published = 0
        self._pumping = False
        self._exhausted = False
        # Confirmed one by one, ahead of earlier ones.
        self._ahead: set[int] = set()
        self._connection = pika.SelectConnection(
            pika.URLParameters(url),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=lambda _connection, error: self._fail(f"no connection: {error}"),
            on_close_callback=lambda _connection, reason: self._closed(reason),
        )

    def run(self) -> None:
        self._connection.ioloop.start()

    def stop(self) -> None:
        """End early, from another thread."""
        if self.is_alive():
            self._connection.ioloop.add_callback_threadsafe(self._close)
            self.join(10)

    def _opened(self, channel: pika.channel.Channel) -> None:
        self._channel = channel
        channel.add_on_return_callback(lambda _channel, method, *_: self._fail(f"returned: {method.reply_text}"))
        channel.confirm_delivery(self._on_confirm, callback=lambda _frame: self._pump())

    def _pump(self) -> None:
        """Fill the window, in bursts."""
        self._pumping = False
        if not self._channel.is_open:
            return
        for _ in range(min(BURST, WINDOW - (self._published - self.confirmed))):
            event = next(self._events, None)
            if event is None:
                self._exhausted = True
                return
            properties = pika.BasicProperties("application/json", message_id=event.message_id, delivery_mode=2)
            self._channel.basic_publish(self._exchange, event.routing_key, event.body, properties, mandatory=True)
            self._published += 1
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping and not self._exhausted and self._published - self.confirmed < WINDOW:
            self._pumping = True
            self._connection.ioloop.add_callback_threadsafe(self._pump)

    def _on_confirm(self, frame: pika.frame.Method) -> None:
        method = frame.method
        if isinstance(method, pika.spec.Basic.Nack):
            self._fail(f"the broker refused message {method.delivery_tag}")
            return
        if method.multiple:
            self.confirmed = max(self.confirmed, method.delivery_tag)
        else:
            self._ahead.add(method.delivery_tag)
        while self.confirmed + 1 in self._ahead:
            self.confirmed += 1
            self._ahead.remove(self.confirmed)
        if self._exhausted and self.confirmed == self._published:
            self._close()
        else:
            self._pump_soon()

    def _fail(self, why: str) -> None:
        self.failure = self.failure or why
        self._close()

    def _close(self) -> None:
        if self._connection.is_open:
            self._connection.close()
        elif self._connection.is_closed:
            self._connection.ioloop.stop()

    def _closed(self, reason: Exception) -> None:
        if not self._exhausted or self.confirmed < self._published:
            self.failure = self.failure or f"the connection ended: {reason}"
        self._connection.ioloop.stop()
