"""A leader and the followers that it counts as in sync."""

import asyncio
from pathlib import Path
from unittest.mock import create_autospec

from flintmq.cluster.coordinator import Coordinator, Leader, View
from flintmq.cluster.leading import Followers, History
from flintmq.cluster.state import NodeState
from flintmq.cluster.term import Term
from flintmq.storage.files import RealDisk
from flintmq.storage.replication.log import OperationLog
from tests.waiting import WAIT_SECONDS

_TERM = 7


async def never(_: int) -> None:
    await asyncio.Event().wait()


def test_a_node_that_comes_is_required_when_it_is_near(tmp_path: Path) -> None:
    """Publishers would have to wait for everything that a node lacks which has just copied the files."""
    coordinator = create_autospec(Coordinator, instance=True)
    coordinator.changed.side_effect = never
    followers = create_autospec(Followers, instance=True)
    followers.history, followers.seen_term = History(_TERM, 0, 0), 0
    followers.caught_up.return_value = frozenset("b")
    operations = create_autospec(OperationLog, instance=True)
    operations.newest = 100
    operations.acknowledged.return_value = 50
    view = View(_TERM, Leader("a", _TERM, 1), frozenset("a"), 1)

    async def lead() -> None:
        written = asyncio.Event()

        async def write(term: int, revision: int, nodes: frozenset[str]) -> int:
            assert nodes == {"a", "b"}
            written.set()
            return revision + 1

        coordinator.write_in_sync.side_effect = write
        state = NodeState(RealDisk(), tmp_path, "c", "a")
        term = Term(coordinator, "c", "a", state, operations, followers, view, 1, "")
        await term.begin()
        async with asyncio.timeout(WAIT_SECONDS):
            while len(term._looks) < 3:  # noqa: ASYNC110 - nobody tells of looks
                await asyncio.sleep(0.01)
            assert {call.args[0] for call in operations.require.call_args_list} == {frozenset()}
            operations.acknowledged.return_value = 100
            await written.wait()
            assert frozenset("b") in {call.args[0] for call in operations.require.call_args_list}
        await term.resign()

    asyncio.run(lead())
