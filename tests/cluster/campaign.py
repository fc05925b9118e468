"""`python -m tests.cluster.campaign [rounds [seed [words of faults]]]`: every kind of fault, again and again.

Pika, aio-pika and proton publish, and after each round everything that was confirmed must be there. What the nodes said
is kept when something is wrong.
"""

import logging
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.cluster.faults import FAULTS, Fault, Outcome, await_confirms, undergo
from tests.cluster.ledger import Ledger
from tests.cluster.load import Load
from tests.cluster.nodes import Cluster
from tests.cluster.with_others import AioPikaPublisher, ProtonPublisher
from tests.cluster.with_pika import KEPT, LIVE, PikaPublisher

PUBLISHERS: Final = (PikaPublisher.name, AioPikaPublisher.name, ProtonPublisher.name)
# How many of a kind are shown.
_SHOWN: Final = 5


def main(rounds: int, seed: str, words: str) -> int:
    print(f"seed {seed}", flush=True)
    chosen = [fault for fault in FAULTS if words in fault.name]
    chance = random.Random(seed)
    outcomes: dict[Fault, list[Outcome]] = defaultdict(list)
    directory = Path(tempfile.mkdtemp(prefix="flintmq-campaign-"))
    wrong = []
    with Cluster(directory) as cluster:
        ledger = Ledger(PUBLISHERS, [LIVE, KEPT])
        ports = cluster.ports.values()
        with Load(cluster, ledger, AioPikaPublisher(ports, ledger), ProtonPublisher(ports, ledger)) as load:
            for number in range(1, rounds + 1):
                # Not after the last one: what is confirmed after a round is drained would be taken for lost.
                load.go_on()
                await_confirms(ledger)
                for fault in chance.sample(chosen, len(chosen)):
                    outcome = undergo(fault, cluster, ledger)
                    outcomes[fault].append(outcome)
                    print(f"round {number}: {_line(outcome)}", flush=True)
                    if not outcome.came_back:
                        wrong.append(f"round {number}, {fault.name}: not all came back")
                load.drain()
                print(f"round {number}: {len(ledger.confirmed):,} messages were confirmed in all", flush=True)
        cluster.write_logs()
    wrong += _wrong(ledger)
    Console(width=160).print(_table(outcomes))
    for each in wrong:
        print(each)
    print(f"data and logs are in {directory}")
    return 1 if wrong else 0


def _wrong(ledger: Ledger) -> Iterator[str]:
    found = {
        "confirmed and lost": sorted(ledger.lost),
        "delivered again without the flag": ledger.unflagged,
        "out of order": ledger.out_of_order,
        "refused": ledger.refused,
    }
    for what, names in found.items():
        if names:
            yield f"{len(names)} {what}: {', '.join(names[:_SHOWN])}"


def _line(outcome: Outcome) -> str:
    confirms = ", ".join(f"{name} {gap:.2f}" for name, gap in outcome.without_confirms.items())
    told = "not" if outcome.leader_told is None else f"{outcome.leader_told:.2f}"
    return (
        f"{outcome.fault.name}: without confirms {confirms}; deliveries {outcome.without_deliveries:.2f}; told {told}"
    )


def _table(outcomes: dict[Fault, list[Outcome]]) -> Table:
    table = Table(title="The longest time in seconds: median / worst")
    for heading in ("fault", "times", *(f"no confirms, {name}" for name in PUBLISHERS), "no deliveries", "leader told"):
        table.add_column(heading)
    for fault, each in outcomes.items():
        told = [outcome.leader_told for outcome in each if outcome.leader_told is not None]
        table.add_row(
            fault.name,
            str(len(each)),
            *(_spread([outcome.without_confirms[name] for outcome in each]) for name in PUBLISHERS),
            _spread([outcome.without_deliveries for outcome in each]),
            _spread(told),
        )
    return table


def _spread(times: list[float]) -> str:
    return f"{median(times):.2f} / {max(times):.2f}" if times else "-"


if __name__ == "__main__":
    for name in ("pika", "aiormq"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    arguments = [*sys.argv[1:], "", "", ""]
    sys.exit(main(int(arguments[0] or 1), arguments[1] or str(time.time_ns()), arguments[2]))
