"""Which of several nodes is connected to."""

from collections.abc import Callable

import pytest

import flintmq.client as fc
from flintmq.base.errors import ConnectionLost
from flintmq.spark.endpoint import CONNECT_SECONDS, NODE_SECONDS, Endpoint

A, B, C = (f"amqp://guest:secret@{node}:5672/%2f" for node in "abc")
NODES = Endpoint(f"{A}\n {B}  {C}\n")

Answers = dict[str, Exception]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answers], list[tuple[str, float]]]:
    """Gives what is connected to from now on, where these addresses fail."""

    def begin(answers: Answers) -> list[tuple[str, float]]:
        found: list[tuple[str, float]] = []

        def connect(url: str, timeout: float) -> str:
            found.append((url, timeout))
            if url in answers:
                raise answers[url]
            return url

        monkeypatch.setattr(fc, "connect", connect)
        return found

    return begin


def test_the_first_node_that_serves_clients(tried: Callable[[Answers], list[tuple[str, float]]]) -> None:
    """Nodes that refuse, say nothing, or have no leader to relay to are passed over."""
    asked = tried({A: fc.ConnectTimeout("no answer"), B: ConnectionLost("closed")})
    assert str(NODES.connect()) == C
    assert asked == [(A, NODE_SECONDS), (B, NODE_SECONDS), (C, NODE_SECONDS)]
    asked = tried({A: fc.ConnectionClosed(320, "CONNECTION_FORCED - no longer the leader")})
    assert str(NODES.connect()) == B


@pytest.mark.parametrize(("first", "order"), [(1, [B, C, A]), (2, [C, A, B]), (3, [A, B, C]), (7, [B, C, A])])
def test_readers_are_spread(tried: Callable[[Answers], list[tuple[str, float]]], first: int, order: list[str]) -> None:
    """Each begins with another node, and all nodes are tried."""
    asked = tried(dict.fromkeys(order[:2], fc.ConnectFailed("gone")))
    assert str(NODES.connect(first)) == order[2]
    assert [url for url, _ in asked] == order


def test_no_node_serves_clients(tried: Callable[[Answers], list[tuple[str, float]]]) -> None:
    """The error is that of the last one."""
    tried({A: fc.ConnectFailed("a"), B: fc.ConnectFailed("b"), C: fc.ConnectFailed("c")})
    with pytest.raises(fc.ConnectFailed, match="c"):
        NODES.connect()


def test_other_nodes_do_not_know_another_password(tried: Callable[[Answers], list[tuple[str, float]]]) -> None:
    """What all nodes would refuse is refused once."""
    asked = tried({A: fc.LoginRefused(403, "ACCESS_REFUSED")})
    with pytest.raises(fc.LoginRefused):
        NODES.connect()
    assert len(asked) == 1


def test_a_wrong_url_is_found_before_it_is_needed(tried: Callable[[Answers], list[tuple[str, float]]]) -> None:
    """Not only when the first node is lost."""
    asked = tried({})
    for wrong in (f"{A},{B}", f"{A} b:5672", ""):
        with pytest.raises(fc.InvalidUrl):
            Endpoint(wrong).connect()
    assert asked == []


def test_a_broker_that_is_alone(tried: Callable[[Answers], list[tuple[str, float]]]) -> None:
    """There is no other one to ask: it gets more time."""
    asked = tried({})
    Endpoint(A).connect()
    assert asked == [(A, CONNECT_SECONDS)]
