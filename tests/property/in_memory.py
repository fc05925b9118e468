"""Definitions without a file, for machines that are made anew at each step."""

import sqlite3
from pathlib import Path

from flintmq.storage.definitions.database import DefinitionDatabase


def definitions() -> DefinitionDatabase:
    return DefinitionDatabase(Path(":memory:"), _connect)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)
