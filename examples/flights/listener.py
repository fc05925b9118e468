"""Receives the statistics with FlintMQ's own client, as they are published: each replaces the carrier's one before."""

import json
import threading
from typing import Any

import flintmq.client

Statistics = dict[str, Any]


class Listener(threading.Thread):
    """`latest` has what was said last about each carrier; `failure` says why nothing comes any more."""

    def __init__(self, url: str, queue: str) -> None:
        super().__init__(name="listener", daemon=True)
        self.latest: dict[str, Statistics] = {}
        self.received = 0
        self.failure = ""
        self._url = url
        self._queue = queue
        self._stopping = threading.Event()

    @property
    def flights(self) -> int:
        """How many flights are in the statistics by now."""
        return sum(statistics["flights"] for statistics in list(self.latest.values()))

    def run(self) -> None:
        try:
            with flintmq.client.connect(self._url) as connection, connection.channel() as channel:
                while not self._stopping.is_set():
                    # The loop ends after half a second of silence, so that a stop is noticed.
                    for batch in channel.consume(self._queue, timeout=0.5):
                        for message in batch.messages:
                            statistics = json.loads(message.body)
                            self.latest[statistics["carrier"]] = statistics
                            self.received += 1
                        batch.ack()
        except flintmq.client.FlintError as error:
            self.failure = str(error)

    def stop(self) -> None:
        self._stopping.set()
        if self.is_alive():
            self.join(10)
