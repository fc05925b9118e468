"""Measures FlintMQ, and RabbitMQ where it is installed, under the same loads in turn; prints one table.

Everything runs on loopback, on this machine, with fresh data on the disk of the checkout. The broker whose turn it is
not stands still. Absolute figures belong to the machine: compare the ratios.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks import contest
from benchmarks.brokers import BrokerError
from benchmarks.loads import LOADS, Figure
from benchmarks.report import Row

_STARTS: Final = (
    Figure("boot", "s", ("boot_seconds",), less_is_better=True),
    Figure("idle memory", "MB", ("idle_mb",), less_is_better=True),
)


def main() -> int:
    parser = contest.parser("bench", __doc__, LOADS, "loads")
    parser.add_argument("--port", type=int, help="measure the broker that runs there, instead of starting FlintMQ")
    options = parser.parse_args()
    with contest.contestants(options.brokers, options.port) as contestants:
        rows = [*_starts(contestants), *contest.measure(contestants, options.loads, options.runs, options.seconds)]
    contest.publish(rows, contestants, options)
    return 1 if any(row.failures for row in rows) else 0


def _starts(contestants: Sequence[contest.Contestant]) -> Iterator[Row]:
    """How the brokers started, those that were not there before."""
    for figure in _STARTS:
        row = Row(figure)
        for broker, running in contestants:
            if running.pid is not None:
                row.add(broker.name, figure.of(vars(running)), "")
        if row.samples:
            yield row


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokerError as error:
        sys.exit(f"bench: {error}")
