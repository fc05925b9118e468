"""Getting a broker short of memory, and out of it."""

import threading
from collections.abc import Callable
from typing import Final, final

from tests.conformance.amqp091.peer import Peer

BODY: Final = bytes(100_000)
# 400 MB: more than any broker of these tests may have.
_MESSAGES_MAX: Final = 4_000


@final
class Flood:
    """Publishes again and again, in a thread: a broker that is short of memory stops who writes, amid a message."""

    def __init__(self, publish: Callable[[], None]) -> None:
        self._publish = publish
        self._last: Callable[[], None] | None = None
        self._is_enough = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def end(self, last: Callable[[], None]) -> None:
        """Write `last` behind everything else, as soon as the broker reads on, and nothing more."""
        self._last = last
        self._is_enough.set()

    def _run(self) -> None:
        for _ in range(_MESSAGES_MAX):
            self._publish()
            # The broker looks ten times in a second whether there is enough memory: not much more than it has is sent.
            if self._is_enough.wait(0.001):
                break
        # Where it has taken all of them, it is still to look.
        self._is_enough.wait()
        assert self._last is not None
        self._last()


def take_until(consumer: Peer, queue: str, last: bytes) -> None:
    """Consume until this message came."""
    consumer.consume(queue, no_ack=True)
    while consumer.bodies(1) != [last]:
        pass
