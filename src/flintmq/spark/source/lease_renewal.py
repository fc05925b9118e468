"""Renewal of a lease with a timeout: the query itself does not use it between triggers and during a long batch."""

import threading
from typing import Final

import flintmq.client as fc
from flintmq.base.errors import FlintError
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.endpoint import Endpoint

# Calls in the time of one timeout: one or two of them may be late.
_CALLS_PER_TIMEOUT: Final = 4


class LeaseRenewal:
    """Extends a lease regularly, in a thread with its own connection, until it is closed or the lease is lost.

    `name` is the consumer's name, and `epoch` the one that the query got when it opened the lease.
    """

    def __init__(self, endpoint: Endpoint, queue: str, name: str, epoch: int, timeout_ms: int) -> None:
        self._endpoint = endpoint
        self._queue = queue
        self._name = name
        self._epoch = epoch
        self._pause_seconds = timeout_ms / 1000 / _CALLS_PER_TIMEOUT
        self._closing = threading.Event()
        # The thread ends with the process, so that the lease of a query that died times out.
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop renewing; does not wait for the thread."""
        self._closing.set()

    def _run(self) -> None:
        with ReconnectingClient(self._endpoint, confirms=False, patient=False) as client:
            while not self._closing.wait(self._pause_seconds):
                try:
                    client.call(lambda channel: channel.lease_extend(self._queue, self._name, self._epoch, 0, 0))
                except fc.ChannelClosed:
                    # The next call of the query itself raises the reason.
                    return
                except FlintError:
                    continue
