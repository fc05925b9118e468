"""A busy client is read in large batches while it is alone, and in small ones while others wait."""

from flintmq.base.limits import INTAKE_SECONDS, SHARE_MIN_BYTES, SYNCING_INTAKE_SECONDS, TICK_READ_BYTES
from flintmq.server.intake import Intake

# At this cost, handling 64 KiB takes INTAKE_SECONDS.
SECONDS_PER_BYTE = INTAKE_SECONDS / 65_536


def run_ticks(
    intake: Intake, waiting: list[int], ticks: int, is_behind: bool = False, is_syncing: bool = False
) -> list[int]:
    """Run ticks in which each client sends as many of its waiting bytes as its share allows, and return the last."""
    taken: list[int] = []
    for _ in range(ticks):
        taken = [min(size, int(intake.share)) for size in waiting]
        intake.end_tick(taken, sum(taken) * SECONDS_PER_BYTE, is_behind, is_syncing)
    return taken


def test_a_client_alone_sends_large_batches() -> None:
    intake = Intake()
    assert run_ticks(intake, [10_000_000], 100) == [TICK_READ_BYTES]
    assert len(intake.buffer()) == 256 * 1024


def test_several_busy_clients_share_the_time_of_a_tick() -> None:
    intake = Intake()
    taken = run_ticks(intake, [10_000_000, 10_000_000], 100)
    assert taken[0] == taken[1]
    assert 0.9 * INTAKE_SECONDS <= sum(taken) * SECONDS_PER_BYTE <= INTAKE_SECONDS
    assert len(intake.buffer()) == intake.share


def test_batches_are_larger_while_the_disk_is_busy() -> None:
    intake = Intake()
    taken = run_ticks(intake, [10_000_000, 10_000_000], 100, is_syncing=True)
    assert INTAKE_SECONDS < sum(taken) * SECONDS_PER_BYTE <= SYNCING_INTAKE_SECONDS


def test_a_modest_client_leaves_its_share_to_others() -> None:
    intake = Intake()
    taken = run_ticks(intake, [10_000_000, 100], 100)
    assert taken[1] == 100
    assert 0.9 * INTAKE_SECONDS <= sum(taken) * SECONDS_PER_BYTE <= INTAKE_SECONDS


def test_a_share_is_worth_a_system_call() -> None:
    """With a thousand busy clients, a tick takes longer rather than reading a few bytes of each."""
    intake = Intake()
    assert run_ticks(intake, [10_000_000] * 1_000, 100)[0] == SHARE_MIN_BYTES


def test_a_publisher_waits_for_queues_that_are_behind() -> None:
    intake = Intake()
    taken = run_ticks(intake, [10_000_000], 100, is_behind=True)
    assert sum(taken) * SECONDS_PER_BYTE <= INTAKE_SECONDS


def test_the_others_fall_silent() -> None:
    """A client that is alone again soon gets its large share back."""
    intake = Intake()
    run_ticks(intake, [10_000_000, 10_000_000], 100)
    assert run_ticks(intake, [10_000_000], 100) == [TICK_READ_BYTES]


def test_small_loads_are_not_cut() -> None:
    """Many clients that send little take less than the time of a tick, so that none of them is limited."""
    intake = Intake()
    run_ticks(intake, [100] * 100, 100)
    assert intake.share == TICK_READ_BYTES


def test_a_standstill_counts_little() -> None:
    """One tick that took a second, because the system ran something else, does not make shares small for long."""
    intake = Intake()
    run_ticks(intake, [10_000_000, 10_000_000], 100)
    before = intake.share
    intake.end_tick([int(before), int(before)], 1.0, False, False)
    assert int(intake.share) >= 0.8 * int(before)


def test_what_was_read_is_returned() -> None:
    intake = Intake()
    run_ticks(intake, [10_000_000, 10_000_000], 100)
    view = intake.buffer()
    view[:5] = b"hello"
    assert intake.received(5) == b"hello"
