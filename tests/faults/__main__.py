"""`python -m tests.faults`: every fault at every call of the scripted run."""

import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.script import FAULTS, Ground
from tests.memory import IN_MEMORY


def main() -> None:
    outcomes: Counter[str] = Counter()
    full = 0
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory:
        ground = Ground(Path(directory))
        for fault in FAULTS:
            calls = ground.calls(fault)
            of_this: Counter[str] = Counter()
            for call in range(calls):
                run = ground.try_fault(fault, call)
                of_this[run.outcome] += 1
                full += run.was_full
            outcomes += of_this
            print(f"{fault.name:40} {calls:5} calls: {_words(of_this)}", flush=True)
    print(f"{sum(outcomes.values())} runs: {_words(outcomes)}; {full} waited for room")
    print("0 confirmed falsely, 0 lost, 0 hung")


def _words(outcomes: "Counter[str]") -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))


if __name__ == "__main__":
    main()
