"""Who guesses passwords has to wait: longer with each wrong one, by address, and whatever protocol they come by."""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, final

from flintmq.base.addresses import network

# Wrong ones that cost nothing: people mistype, and a service with an old password is one of many at its address.
_FREE_FAILURES: Final = 10
# What each further one makes the next login from there wait, twice as long every time, and at most.
_FIRST_PAUSE_SECONDS: Final = 0.05
_PAUSE_MAX_SECONDS: Final = 1.0
# Whoever would have to wait longer is refused at once: a handshake takes ten seconds at most.
_WAIT_MAX_SECONDS: Final = 5.0
# How long it takes to be forgiven one.
_FORGIVEN_SECONDS: Final = 6.0
# What is remembered of failures: who stops guessing is free again within three minutes.
_FAILURES_MAX: Final = 40.0
# Addresses that are remembered, some 200 bytes each: the oldest are forgotten first.
_ADDRESSES_MAX: Final = 16_384

TOO_MANY: Final = "too many failed logins from this address; try again in a few seconds"


@final
class _Record:
    def __init__(self) -> None:
        self.failures = 0.0
        # When it was reckoned last, and when the next login may be looked at.
        self.since = 0.0
        self.free_at = 0.0


@final
class Backoff:
    """May be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def reserve(self, address: str) -> float:
        """When a login from there may be looked at, by the clock; 0 for now, and -1 for not at all."""
        with self._lock:
            record = self._records.get(network(address))
            if record is None:
                return 0.0
            now = self._clock()
            self._forgive(record, now)
            at = max(now, record.free_at)
            if at - now > _WAIT_MAX_SECONDS:
                return -1.0
            excess = record.failures - _FREE_FAILURES
            if excess >= 0:
                record.free_at = at + min(_FIRST_PAUSE_SECONDS * 2.0**excess, _PAUSE_MAX_SECONDS)
            return 0.0 if at <= now else at

    def is_barred(self, address: str) -> bool:
        """Whether a login from there cannot be looked at now, for those that cannot wait."""
        with self._lock:
            record = self._records.get(network(address))
            return record is not None and record.free_at > self._clock()

    def failed(self, address: str) -> None:
        """A login from there was wrong."""
        with self._lock:
            key = network(address)
            record = self._records.get(key)
            if record is None:
                record = self._records[key] = _Record()
                if len(self._records) > _ADDRESSES_MAX:
                    self._records.popitem(last=False)
            now = self._clock()
            self._forgive(record, now)
            record.failures = min(record.failures + 1.0, _FAILURES_MAX)
            record.since = now
            self._records.move_to_end(key)

    def _forgive(self, record: _Record, now: float) -> None:
        record.failures = max(record.failures - (now - record.since) / _FORGIVEN_SECONDS, 0.0)
        record.since = now
