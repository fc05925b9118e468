"""How long a cluster does without a leader that is stopped, killed, cut off in one direction, or whose disk fails."""

import errno
from collections.abc import Iterator

import pytest

from tests.sim.cluster.computer import Computer
from tests.sim.cluster.run import Run

# What a killed process was about to wait for.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
# Simulated seconds. Messages take up to half a millisecond; disks, and starting a broker, take almost nothing.
_STOPPED_SECONDS = 0.025
_KILLED_SECONDS = 0.025
# A cluster may be without confirms for so long at worst; mostly, it is for 2.4 seconds.
_WITHOUT_CONFIRMS_SECONDS = 3.0
_UNDISTURBED_SECONDS = 5.0
# Nodes whose disks have failed wait for each other first.
_REPAIRED_SECONDS = 6.0
# A run of three nodes, of which two have to be in sync, and which keep enough to follow another leader without a copy.
_SEED = 5
# Another one, whose nodes have to copy.
_COPYING_SEED = 8


@pytest.fixture
def seed() -> int:
    return _SEED


@pytest.fixture
def run(seed: int) -> Iterator[Run]:
    """All nodes are in sync, and clients publish."""
    made = Run(seed)
    assert (len(made.computers), made._min_in_sync) == (3, 2)
    try:
        for each in made.computers:
            each.start()
        made._await_all_in_sync()
        confirms(made, 30.0)
        yield made
    finally:
        made._close()


def confirms(run: Run, seconds: float) -> None:
    """Something is confirmed within so many simulated seconds that was published after this."""
    confirmed = run.figures.confirmed
    # What was under way before is not many.
    assert run._run(seconds, lambda: run.figures.confirmed > confirmed + 20), f"no confirms within {seconds} s"


def leader(run: Run) -> str:
    assert run.service.leader is not None
    return run.service.leader.node


def leader_and_others(run: Run) -> tuple[Computer, list[Computer]]:
    old = next(each for each in run.computers if each.serving is not None)
    return old, [each for each in run.computers if each is not old]


def spare_the_probe(computer: Computer) -> None:
    """The probe of its disk does not fail with the rest."""
    trouble = computer.disk.trouble

    def trouble_elsewhere(what: str, name: str) -> None:
        if trouble is not None and name != ".cluster.probe":
            trouble(what, name)

    computer.disk.trouble = trouble_elsewhere


def fail_disks(run: Run, computers: list[Computer], kind: int, seconds: float) -> None:
    """Nothing can be written for so many simulated seconds."""
    end = run.world.now + seconds
    while run.world.now < end:
        for each in computers:
            each.error, each.fuse, each.has_failed = kind, 0, True
        run._run(0.01)
    for each in computers:
        each.repair()


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_a_leader_ends(run: Run, is_killed: bool) -> None:
    """Another node leads after a few messages between the nodes and the coordinator: nobody waits for a time."""
    old, others = leader_and_others(run)
    if is_killed:
        old.kill()
    else:
        old.stop()
    until = run.world.now + (_KILLED_SECONDS if is_killed else _STOPPED_SECONDS)
    while not any(each.serving is not None for each in others):
        assert run.world.now < until
        run._run(0.001)


@pytest.mark.parametrize("is_heard", [True, False], ids=["hears nothing", "is not heard"])
def test_a_leader_without_followers_is_replaced(run: Run, is_heard: bool) -> None:
    """Whichever way is cut, followers that reach the coordinator replace the leader in time, and go on."""
    old = leader(run)
    others = {each.name for each in run.computers} - {old}
    run.network.cuts |= {(other, old) if is_heard else (old, other) for other in others}
    confirms(run, _WITHOUT_CONFIRMS_SECONDS)
    assert leader(run) in others


@pytest.mark.parametrize("seed", [_COPYING_SEED])
def test_a_new_leader_needs_a_copy(run: Run) -> None:
    """The old leader is in sync and cannot follow. The other node copies at once, and does not wait for confirms."""
    test_a_leader_without_followers_is_replaced(run, is_heard=True)


@pytest.mark.parametrize("is_heard", [True, False], ids=["hears nothing", "is not heard"])
def test_a_leader_with_a_follower_goes_on(run: Run, is_heard: bool) -> None:
    """A follower that alone has a cut connection is let go. It does not become the leader."""
    old = leader(run)
    other = next(each.name for each in run.computers if each.name != old)
    run.network.cuts.add((other, old) if is_heard else (old, other))
    confirms(run, _WITHOUT_CONFIRMS_SECONDS)
    run._run(_UNDISTURBED_SECONDS)
    assert leader(run) == old
    assert other not in run.service.in_sync
    run.network.heal()
    run._await_all_in_sync()
    assert leader(run) == old


@pytest.mark.parametrize("kind", [errno.ENOSPC, errno.EIO], ids=["full", "failing"])
def test_all_disks_fail(run: Run, kind: int) -> None:
    """Nodes with the same data have full disks at the same time. As soon as there is room, one of them leads."""
    fail_disks(run, run.computers, kind, 5.0)
    assert run.service.leader is None
    confirms(run, _REPAIRED_SECONDS)
    run._await_all_in_sync()


@pytest.mark.parametrize("has_led", [False, True], ids=["first", "again"])
def test_only_the_disk_of_the_leader_fails(run: Run, has_led: bool) -> None:
    """A node with a sound disk leads, even if it comes back a moment later."""
    if has_led:
        test_all_disks_fail(run, errno.EIO)
        run._run(_UNDISTURBED_SECONDS)
    old, others = leader_and_others(run)
    for each in others:
        each.kill()
    fail_disks(run, [old], errno.EIO, 1.0)
    for each in others:
        each.start()
    confirms(run, _REPAIRED_SECONDS)
    assert leader(run) != old.name


def test_the_last_disk_fails(run: Run) -> None:
    """The other nodes are gone: the leader leads again, because it has all that was confirmed."""
    old, others = leader_and_others(run)
    for each in others:
        each.kill()
    fail_disks(run, [old], errno.EIO, 1.0)
    run._run(_REPAIRED_SECONDS)
    assert leader(run) == old.name
    for each in others:
        each.start()
    confirms(run, _REPAIRED_SECONDS)
    assert leader(run) == old.name


def test_a_full_disk_that_renews_the_lease(run: Run) -> None:
    """What needs no room can be written to it. A node that is elected with such a disk makes way for another one."""
    for each in run.computers:
        spare_the_probe(each)
    fail_disks(run, run.computers, errno.EIO, 1.0)
    fail_disks(run, run.computers, errno.ENOSPC, 8.0)
    full = run.computers[0] if run.service.leader is None else run._named(run.service.leader.node)
    confirmed = run.figures.confirmed
    fail_disks(run, [full], errno.ENOSPC, 2 * _REPAIRED_SECONDS)
    assert run.figures.confirmed > confirmed
