"""Getting a broker short of memory, and out of it."""

import time
from typing import Final

from flintmq.wire.amqp091.methods import Method
from tests.conformance.amqp091.peer import Peer

_BODY: Final = bytes(100_000)
# 400 MB: more than any broker of these tests may have.
_MESSAGES_MAX: Final = 4_000


def fill_memory(publisher: Peer, queue: str) -> Method:
    """Publish until the broker says something to it; returns what."""
    for _ in range(_MESSAGES_MAX):
        publisher.publish(_BODY, queue)
        # A publisher that filled the sockets would be stopped by them first.
        time.sleep(0.001)
        found = next(publisher.frames(0), None)
        if found is not None:
            return found.method
    # All was taken before the broker came to look.
    return publisher.read_frame().method


def take_until(consumer: Peer, queue: str, last: bytes) -> None:
    """Consume until this message came."""
    consumer.consume(queue, no_ack=True)
    while consumer.bodies(1) != [last]:
        pass
