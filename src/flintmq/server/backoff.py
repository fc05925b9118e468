"""Who guesses passwords has to wait: longer with each wrong one, by place, and whatever protocol they come by."""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, final

# Wrong ones that cost nothing: people mistype, and a service with an old password is one of many at its address.
_FREE_FAILURES: Final = 10
# What each further one makes the next login from there wait, twice as long every time, and at most.
_FIRST_PAUSE_SECONDS: Final = 0.05
_PAUSE_MAX_SECONDS: Final = 1.0
# How long it takes to be forgiven one.
_FORGIVEN_SECONDS: Final = 6.0
# What is remembered of failures: who stops guessing is free again within three minutes.
_FAILURES_MAX: Final = 40.0
# Places that are remembered, some 200 bytes each: the oldest are forgotten first.
_PLACES_MAX: Final = 16_384

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
    """What a place is, whoever asks decides. May be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def free_at(self, place: str) -> float:
        """When a login from there may be looked at, by the clock; 0 for now."""
        with self._lock:
            record = self._records.get(place)
            return 0.0 if record is None or record.free_at <= self._clock() else record.free_at

    def take(self, place: str) -> None:
        """A login from there is looked at now: the next one may have to wait."""
        with self._lock:
            record = self._records.get(place)
            if record is None:
                return
            now = self._clock()
            self._forgive(record, now)
            excess = record.failures - _FREE_FAILURES
            if excess >= 0:
                record.free_at = now + min(_FIRST_PAUSE_SECONDS * 2.0**excess, _PAUSE_MAX_SECONDS)

    def failed(self, place: str) -> None:
        """A login from there was wrong."""
        with self._lock:
            record = self._records.get(place)
            if record is None:
                record = self._records[place] = _Record()
                if len(self._records) > _PLACES_MAX:
                    self._records.popitem(last=False)
            now = self._clock()
            self._forgive(record, now)
            record.failures = min(record.failures + 1.0, _FAILURES_MAX)
            record.since = now
            self._records.move_to_end(place)

    def _forgive(self, record: _Record, now: float) -> None:
        record.failures = max(record.failures - (now - record.since) / _FORGIVEN_SECONDS, 0.0)
        record.since = now
