"""A lease with a timeout, kept while its query lives: between two triggers, or in a long batch, nobody else calls."""

import threading
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import FlintError
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.endpoint import Endpoint

# Of a timeout, how many calls there are: one or two may come late.
_CALLS: Final = 4


class LeaseRenewal:
    """Calls from a thread of its own, on a connection of its own, until it is closed, or the lease is another's."""

    def __init__(self, endpoint: Endpoint, queue: str, name: str, epoch: int, timeout_ms: int) -> None:
        self._endpoint = endpoint
        self._queue = queue
        self._name = name
        self._epoch = epoch
        self._pause_seconds = timeout_ms / 1000 / _CALLS
        self._closing = threading.Event()
        # It ends with the process, of which the lease is to know.
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()

    def _run(self) -> None:
        with ReconnectingClient(self._endpoint, confirms=False, patient=False) as client:
            while not self._closing.wait(self._pause_seconds):
                try:
                    client.call(lambda channel: channel.lease_extend(self._queue, self._name, self._epoch, 0, 0))
                except fc.ChannelClosed:
                    # The query itself is told why, when it calls.
                    return
                except FlintError:
                    continue
