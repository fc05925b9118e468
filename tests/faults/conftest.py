"""Where the disk only pretends: what is tested here are its refusals and its lies, not its syncs."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.memory import IN_MEMORY


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield Path(name)
