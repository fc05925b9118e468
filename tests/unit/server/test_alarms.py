"""When publishers have to wait: what is compared with what, and what is done before."""

from pathlib import Path

import pytest

from flintmq.server import alarms, heap
from flintmq.server.alarms import Alarms
from flintmq.server.config import AlarmSettings

MIB = 1024 * 1024


class Machine:
    """What the alarms look at, and a C library that keeps `kept` bytes until it is trimmed."""

    def __init__(self, settings: AlarmSettings) -> None:
        self.memory = 0
        self.kept = 0
        self.pageable = 0
        self.free = 1000 * MIB
        self.backlog = 0
        self.full = ""
        self.now = 0.0
        self.trims = 0
        # How often the library was asked what is free, and how long it takes.
        self.looks = 0
        self.look_seconds = 0.0
        self.blind = False
        # Free blocks that the system has: they stay free blocks when their memory is returned.
        self.returned = 0
        self.alarms = Alarms(
            settings,
            Path("/data"),
            lambda: self.backlog,
            lambda: self.full,
            self._page_out,
            used_memory=lambda: self.memory + self.kept,
            free_disk=self._free_disk,
            free_heap=self._free_heap,
            trim=self._trim,
            clock=lambda: self.now,
        )

    def _free_disk(self, directory: Path) -> int:
        assert directory == Path("/data")
        if self.blind:
            raise OSError(5, "Input/output error")
        return self.free

    def _page_out(self) -> None:
        self.memory -= self.pageable
        self.pageable = 0

    def _free_heap(self) -> int:
        self.looks += 1
        self.now += self.look_seconds
        return self.kept + self.returned

    def _trim(self) -> None:
        self.trims += 1
        self.returned += self.kept
        self.kept = 0

    def check(self) -> str:
        self.now += 0.1
        return self.alarms.check()


@pytest.fixture
def machine() -> Machine:
    return Machine(AlarmSettings(memory_high_watermark=100 * MIB, disk_free_min_bytes=50 * MIB))


def test_each_alarm_has_its_words(machine: Machine) -> None:
    """Above the memory, below the disk space, both, and neither: the reason is RabbitMQ's."""
    assert machine.check() == ""
    machine.memory = 100 * MIB + 1
    assert machine.check() == "low on memory"
    machine.free = 50 * MIB - 1
    assert machine.check() == "low on memory & disk"
    machine.memory = 100 * MIB
    assert machine.check() == "low on disk"
    machine.free = 50 * MIB
    assert machine.check() == ""


def test_queues_put_out_what_they_can_before_publishers_wait(machine: Machine) -> None:
    """Where deep queues are what fills the memory, nobody has to wait."""
    machine.memory = 74 * MIB
    machine.pageable = 60 * MIB
    assert machine.check() == ""
    assert machine.memory == 74 * MIB
    machine.memory = 110 * MIB
    assert machine.check() == ""
    assert machine.memory == 50 * MIB


def test_what_will_be_written_is_not_free(machine: Machine) -> None:
    """Bytes handed to the disk and not there yet count as written."""
    machine.free = 100 * MIB
    machine.backlog = 51 * MIB
    assert machine.check() == "low on disk"
    machine.backlog = 0
    assert machine.check() == ""


def test_free_memory_is_given_back_before_anybody_waits(machine: Machine) -> None:
    """Memory that is free but kept by the C library raises no alarm, and is not asked for at every look."""
    machine.kept = 200 * MIB
    assert machine.check() == ""
    assert machine.trims == 1
    machine.memory = 200 * MIB
    for _ in range(100):
        machine.check()
    assert 4 <= machine.trims <= 7
    machine.memory = 0
    assert machine.check() == ""


def test_freed_memory_goes_back(machine: Machine) -> None:
    """What a flood of messages took is returned within seconds after they are gone, a second time, too."""
    machine.alarms.configure(AlarmSettings(memory_high_watermark=1e12))
    for flood in (1, 2):
        machine.memory = 900 * MIB
        machine.returned = 0
        for _ in range(70):
            machine.check()
        assert machine.trims == 2 * (flood - 1)
        machine.memory, machine.kept = 20 * MIB, 880 * MIB
        for _ in range(70):
            machine.check()
        # Once when much is free, and once more when nothing is freed any more.
        assert machine.trims == 2 * flood
        assert machine.kept == 0


def test_what_is_used_again_between_two_looks_goes_back(machine: Machine) -> None:
    """Blocks that were returned, used and freed again are returned once more when nothing is freed any more."""
    machine.alarms.configure(AlarmSettings(memory_high_watermark=1e12))
    machine.kept = 100 * MIB
    while machine.trims == 0:
        machine.check()
    machine.kept, machine.returned = 60 * MIB, 40 * MIB
    for _ in range(60):
        machine.check()
    assert machine.kept == 0


def test_a_library_that_takes_long_is_asked_less_often(machine: Machine) -> None:
    """Clients wait while it searches many small blocks."""
    machine.look_seconds = 0.05
    for _ in range(1000):
        machine.check()
    assert 2 <= machine.looks <= 3


def test_a_little_freed_memory_is_kept(machine: Machine) -> None:
    """Memory that is needed again in a moment is not returned before."""
    for _ in range(100):
        machine.kept = 60 * MIB
        machine.check()
        machine.kept = 0
        machine.check()
    assert machine.trims == 0


def test_a_part_of_the_machine_or_bytes() -> None:
    """Up to 1 the watermark is a part of the memory there is, above it bytes."""
    assert Machine(AlarmSettings(memory_high_watermark=0.5)).alarms.memory_max_bytes == alarms.whole_memory() // 2
    assert Machine(AlarmSettings(memory_high_watermark=1.0)).alarms.memory_max_bytes == alarms.whole_memory()
    assert Machine(AlarmSettings(memory_high_watermark=2e9)).alarms.memory_max_bytes == 2_000_000_000


def test_a_disk_that_says_nothing_stops_nobody(machine: Machine) -> None:
    """Where the free space cannot be read, the storage will say itself when it is full."""
    machine.blind = True
    assert machine.check() == ""


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    """Real figures: this process has more than a megabyte, the machine more than this process, and the disk some."""
    assert MIB < alarms.used_memory() < alarms.whole_memory()
    assert alarms.free_disk(tmp_path) > 0
    assert heap.free_bytes() >= 0
    heap.trim()


def test_a_disk_without_room_for_us(machine: Machine) -> None:
    """Publishers wait while the storage finds no room, whatever the system says is free."""
    machine.full = "disk full"
    assert machine.check() == "low on disk"
    machine.full = ""
    assert machine.check() == ""
