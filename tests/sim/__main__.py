"""Simulated runs: `python -m tests.sim --seeds COUNT --first SEED`, or `--seed SEED`, which is told step by step."""

import argparse
import sys
import time
import traceback

from tests.sim.ledger import Figures, Violation
from tests.sim.run import LIVES, Run

_TELL_SECONDS = 20.0


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.sim")
    parser.add_argument("--seed", type=int, help="run this one, and tell what happens in it")
    parser.add_argument("--quiet", action="store_true", help="tell only how it ends")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--lives", type=int, default=LIVES, help="how often the node starts in a run")
    given = parser.parse_args()
    if given.seed is not None:
        run = Run(given.seed, given.lives, trace=not given.quiet)
        run.complete()
        print(run.figures, f"digest: {run.digest}", sep="\n")
        return 0
    return _run_many(range(given.first, given.first + given.seeds), given.lives)


def _run_many(seeds: range, lives: int) -> int:
    figures = Figures()
    failed = 0
    started = told = time.monotonic()
    for seed in seeds:
        run = Run(seed, lives)
        try:
            run.complete()
        except Exception as fault:  # noqa: BLE001 - of any kind: the next seed shall run all the same
            failed += 1
            if not isinstance(fault, Violation):
                traceback.print_exception(fault)
            print(f"seed {seed}: {type(fault).__name__}: {fault}")
            print(f"  replay it with: python -m tests.sim --seed {seed} --lives {lives}", flush=True)
        figures.add(run.figures)
        if time.monotonic() - told > _TELL_SECONDS:
            told = time.monotonic()
            print(f"{seed - seeds.start + 1} of {len(seeds)} seeds, {figures.power_losses} power losses", flush=True)
    print(f"{len(seeds)} seeds from {seeds.start} in {time.monotonic() - started:.0f} s, {failed} failed")
    print(figures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
