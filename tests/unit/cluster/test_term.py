"""The end of a term."""

from types import SimpleNamespace
from typing import cast

import pytest

from flintmq.cluster.coordinator import Coordinator, CoordinatorError, View
from flintmq.cluster.leading import Followers
from flintmq.cluster.state import NodeState
from flintmq.cluster.term import Term
from flintmq.storage.replication.log import OperationLog
from tests.sim.loop import VirtualLoop

NUMBER = 7


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
