"""Simulated clusters: `python -m tests.sim.cluster --seeds COUNT --first SEED`, or `--seed SEED`, told step by step."""

import sys

from tests.sim.cluster.ledger import Figures
from tests.sim.cluster.run import Run
from tests.sim.seeds import options, run_many, run_one

_PROGRAM = "python -m tests.sim.cluster"


def main() -> int:
    given = options(_PROGRAM).parse_args()
    if given.seed is not None:
        return run_one(Run(given.seed, trace=not given.quiet))
    return run_many(
        range(given.first, given.first + given.seeds),
        Run,
        Figures(),
        lambda figures: f"{figures.leaders_that_served} leaders",
        f"{_PROGRAM} --seed {{seed}}",
    )


if __name__ == "__main__":
    sys.exit(main())
