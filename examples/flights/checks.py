"""Does what came out agree with what went in? Nothing is taken from the pipeline but its results."""

import math
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
from listener import Statistics

# Means of whole numbers, divided once each: they differ in the last bit at most.
TOLERANCE = 1e-12


@dataclass(frozen=True)
class Check:
    claim: str
    holds: bool
    finding: str


def check_lake(lake: pa.Table, flights: pd.DataFrame) -> list[Check]:
    """Every event once: by its place in the stream, by the id its publisher gave it, and by its content."""
    count = len(flights)
    offsets = lake.column("offset").to_pandas().sort_values()
    ids = lake.column("message_id").to_pandas()
    every_offset = len(offsets) == count and bool((offsets.to_numpy() == range(count)).all())
    found = lake.sort_by("id").select(list(flights.columns))
    expected = pa.Table.from_pandas(flights, preserve_index=False)
    different = _different_columns(found, expected)
    return [
        Check("every event is in the lake", lake.num_rows == count, f"{lake.num_rows:,} rows of {count:,}"),
        Check("none is there twice", ids.nunique() == lake.num_rows, f"{ids.nunique():,} distinct message ids"),
        Check("no offset is missing", every_offset, f"offsets {offsets.min():,} to {offsets.max():,}"),
        Check(
            "each equals its row of the data set",
            not different,
            f"different: {', '.join(different)}" if different else f"{expected.num_columns} columns compared",
        ),
    ]


def _different_columns(found: pa.Table, expected: pa.Table) -> list[str]:
    if found.num_rows != expected.num_rows:
        return ["the number of rows"]
    return [
        name
        for name in expected.column_names
        if not found.column(name).equals(expected.column(name).cast(found.schema.field(name).type))
    ]


def check_statistics(received: dict[str, Statistics], expected: pd.DataFrame) -> list[Check]:
    """The last figures received for every carrier against those computed with pandas."""
    carriers = set(received) == set(expected.index)
    worst = max(
        (_difference(received[carrier], figures) for carrier, figures in expected.iterrows() if carrier in received),
        default=math.inf,
    )
    return [
        Check("statistics of every carrier came back", carriers, f"{len(received)} carriers of {len(expected)}"),
        Check("they equal those computed by pandas", worst <= TOLERANCE, f"largest difference {worst:.1g}"),
    ]


def _difference(statistics: Statistics, figures: "pd.Series[float]") -> float:
    """The largest difference between two carriers' figures, relative to their size."""
    differences: list[float] = []
    for name, expected in figures.items():
        found = statistics.get(str(name))
        if found is None or not math.isfinite(expected):
            return math.inf
        differences.append(abs(found - expected) / max(abs(expected), 1.0))
    return max(differences)
