"""A busy client is read in large batches while it is alone, and in small ones while others wait."""

import random

import pytest

from flintmq.base.limits import (
    CLIENT_INTAKE_SECONDS,
    CONTENDED_WORK_UNITS,
    INTAKE_MAX_SECONDS,
    INTAKE_MIN_SECONDS,
    INTAKE_SECONDS,
    MODEST_INTAKE_SECONDS,
    SHARE_MIN_BYTES,
    TICK_READ_BYTES,
    TICK_WORK_UNITS,
)
from flintmq.server.intake import Intake

# At this cost, handling 64 KiB takes INTAKE_SECONDS.
SECONDS_PER_BYTE = INTAKE_SECONDS / 65_536
SECONDS_PER_READ = 0.000_003


def time_of(clients: int) -> float:
    """The time that an intake of so many clients takes at most."""
    return INTAKE_SECONDS + clients * CLIENT_INTAKE_SECONDS


def run_tick(
    intake: Intake,
    waiting: list[int],
    cost: float = SECONDS_PER_BYTE,
    is_behind: bool = False,
    is_modest: bool = False,
    dispatch_seconds: float = 0.0,
    durable: float = 0.0,
) -> list[int]:
    """Run a tick in which each client sends as many of its waiting bytes as its share and its turn allow.

    `durable` is the portion of the bytes that go to the journal. Returns the bytes. Clients that have no turn send
    nothing.
    """
    taken: list[int] = []
    turns = int(intake.turns) if intake.is_contended else len(waiting)
    for size in waiting:
        is_greedy = size >= int(intake.share)
        if not is_greedy or turns > 0:
            taken.append(min(size, int(intake.share)))
            turns -= is_greedy
    seconds = sum(taken) * cost + len(taken) * SECONDS_PER_READ
    unsynced = int(durable * sum(taken))
    intake.end_tick(taken, len(waiting) - len(taken), seconds, dispatch_seconds, is_behind, is_modest, unsynced)
    return taken


def run_ticks(
    intake: Intake,
    waiting: list[int],
    ticks: int,
    is_behind: bool = False,
    is_modest: bool = False,
    durable: float = 0.0,
) -> list[int]:
    """Run several ticks, and return the bytes of the last one."""
    for _ in range(ticks - 1):
        run_tick(intake, waiting, is_behind=is_behind, is_modest=is_modest, durable=durable)
    return run_tick(intake, waiting, is_behind=is_behind, is_modest=is_modest, durable=durable)


def test_a_client_alone_sends_large_batches() -> None:
    intake = Intake()
    assert run_ticks(intake, [10_000_000], 100) == [TICK_READ_BYTES]
    assert len(intake.buffer()) == 256 * 1024


def test_several_busy_clients_share_the_time_of_a_tick() -> None:
    intake = Intake()
    taken = run_ticks(intake, [10_000_000, 10_000_000], 100)
    assert taken[0] == taken[1]
    assert 0.9 * INTAKE_SECONDS <= sum(taken) * SECONDS_PER_BYTE <= time_of(2)
    assert len(intake.buffer()) == intake.share


@pytest.mark.parametrize("is_modest", [False, True])
def test_batches_are_larger_the_more_the_disk_has_to_do(is_modest: bool) -> None:
    """A few durable messages beside others that are not change little."""
    seconds: list[float] = []
    for durable in (0.0, 0.01, 0.5, 1.0, 10.0):
        taken = run_ticks(Intake(), [10_000_000, 10_000_000], 100, is_modest=is_modest, durable=durable)
        seconds.append(sum(taken) * SECONDS_PER_BYTE)
    assert seconds == sorted(seconds)
    assert seconds[1] < 1.2 * seconds[0]
    assert 0.9 * INTAKE_MAX_SECONDS <= seconds[3] <= 1.01 * INTAKE_MAX_SECONDS
    assert seconds[4] == seconds[3]


def test_ticks_are_short_while_a_modest_client_is_waited_for() -> None:
    """They stay short for several ticks, because the client need not publish in each of them."""
    intake = Intake()
    taken: list[int] = []
    for _ in range(20):
        run_tick(intake, [10_000_000, 10_000_000, 1_000], is_modest=True)
        taken = run_ticks(intake, [10_000_000, 10_000_000], 10)
    assert sum(taken) * SECONDS_PER_BYTE <= MODEST_INTAKE_SECONDS + 3 * CLIENT_INTAKE_SECONDS < INTAKE_SECONDS
    assert intake.dispatch_seconds < 2 * INTAKE_SECONDS
    taken = run_ticks(intake, [10_000_000, 10_000_000], 100)
    assert 0.9 * INTAKE_SECONDS <= sum(taken) * SECONDS_PER_BYTE <= time_of(2)


def test_modest_clients_alone_change_nothing() -> None:
    intake = Intake()
    run_ticks(intake, [1_000, 1_000], 100, is_modest=True)
    assert run_ticks(intake, [10_000_000], 10) == [TICK_READ_BYTES]


