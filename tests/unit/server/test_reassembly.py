"""Connections that have begun large messages go on one at a time once these take too much memory."""

import pytest

from flintmq.protocol.reassembly import NodeReassembly
from flintmq.server.reassembly import RoundRobin
from tests.sim.loop import VirtualLoop


class Connection:
    def __init__(self, node: "Node") -> None:
        self._node = node
        node.connections.append(self)
        self.received_bytes = 0
        self.assembled_bytes = 0
        self.is_waiting_for_us = False
        self.is_read = True
        self.was_ended = False

    def receive(self, size: int, ends: bool = False) -> None:
        """So much of a message came, of which the server is told when its tick ends."""
        assert self.is_read
        self.received_bytes += size
        held = -self.assembled_bytes if ends else size
        self.assembled_bytes += held
        self._node.assembling.held += held
        self.is_read = not self._node.reassembly.must_wait(self)

    def resume_reassembly(self) -> None:
        self.is_read = True

    def end_assembly(self) -> None:
        self.was_ended = True
        self._node.assembling.held -= self.assembled_bytes
        self.assembled_bytes = 0
        self.is_read = False
        self._node.reassembly.gone(self)


class Node:
    def __init__(self) -> None:
        self.loop = VirtualLoop(0.0)
        self.assembling = NodeReassembly()
        self.assembling.most = 1_000
        self.connections: list[Connection] = []
        self.reassembly = RoundRobin(self.loop, self.assembling, lambda: self.connections)

    def wait(self, seconds: float) -> None:
        self.loop.run(self.loop.time() + seconds)


@pytest.fixture
def node() -> Node:
    return Node()


def crowd(node: Node, count: int) -> list[Connection]:
    """So many with half a message of 500 bytes each."""
    connections = [Connection(node) for _ in range(count)]
    for each in connections:
        each.receive(500)
    node.wait(0.0)
    return connections


def test_nobody_waits_while_there_is_room(node: Node) -> None:
    """Nor does who has begun nothing, when there is none."""
    assert all(each.is_read for each in crowd(node, 2))
    other = Connection(node)
    crowd(node, 3)
    other.receive(0)
    assert other.is_read


def test_one_after_the_other_ends_what_it_has_begun(node: Node) -> None:
    """At any time one of those that wait is read from, and when there is room again, all are."""
    *_, third, fourth, fifth = connections = crowd(node, 5)
    assert [each.is_read for each in connections] == [True, True, True, False, False]
    third.receive(500, ends=True)
    assert (fourth.is_read, fifth.is_read) == (True, False)
    fourth.receive(500, ends=True)
    assert fifth.is_read
    assert node.assembling.held == 1_500


def test_a_turn_ends(node: Node) -> None:
    """A message that comes slowly keeps nobody waiting for longer than a few seconds, and has its turn again."""
    connections = crowd(node, 4)
    slow, other = connections[2:]
    turns = 0
    for _ in range(40):
        node.wait(0.5)
        if slow.is_read:
            slow.receive(1)
        if other.is_read:
            turns += 1
            other.receive(1)
    assert turns > 5
    assert slow.received_bytes > 505
    assert not slow.was_ended
    assert not other.was_ended


def test_who_could_go_on_and_does_not_is_closed(node: Node) -> None:
    """Others wait for its memory; but not where it is the broker that lets it wait."""
    idle, first, silent, blocked = crowd(node, 4)
    blocked.is_waiting_for_us = True
    for _ in range(60):
        node.wait(0.5)
        if first.is_read:
            first.receive(1)
    assert idle.was_ended
    assert silent.was_ended
    assert not blocked.was_ended
    assert not first.was_ended
    assert first.is_read


def test_a_standstill_is_nobodys_fault(node: Node) -> None:
    """A broker that did nothing for a minute has looked once meanwhile."""
    connections = crowd(node, 4)
    node.loop.stand_still(60.0)
    node.wait(1.0)
    assert not any(each.was_ended for each in connections)


def test_who_is_gone_leaves_its_turn(node: Node) -> None:
    """Its connection was lost, and the next one goes on."""
    *_, third, fourth, fifth = crowd(node, 5)
    node.assembling.held -= third.assembled_bytes
    node.reassembly.gone(third)
    assert (fourth.is_read, fifth.is_read) == (True, False)
