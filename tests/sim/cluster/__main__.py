"""Simulated clusters: `python -m tests.sim.cluster --seeds COUNT --first SEED`, or `--seed SEED`, told step by step."""

import argparse
import sys
import time
import traceback
from multiprocessing import Pool

from tests.sim.cluster.ledger import Figures
from tests.sim.cluster.run import Run
from tests.sim.ledger import Violation

_TELL_SECONDS = 20.0
# A process is replaced after so many seeds.
_SEEDS_OF_A_PROCESS = 100


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.sim.cluster")
    parser.add_argument("--seed", type=int, help="run this one, and tell what happens in it")
    parser.add_argument("--quiet", action="store_true", help="tell only how it ends")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    given = parser.parse_args()
    if given.seed is not None:
        run = Run(given.seed, trace=not given.quiet)
        run.complete()
        print(run.figures, f"digest: {run.digest}", sep="\n")
        return 0
    return _run_many(range(given.first, given.first + given.seeds))


def _run_many(seeds: range) -> int:
    """As many at a time as there are processors: each seed is a run of its own, in any order."""
    figures = Figures()
    failed = 0
    started = told = time.monotonic()
    with Pool(maxtasksperchild=_SEEDS_OF_A_PROCESS) as processes:
        for done, (figures_of_run, fault) in enumerate(processes.imap_unordered(_run_one, seeds), 1):
            figures.add(figures_of_run)
            if fault:
                failed += 1
                print(fault, flush=True)
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                print(f"{done} of {len(seeds)} seeds, {figures.leaders_that_served} leaders", flush=True)
    print(f"{len(seeds)} seeds from {seeds.start} in {time.monotonic() - started:.0f} s, {failed} failed")
    print(figures)
    return 1 if failed else 0


def _run_one(seed: int) -> tuple[Figures, str]:
    """What happened, and what is wrong with it; that is empty where nothing is."""
    run = Run(seed)
    try:
        run.complete()
    except Exception as fault:  # noqa: BLE001 - of any kind: the next seed shall run all the same
        trace = "" if isinstance(fault, Violation) else "".join(traceback.format_exception(fault))
        replay = f"replay it with: python -m tests.sim.cluster --seed {seed}"
        return run.figures, f"{trace}seed {seed}: {type(fault).__name__}: {fault}\n  {replay}"
    return run.figures, ""


if __name__ == "__main__":
    sys.exit(main())
