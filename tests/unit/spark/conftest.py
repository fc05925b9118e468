"""Time, for tests of what waits."""

import threading
import time

import pytest


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """In the thread of the test, time passes by sleeping alone. Threads that other tests have left go on as before."""
    pauses: list[float] = []
    ours = threading.get_ident()
    sleep, monotonic = time.sleep, time.monotonic

    def pause(seconds: float) -> None:
        if threading.get_ident() == ours:
            pauses.append(seconds)
        else:
            sleep(seconds)

    def now() -> float:
        return sum(pauses) if threading.get_ident() == ours else monotonic()

    monkeypatch.setattr(time, "sleep", pause)
    monkeypatch.setattr(time, "monotonic", now)
    return pauses
