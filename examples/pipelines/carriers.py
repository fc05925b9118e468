"""Flights by carrier: a stream, joined with a file, aggregated, and published. See README.md."""

import shutil
import sys
from operator import itemgetter

import nycdata
from stage import stage

FLIGHTS = 20_000


def main() -> int:
    with stage() as on:
        on.stream("flights")
        out = on.queue_of("delays")
        shutil.copy(nycdata.path_of("airlines"), on.directory / "airlines.csv")
        flights = on.publish_flights("flights", FLIGHTS)
        on.run("carriers.yaml")
        found = sorted(on.taken(out), key=itemgetter("flights"), reverse=True)
        keys = ("carrier", "flights", "cancelled", "departure", "arrival")
        on.table(f"Mean delays of {len(flights):,} flights, in minutes", map(itemgetter(*keys), found), *keys)
        complete = sum(int(row["flights"] or 0) for row in found) == len(flights)
        on.console.print("Every flight is counted once." if complete else "Flights are MISSING, or counted twice.")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
