"""`python -m tests.spark.killing [kills [seed]]`: queues on their way, through deaths of all kinds.

A third of the kills come while they go into plain files, as many while they go into a Delta table, and the others while
they go through a shuffle to an exchange.
"""

import sys
import tempfile
import time
from pathlib import Path

from tests.spark.killing.story import Story

# A million messages to begin with.
BATCHES = 50
SIZE = 20_000


def main(kills: int, seed: str) -> None:
    print(f"seed {seed}", flush=True)
    for job in ("parquet", "delta"):
        run(job, kills // 3, seed)
    run("exchange", kills - 2 * (kills // 3), seed)


def run(job: str, kills: int, seed: str) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        story = Story(Path(directory), seed, kills, BATCHES, SIZE, job)
        story.run()
    told = ", ".join(f"{count} {victim}" for victim, count in sorted(story.kills.items()))
    print(f"{job}: {story.kills.total()} kills ({told}) in {time.monotonic() - started:.0f} s: each message once")


if __name__ == "__main__":
    words = sys.argv[1:]
    main(int(words[0]) if words else 200, words[1] if len(words) > 1 else str(time.time_ns()))
