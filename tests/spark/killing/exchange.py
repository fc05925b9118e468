"""Queues behind an exchange, and what has come there."""

import time
from collections import Counter
from typing import Final

import flintmq.client as fc

EXCHANGE: Final = "out"
QUEUES: Final = 3
# What is committed is put on its queues step by step.
_PATIENCE_SECONDS: Final = 60.0
# A queue that gives nothing for so long is empty.
_QUIET_SECONDS: Final = 2.0


def declare(channel: fc.Channel) -> None:
    channel.declare_exchange(EXCHANGE, type="direct")
    for number in range(QUEUES):
        channel.declare_queue(f"{EXCHANGE}.{number}")
        channel.bind(f"{EXCHANGE}.{number}", EXCHANGE, str(number))


def bodies(channel: fc.Channel, expected: int) -> Counter[bytes]:
    """All there is, once it is as many as that, or no more come."""
    names = [f"{EXCHANGE}.{number}" for number in range(QUEUES)]
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while sum(channel.declare_queue(name, passive=True).message_count for name in names) < expected:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    found: Counter[bytes] = Counter()
    for name in names:
        for batch in channel.consume(name, timeout=_QUIET_SECONDS, no_ack=True):
            found.update(message.body for message in batch.messages)
    return found
