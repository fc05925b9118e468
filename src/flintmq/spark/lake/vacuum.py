"""Files that tasks wrote and nobody will ever read: those of machines that went away, and of attempts that came too
late.
"""

import re
import time
from pathlib import Path
from typing import Final

from flintmq.spark.lake.manifest import Manifest
from flintmq.spark.lake.paths import DATA, STAGED

# As tasks name the files that they write. In a table's directory others may write, too, under names of their own.
_OURS: Final = re.compile(r"[0-9a-f]{32}\.parquet\Z")
# A batch that is on its way is younger than this, with much room.
MIN_AGE_HOURS: Final = 24.0


def vacuum(path: str, older_than_hours: float = MIN_AGE_HOURS) -> int:
    """Remove files that are in no batch and older than this; returns how many. Raises FlintError.

    Only what the lake's own writers left: files that a table has given up since (by a compaction, for example) are for
    its format's own vacuum.
    """
    root = Path(path)
    oldest = time.time() - older_than_hours * 3600
    found = [
        file
        for directory in (STAGED, DATA)
        for file in (root / directory).glob("*.parquet")
        if _OURS.match(file.name) and _written(file) < oldest
    ]
    # Whatever is old enough was decided by now, or never will be.
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
