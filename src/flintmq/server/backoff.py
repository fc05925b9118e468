"""Delays of logins after wrong passwords: per origin, for all protocols together, longer with each wrong password."""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, final

# Wrong passwords without a delay, because people mistype, and an address may have many services, one of them with an
# old password.
_FREE_FAILURES: Final = 10
# The delay of the next login from this origin: it doubles with each further wrong password, up to the maximum.
_FIRST_PAUSE_SECONDS: Final = 0.05
_PAUSE_MAX_SECONDS: Final = 1.0
# One wrong password is forgiven in this time.
_FORGIVEN_SECONDS: Final = 6.0
# The largest count per origin: after the last wrong password, the delays end within three minutes.
_FAILURES_MAX: Final = 40.0
# Origins with wrong passwords, some 200 bytes each: the oldest are forgotten first.
_ORIGINS_MAX: Final = 16_384

TOO_MANY: Final = "too many failed logins from this address; try again in a few seconds"


@final
class _Record:
    def __init__(self) -> None:
        self.failures = 0.0
        # When `failures` was updated, and when the next login may be checked.
        self.since = 0.0
        self.free_at = 0.0


@final
class Backoff:
    """Wrong passwords and delays by origin, which is any text that the caller chooses. Safe to use from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def free_at(self, origin: str) -> float:
        """Return when a login from this origin may be checked, in the clock's seconds; 0 for now."""
        with self._lock:
            record = self._records.get(origin)
            return 0.0 if record is None or record.free_at <= self._clock() else record.free_at

    def take(self, origin: str) -> None:
        """Note that a login from this origin is checked now, so that the next one may have to wait."""
        with self._lock:
            record = self._records.get(origin)
            if record is None:
                return
            now = self._clock()
            self._forgive(record, now)
            excess = record.failures - _FREE_FAILURES
            if excess >= 0:
                record.free_at = now + min(_FIRST_PAUSE_SECONDS * 2.0**excess, _PAUSE_MAX_SECONDS)

    def failed(self, origin: str) -> None:
        """Count a wrong password from this origin."""
        with self._lock:
            record = self._records.get(origin)
            if record is None:
                record = self._records[origin] = _Record()
                if len(self._records) > _ORIGINS_MAX:
                    self._records.popitem(last=False)
            now = self._clock()
            self._forgive(record, now)
            record.failures = min(record.failures + 1.0, _FAILURES_MAX)
            record.since = now
            self._records.move_to_end(origin)

    def _forgive(self, record: _Record, now: float) -> None:
        record.failures = max(record.failures - (now - record.since) / _FORGIVEN_SECONDS, 0.0)
        record.since = now
