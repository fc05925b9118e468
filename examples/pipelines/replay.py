"""A capture with replay: all of a stream into the lake, and a part of it out again. See README.md."""

import sys

from stage import stage

FLIGHTS = 20_000
MOST = 3


def main() -> int:
    with stage() as on:
        on.stream("flights")
        again = on.queue_of("again")
        flights = on.publish_flights("flights", FLIGHTS)
        on.run("capture.yaml")
        carriers = [*on.directory.glob("lake/carrier=*")]
        on.console.print(f"The lake has the flights of {len(carriers)} carriers.")
        on.run("replay.yaml")
        came = on.taken(again)
        expected = [flight for flight in flights if flight["carrier"] == "HA"]
        same = sorted(came, key=str) == sorted(expected, key=str)
        columns = ("time_hour", "dest", "dep_delay", "arr_delay")
        first = sorted(came, key=lambda flight: str(flight["time_hour"]))[:MOST]
        rows = (tuple(flight[column] for column in columns) for flight in first)
        on.table(f"The first of {len(came)} flights that came again", rows, *columns)
        on.console.print("They are what was published." if same else "They are NOT what was published.")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
