"""Where brokers are killed: on a disk, and not in memory, for a sync has to take a while to be cut off."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import BrokerProcess


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    return disk_path


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as running:
        yield running
