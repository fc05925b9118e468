"""Replays mutations: `python -m tests.conformance.mutations [--catalogue amqp091] [--every N] [RULE...]`.

Exit code 1 where a test did not notice that its rule was broken.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.mutations.mutation import Mutation
from tests.conformance.mutations.replaying import CATALOGUES, NOTICED, nodes, replay


def _chosen(arguments: argparse.Namespace) -> Iterator[tuple[Mutation, str]]:
    for name, (_, mutations, _) in CATALOGUES.items():
        if arguments.catalogue in (None, name):
            tests = nodes(name)
            for number, mutation in enumerate(mutations):
                if number % arguments.every == 0 and (not arguments.rules or mutation.rule in arguments.rules):
                    yield mutation, tests[mutation.rule]


def main() -> int:
    parser = argparse.ArgumentParser(description="Break each rule, and see its test fail.")
    parser.add_argument("rules", nargs="*", help="these rules only")
    parser.add_argument("--catalogue", choices=tuple(CATALOGUES), help="those of one protocol only")
    parser.add_argument("--every", type=int, default=1, help="one mutation of so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="so many at a time")
    arguments = parser.parse_args()
    chosen = list(_chosen(arguments))
    missed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        verdicts = pool.map(lambda each: replay(*each), chosen)
        for number, ((mutation, _), verdict) in enumerate(zip(chosen, verdicts, strict=True), 1):
            if verdict != NOTICED:
                missed += 1
                print(f"{mutation.rule}: {verdict}: {mutation.file}: {mutation.new!r}", flush=True)
            if number % 25 == 0:
                print(f"{number} of {len(chosen)}", flush=True)
    print(f"{len(chosen)} mutations, {len(chosen) - missed} noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
