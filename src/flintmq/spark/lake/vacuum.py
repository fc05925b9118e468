"""Vacuum of a lake: it removes files of no batch, which dead machines and late attempts have left."""

import re
import time
from pathlib import Path
from typing import Final

from flintmq.spark.lake.manifest import Manifest
from flintmq.spark.lake.paths import DATA, STAGED

# The names that tasks give to files. Other programs may write files with other names to a table's directory.
_TASK_FILE: Final = re.compile(r"[0-9a-f]{32}\.parquet\Z")
# Any batch is decided in much less time.
MIN_AGE_HOURS: Final = 24.0


def vacuum(path: str, older_than_hours: float = MIN_AGE_HOURS) -> int:
    """Remove files of the lake in `path` that are in no batch and older than `older_than_hours`; return their number.

    It removes only files that writers of this package left. Files that the table itself no longer needs, for example
    after a compaction, are for the vacuum of the format. Raises FlintError.
    """
    root = Path(path)
    oldest = time.time() - older_than_hours * 3600
    found = [
        file
        for directory in (STAGED, DATA)
        for file in (root / directory).glob("*.parquet")
        if _TASK_FILE.match(file.name) and _written(file) < oldest
    ]
    # The manifest is read after the listing: a file that is old enough is in it by now, or never will be.
    manifest = Manifest(root)
    kept = {Path(file.path).name for batch in manifest.batches(manifest.heads()) for file in batch.files}
    removed = 0
    for file in found:
        if file.name not in kept:
            file.unlink(missing_ok=True)
            removed += 1
    return removed


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return time.time()
