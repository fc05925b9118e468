"""A stream joined with a table in the lake: flights with the weather at their airport and hour. See README.md."""

import sys

import nycdata
from stage import stage

FLIGHTS = 20_000


def main() -> int:
    with stage() as on:
        on.channel.declare_queue("weather")
        on.stream("flights")
        out = on.queue_of("wind")
        observations = nycdata.rows("weather")
        on.publish("weather", observations)
        on.run("weather_capture.yaml")
        flights = on.publish_flights("flights", FLIGHTS)
        on.run("delays_by_wind.yaml")
        found = sorted(on.taken(out), key=lambda row: row["from_mph"] or 0)
        keys = ("from_mph", "flights", "cancelled", "delay")
        on.table("Departures by the speed of the wind", (tuple(row[key] for key in keys) for row in found), *keys)
        speeds = {(row["origin"], row["time_hour"]): row["wind_speed"] for row in observations}
        known = [flight for flight in flights if speeds.get((flight["origin"], flight["time_hour"])) is not None]
        joined = sum(int(row["flights"] or 0) for row in found)
        complete = joined == len(known)
        verdict = "right" if complete else "WRONG"
        on.console.print(f"{joined:,} of {len(flights):,} flights met the weather of their hour: {verdict}.")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
