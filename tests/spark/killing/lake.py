"""What a query has committed to its files: those that are not in its log are no part of the result."""

import json
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq


def committed(lake: Path) -> list[Path]:
    """The files of all batches that are done, by Spark's log of them."""
    log = lake / "_spark_metadata"
    if not log.exists():
        return []
    names = [file.name for file in log.iterdir() if not file.name.startswith(".")]
    compacted = max((int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")), default=-1)
    chosen = [f"{compacted}.compact"] if compacted >= 0 else []
    chosen += [name for name in names if name.isdecimal() and int(name) > compacted]
    entries = [json.loads(line) for name in chosen for line in (log / name).read_text().splitlines()[1:] if line]
    return [Path(unquote(urlparse(entry["path"]).path)) for entry in entries if entry["action"] == "add"]


def bodies(lake: Path) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for file in committed(lake):
        found.update(pq.read_table(file, columns=["body"]).column("body").to_pylist())
    return found


def count(lake: Path) -> int:
    return sum(int(pq.read_metadata(file).num_rows) for file in committed(lake))
