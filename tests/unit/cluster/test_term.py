"""A term of leadership: which followers count as in sync, and how it ends."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import create_autospec

import pytest

from flintmq.cluster.coordinator import Coordinator, CoordinatorError, Leader, OutcomeUnknown, View
from flintmq.cluster.leading import Followers, History
from flintmq.cluster.state import NodeState
from flintmq.cluster.term import Term
from flintmq.storage.files import RealDisk
from flintmq.storage.replication.log import OperationLog
from tests.sim.loop import VirtualLoop
from tests.waiting import WAIT_SECONDS

NUMBER = 7


async def never(_: int) -> None:
    await asyncio.Event().wait()


class Leading:
    """What a term needs: node a leads, and alone is in sync. The followers `there` have caught up."""

    def __init__(self, path: Path, there: str) -> None:
        self.coordinator = create_autospec(Coordinator, instance=True)
        self.coordinator.changed.side_effect = never
        self.followers = create_autospec(Followers, instance=True)
        self.followers.history, self.followers.seen_term = History(NUMBER, 0, 0), 0
        self.followers.caught_up.return_value = frozenset(there)
        self.operations = create_autospec(OperationLog, instance=True)
        self.operations.newest, self.operations.is_long = 100, False
        self._state = NodeState(RealDisk(), path, "c", "a")

    async def term(self) -> Term:
        view = View(NUMBER, Leader("a", NUMBER, 1), frozenset("a"), 1)
        term = Term(self.coordinator, "c", "a", self._state, self.operations, self.followers, view, 1, "")
        await term.begin()
        return term


def test_a_node_that_comes_is_required_when_it_is_near(tmp_path: Path) -> None:
    """Publishers would have to wait for everything that a node lacks which has just copied the files."""
    leading = Leading(tmp_path, "b")
    coordinator, operations = leading.coordinator, leading.operations
    operations.acknowledged.return_value = 50

    async def lead() -> None:
        written = asyncio.Event()

        async def write(term: int, revision: int, nodes: frozenset[str]) -> int:
            assert nodes == {"a", "b"}
            written.set()
            return revision + 1

        coordinator.write_in_sync.side_effect = write
        term = await leading.term()
        async with asyncio.timeout(WAIT_SECONDS):
            while len(term._looks) < 3:  # noqa: ASYNC110 - nobody tells of looks
                await asyncio.sleep(0.01)
            assert {call.args[0] for call in operations.require.call_args_list} == {frozenset()}
            operations.acknowledged.return_value = 100
            await written.wait()
            assert frozenset("b") in {call.args[0] for call in operations.require.call_args_list}
        await term.resign()

    asyncio.run(lead())


def test_publishers_do_not_wait_for_a_first_copy(tmp_path: Path) -> None:
    """What is kept for a node that copies would make them wait until it has copied everything."""
    leading = Leading(tmp_path, "")
    followers, operations = leading.followers, leading.operations

    async def lead() -> None:
        spared = asyncio.Event()
        followers.spare_publishers.side_effect = spared.set
        term = await leading.term()
        async with asyncio.timeout(WAIT_SECONDS):
            while len(term._looks) < 2:  # noqa: ASYNC110 - nobody tells of looks
                await asyncio.sleep(0.01)
            assert not spared.is_set()
            operations.is_long = True
            await spared.wait()
        await term.resign()

    asyncio.run(lead())


def test_a_node_of_a_write_without_an_answer_may_count_as_in_sync(tmp_path: Path) -> None:
    """It must not copy files before it is known that the coordinator does not count it, whatever is written next."""
    leading = Leading(tmp_path, "b")
    coordinator, followers, operations = leading.coordinator, leading.followers, leading.operations
    operations.acknowledged.return_value = 100

    async def lead() -> None:
        written: list[frozenset[str]] = []
        again = asyncio.Event()

        async def write(term: int, revision: int, nodes: frozenset[str]) -> int:
            written.append(nodes)
            if len(written) == 1:
                followers.caught_up.return_value = frozenset("c")
                raise OutcomeUnknown("no answer")
            assert followers.in_sync == {"a", "b", "c"}
            again.set()
            return revision + 1

        coordinator.write_in_sync.side_effect = write
        coordinator.view.side_effect = CoordinatorError("no answer")
        term = await leading.term()
        async with asyncio.timeout(WAIT_SECONDS):
            await again.wait()
        assert written == [{"a", "b"}, {"a", "c"}]
        await term.resign()

    asyncio.run(lead())


# -- the end ------------------------------------------------------------------------------------------------------


class Service:
    def __init__(self) -> None:
        self.resigned: list[int] = []
        self.is_away = False

    async def resign(self, term: int) -> None:
        self.resigned.append(term)
        if self.is_away:
            raise CoordinatorError("it is away")


async def term(service: Service) -> Term:
    followers = cast(Followers, SimpleNamespace(history=SimpleNamespace(term=NUMBER)))
    nothing = None
    coordinator, state, log = cast(Coordinator, service), cast(NodeState, nothing), cast(OperationLog, nothing)
    return Term(coordinator, "c", "a", state, log, followers, View(1), 2, replaced="")


@pytest.mark.parametrize("is_away", [False, True])
def test_others_may_lead_before_the_broker_has_stopped(is_away: bool) -> None:
    """Its disk may stall. If the coordinator is not there, they find out without it."""
    loop, service = VirtualLoop(0.0), Service()
    service.is_away = is_away
    ending = loop.complete(term(service), 1.0)
    ending.end("the disk takes no writes")
    ending.end("another reason")
    loop.run(2.0)
    assert (service.resigned, ending.reason) == ([NUMBER], "the disk takes no writes")


def test_who_hands_over_is_the_leader_until_all_is_confirmed() -> None:
    """The broker stops first, and answers its clients."""
    loop, service = VirtualLoop(0.0), Service()
    ending = loop.complete(term(service), 1.0)
    ending.end("shutdown", is_handed_over=True)
    loop.run(2.0)
    assert service.resigned == []
