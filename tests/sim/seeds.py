"""Runs of many seeds, as many at a time as there are processors: each seed is a run of its own, in any order."""

import argparse
import gc
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing import Pool
from typing import Protocol, TypeVar

from tests.sim.counts import Counts
from tests.sim.ledger import Violation

_TELL_SECONDS = 20.0
# A process is replaced after so many seeds.
_SEEDS_OF_A_PROCESS = 100
# Garbage is looked for after so many allocations: a run of one seed leaves little of it.
_ALLOCATIONS = 50_000

Figures = TypeVar("Figures", bound=Counts)


class Run(Protocol):
    """A run of one seed. `digest` is the same for each run of a seed."""

    @property
    def figures(self) -> Counts: ...

    @property
    def digest(self) -> str: ...

    def complete(self) -> None: ...


def options(program: str) -> argparse.ArgumentParser:
    """The options of every simulation."""
    parser = argparse.ArgumentParser(program)
    parser.add_argument("--seed", type=int, help="run this one, and tell what happens in it")
    parser.add_argument("--quiet", action="store_true", help="tell only how it ends")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    return parser


def run_one(run: Run) -> int:
    """Run one seed, and print what it did."""
    run.complete()
    print(run.figures, f"digest: {run.digest}", sep="\n")
    return 0


def run_many(
    seeds: range, make: Callable[[int], Run], figures: Figures, progress: Callable[[Figures], str], replay: str
) -> int:
    """Run seeds; returns the exit code. `make` is called in other processes. `replay` is the command for a seed."""
    failed = 0
    started = told = time.monotonic()
    with Pool(
        initializer=gc.set_threshold, initargs=(_ALLOCATIONS,), maxtasksperchild=_SEEDS_OF_A_PROCESS
    ) as processes:
        runs = processes.imap_unordered(partial(_attempt, make=make, replay=replay), seeds)
        for done, (figures_of_run, fault) in enumerate(runs, 1):
            figures.add(figures_of_run)
            if fault:
                failed += 1
                print(fault, flush=True)
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                print(f"{done} of {len(seeds)} seeds, {progress(figures)}", flush=True)
    print(f"{len(seeds)} seeds from {seeds.start} in {time.monotonic() - started:.0f} s, {failed} failed")
    print(figures)
    return 1 if failed else 0


def _attempt(seed: int, make: Callable[[int], Run], replay: str) -> tuple[Counts, str]:
    """What happened, and what is wrong with it; that is empty where nothing is."""
    run = make(seed)
    try:
        run.complete()
    except Exception as fault:  # noqa: BLE001 - of any kind: the next seed shall run all the same
        trace = "" if isinstance(fault, Violation) else "".join(traceback.format_exception(fault))
        told = f"seed {seed}: {type(fault).__name__}: {fault}\n  replay it with: {replay.format(seed=seed)}"
        return run.figures, f"{trace}{told}"
    return run.figures, ""
