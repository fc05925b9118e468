"""10,000 half-open and dripping connections, and 100 wrong passwords a second: what they cost, what clients feel."""

import asyncio
import multiprocessing
import sys
import tempfile
from collections.abc import Coroutine
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

from flintmq.base.limits import HANDSHAKE_SECONDS
from tests.hostile.test_strangers import STRANGER_MAX_BYTES
from tests.security.strangers import allow_files, come_and_wait, guess, p99, round_trips
from tests.servers import BrokerProcess

_SECONDS = 10.0

T = TypeVar("T")


def main(count: int) -> int:
    allow_files(count)
    with (
        tempfile.TemporaryDirectory() as directory,
        BrokerProcess(Path(directory) / "data") as broker,
        # What clients feel is measured where no stranger's part is played.
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as client,
    ):
        idle = p99(client.submit(round_trips, broker.url, _SECONDS).result())
        print(f"idle: p99 {idle:.2f} ms")

        def meanwhile(strangers: Coroutine[object, object, T]) -> tuple[T, str]:
            feeling = client.submit(round_trips, broker.url, _SECONDS)
            done = asyncio.run(strangers)
            felt = p99(feeling.result())
            return done, f"p99 {felt:.2f} ms ({felt / idle:.1f} x)"

        refused, felt = meanwhile(guess(broker, 100, _SECONDS))
        print(f"100 wrong passwords a second: {felt}, {refused} refused")
        outcome, felt = meanwhile(come_and_wait(broker, count))
        print(f"{count} strangers: {felt}")
        print(f"the last one went after {outcome.slowest_seconds:.1f} s; {outcome.bytes_each / 1024:.1f} KiB each")
        broker.stop()
    is_bounded = outcome.bytes_each <= STRANGER_MAX_BYTES and outcome.slowest_seconds <= HANDSHAKE_SECONDS + 2
    return 0 if is_bounded else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
