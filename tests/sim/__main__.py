"""Simulated runs: `python -m tests.sim --seeds COUNT --first SEED`, or `--seed SEED`, which is told step by step."""

import sys
from functools import partial

from tests.sim.ledger import Figures
from tests.sim.run import LIVES, Run
from tests.sim.seeds import options, run_many, run_one

_PROGRAM = "python -m tests.sim"


def main() -> int:
    parser = options(_PROGRAM)
    parser.add_argument("--lives", type=int, default=LIVES, help="how often the node starts in a run")
    given = parser.parse_args()
    if given.seed is not None:
        return run_one(Run(given.seed, given.lives, trace=not given.quiet))
    return run_many(
        range(given.first, given.first + given.seeds),
        partial(Run, lives=given.lives),
        Figures(),
        lambda figures: f"{figures.power_losses} power losses",
        f"{_PROGRAM} --seed {{seed}} --lives {given.lives}",
    )


if __name__ == "__main__":
    sys.exit(main())