def test_batches_are_larger_with_many_clients() -> None:
    """Each read and write then carries more messages."""
    intake = Intake()
    taken = run_ticks(intake, [10_000_000, *[1_000] * 40], 100)
    assert taken[0] * SECONDS_PER_BYTE > 2 * INTAKE_SECONDS
    assert intake.dispatch_seconds > 4 * INTAKE_SECONDS


def test_a_modest_client_leaves_its_share_to_others() -> None:
    intake = Intake()
    taken = run_ticks(intake, [10_000_000, 100], 100)
    assert taken[1] == 100
    assert 0.9 * INTAKE_SECONDS <= sum(taken) * SECONDS_PER_BYTE <= time_of(2)


def test_a_share_is_worth_a_system_call() -> None:
    """A thousand busy clients have turns, rather than being read a few bytes each."""
    intake = Intake()
    taken = run_ticks(intake, [10_000_000] * 1_000, 100)
    assert taken[0] == SHARE_MIN_BYTES
    assert 0.5 * INTAKE_SECONDS <= sum(taken) * SECONDS_PER_BYTE <= time_of(len(taken))


def test_publishers_wait_for_queues_that_are_behind() -> None:
    """The longer queues are behind, the less is taken in, until they keep up."""
    intake = Intake()
    taken = run_ticks(intake, [10_000_000], 100, is_behind=True)
    assert sum(taken) * SECONDS_PER_BYTE <= INTAKE_SECONDS / 2
    run_ticks(intake, [10_000_000] * 2, 10, is_behind=True)
    recovered = run_ticks(intake, [10_000_000] * 2, 100)
    assert 0.9 * INTAKE_SECONDS <= sum(recovered) * SECONDS_PER_BYTE <= time_of(2)


def test_a_modest_client_beside_a_long_dispatch() -> None:
    """Clients wait for deliveries to others, too, even if hardly anything is published."""
    intake = Intake()
    run_tick(intake, [100], is_behind=True, dispatch_seconds=0.01)
    assert intake.is_contended
    assert intake.work == CONTENDED_WORK_UNITS
    for _ in range(100):
        run_tick(intake, [100])
    assert not intake.is_contended
    assert intake.work == TICK_WORK_UNITS


def test_a_consumer_alone_gets_large_batches() -> None:
    intake = Intake()
    run_tick(intake, [], is_behind=True, dispatch_seconds=0.01)
    assert not intake.is_contended


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


@pytest.mark.parametrize("clients", [1, 5, 20])
def test_shares_are_steady_while_costs_vary(clients: int) -> None:
    """A client that has used up its share is not taken for a modest one when bytes become a little cheaper."""
    intake = Intake()
    waiting = [10_000_000] * clients
    run_ticks(intake, waiting, 100, is_behind=True)
    costs = random.Random(clients)  # noqa: S311 - a repeatable test
    for _ in range(1_000):
        run_tick(intake, waiting, SECONDS_PER_BYTE * costs.uniform(0.9, 1.1), is_behind=True)
        total = int(intake.share) * min(clients, int(intake.turns)) * SECONDS_PER_BYTE
        assert 0.8 * INTAKE_MIN_SECONDS <= total <= max(1.2 * INTAKE_MIN_SECONDS, SHARE_MIN_BYTES * SECONDS_PER_BYTE)


def test_a_tick_of_no_time() -> None:
    """A clock that did not advance says nothing of the cost."""
    intake = Intake()
    run_ticks(intake, [10_000_000, 10_000_000], 100)
    before = intake.share
    intake.end_tick([100, 100], 0, 0.0, 0.0, False, False, 0)
    assert intake.share == before


@pytest.mark.parametrize("was_contended", [False, True])
def test_clients_with_work_left_and_no_bytes(was_contended: bool) -> None:
    """Clients that continue with what they have sent before have turns like others, from the first tick on."""
    intake = Intake()
    if was_contended:
        run_ticks(intake, [10_000_000, 10_000_000], 100)
        run_ticks(intake, [], 100)
    intake.end_tick([0, 0], 0, 0.02, 0.0, False, False, 0)
    assert intake.is_contended
    assert intake.turns >= 1


def test_a_standstill_counts_little() -> None:
    """One tick that took a second, because the system ran something else, does not make shares small for long."""
    intake = Intake()
    run_ticks(intake, [10_000_000, 10_000_000], 100)
    before = intake.share
    run_tick(intake, [10_000_000, 10_000_000], cost=1.0 / int(before))
    assert int(intake.share) >= 0.8 * int(before)


def test_what_was_read_is_returned() -> None:
    intake = Intake()
    run_ticks(intake, [10_000_000, 10_000_000], 100)
    view = intake.buffer()
    view[:5] = b"hello"
    assert intake.received(5) == b"hello"
