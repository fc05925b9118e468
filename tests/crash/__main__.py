"""`python -m tests.crash [kills [seed]]`: a broker under all kinds of load is killed, again and again."""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.crash.story import Story
from tests.crash.transaction_story import TransactionStory

# One kill in so many hits transactions, and nothing else, with queues of their own each time.
TRANSACTIONS_OF = 4
# How often it says how far it is.
STRETCH = 25


def main(kills: int, seed: str) -> None:
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        transactional = TransactionStory(Path(directory) / "transactions", seed)
        story = Story(Path(directory) / "data", seed)
        try:
            transactional.broker.start()
            story.begin()
            for number in range(kills):
                if number % TRANSACTIONS_OF == 0:
                    transactional.chapter(number)
                else:
                    story.kill(1)
                if (number + 1) % STRETCH == 0:
                    print(f"{number + 1} kills, {story.confirmed} messages confirmed, none lost", flush=True)
            story.end()
        finally:
            story.broker.close()
            transactional.broker.close()
    starts = sorted(story.starts + transactional.starts)
    print(f"{story.kills + transactional.kills} kills under load, {story.kills_at_start} during a start")
    print(f"{story.confirmed} messages confirmed, {transactional.applied} transactions applied, 0 lost, 0 came back")
    print(f"accepting again after {median(starts):.2f} s (median), {starts[-1]:.2f} s (worst of {len(starts)})")


if __name__ == "__main__":
    words = sys.argv[1:]
    main(int(words[0]) if words else 200, words[1] if len(words) > 1 else str(time.time_ns()))
