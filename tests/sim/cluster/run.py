"""A run: a cluster of three or five nodes under load, while everything fails that can fail; at last it must work."""

import errno
import logging
import random
from collections.abc import Callable
from typing import Final, final
from zlib import crc32

from flintmq.base.errors import StorageError
from flintmq.base.limits import FRAME_MAX_BYTES
from flintmq.broker.message import Entry
from flintmq.cluster.coordinator import Leader
from flintmq.cluster.state import NodeState
from tests.sim.baton import Baton
from tests.sim.cluster.clients import Client
from tests.sim.cluster.computer import CLUSTER, Computer
from tests.sim.cluster.coordinator import Service
from tests.sim.cluster.ledger import Copy, Ledger, Reign, numbers
from tests.sim.cluster.machine import COORDINATOR, Network
from tests.sim.cluster.process import World
from tests.sim.database import DatabaseFile
from tests.sim.ledger import FailedRecovery, Lost, Unexpected, Violation
from tests.sim.loop import VirtualLoop
from tests.sim.node import DATA, Node

# How long (seconds) all works, and then things fail, and how long the cluster may take afterwards.
_BEGINS_SECONDS: Final = 2.0
FAULTS_SECONDS: Final = 12.0
_LEADS_SECONDS: Final = 30.0
_IN_SYNC_SECONDS: Final = 60.0
_ANSWERS_SECONDS: Final = 30.0
_LEARNS_SECONDS: Final = 2.0
_WISH_SECONDS: Final = 3.0
# Longer than any run, and how long it may take until another node has replaced a leader, and clients have found it.
_FOR_GOOD_SECONDS: Final = 30.0
_REPLACED_SECONDS: Final = 15.0
_SEGMENT_BYTES: Final = (6_000, 20_000, 200_000)
# What a node keeps of its latest operations. Few of those that were away find in the smallest one what they lack.
_KEPT_BYTES: Final = (2_000, 20_000, 10_000_000)
# How likely it is looked what a node has that is added to those in sync, when the next message is confirmed, or that is
# in sync still when it comes back.
_ADDED_CHANCE: Final = 0.25
_BACK_CHANCE: Final = 0.4
# A leader that can confirm nothing any more serves no longer than this time, if its process runs.
_STOPS_SECONDS: Final = 1.0
# A process that has gone on finds out what it has missed within this time.
_NOTICES_SECONDS: Final = 0.1

logging.getLogger("flintmq").setLevel(logging.CRITICAL)


class Stuck(Violation):
    """What has to happen in time does not."""


@final
class Run:
    """One seed. A violation of what is promised is raised."""

    def __init__(self, seed: int, trace: bool = False) -> None:
        self.seed = seed
        chance = random.Random(seed)
        self.chance = chance
        self.world = World(chance)
        self.network = Network(self.world)
        self.service = Service(self.network)
        self.ledger = Ledger(["one", "two"], "stream")
        self.figures = self.ledger.figures
        if trace:
            self.world.trace = self.ledger.trace = self._print
        # What the nodes' disks hold, and what the coordinator knows: the same for each run of a seed.
        self.digest = ""
        self._is_healing = False
        self._numbers = 0
        self._reigns: dict[Node, Reign] = {}
        count = chance.choice((3, 3, 3, 5))
        self._min_in_sync = chance.choice((1, 2, 2)) if count == 3 else chance.choice((2, 3))
        segment_bytes = chance.choice(_SEGMENT_BYTES)
        kept_bytes = chance.choice(_KEPT_BYTES)
        self.computers = [
            Computer(
                name,
                self.network,
                self.service,
                self._min_in_sync,
                segment_bytes,
                kept_bytes,
                chance.getrandbits(32),
            )
            for name in "abcde"[:count]
        ]
        self.service.on_lease_end = self._lease_ended
        self.service.on_in_sync = self._in_sync_changed
        self.network.on_copy = self._copies
        # Nodes with a new disk, and whether they were taken out of those in sync since.
        self._without_data: dict[str, bool] = {}
        # Since when the disks of nodes that serve have failed.
        self._failed_since: dict[Node, float] = {}
        for each in self.computers:
            each.begins = self._begins
            each.served = self._served
            each.ended = self._ended
            each.lost = self._lost
        kinds = ["publish", "publish", "consume", "read", "move"][: chance.randrange(3, 6)]
        self._clients = [
            Client(self, number, kind, random.Random(chance.getrandbits(32))) for number, kind in enumerate(kinds, 1)
        ]
        self._pace = chance.choice((0.3, 0.8, 2.0))
        faults: list[tuple[Callable[[], None], int, int]] = [
            (self._kill, 3, 6),
            (self._lose_power, 2, 6),
            (self._lose_all_power, 0, 1),
            (self._stop, 1, 3),
            (self._stand_still, 1, 4),
            (self._partition, 1, 5),
            (self._cut_coordinator, 1, 3),
            (self._break_links, 1, 3),
            (self._take_coordinator_down, 0, 2),
            (self._lose_answers, 0, 3),
            (self._slow_down, 0, 2),
            (self._stall, 1, 4),
            (self._fail_disk, 0, 3),
            (self._fill_disk, 0, 1),
            (self._lose_disk, 0, 2),
            (self._hand_over, 0, 2),
            (self._inspect, 2, 4),
        ]
        self._faults = [fault for fault, _, _ in faults]
        self._weights = [chance.choice((low, high)) for _, low, high in faults]

    def _take_digest(self) -> str:
        images = [each.disk.image() + each.database.image() for each in self.computers]
        told = f"{self.figures} {self.service.revision} {self._numbers} {self.world.now:.9f} {self.world.count}"
        return f"{crc32(told.encode()):08x}-{crc32(''.join(images).encode()):08x}"

    def _print(self, text: str) -> None:
        print(f"{self.world.now:9.4f}", text, flush=True)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def reign_of(self, node: Node) -> int:
        return self._reigns[node].number

    # -- what nodes tell ----------------------------------------------------------------------------------------

    def _begins(self, computer: Computer, node: Node, term: int) -> None:
        self.figures.terms += 1
        self._reigns[node] = self.ledger.begins(computer.name, term, node)
        self.world.say(computer, "has recovered in term", term)

    def _served(self, computer: Computer, node: Node, term: int) -> None:
        self.world.say(computer, "serves in term", term)
        self.ledger.found(self._reigns[node], node.contents())

    def _ended(self, computer: Computer, fault: BaseException | None) -> None:
        has_failed = computer.has_failed or computer.disk.capacity is not None
        if fault is not None and not (has_failed and isinstance(fault, StorageError)):
            raise Unexpected(f"the process of {computer} has ended: {fault!r}") from fault
        self.figures.exits += 1
        self._start_later(computer, self.chance.random() * 2.0)

    def _named(self, name: str) -> Computer:
        return next(each for each in self.computers if each.name == name)

    def _lease_ended(self, leader: Leader) -> None:
        """A leader serves nobody any more when its lease ends."""
        computer = self._named(leader.node)
        process = computer.process
        if computer.serving is None or process is None or not process.has_run_for(_NOTICES_SECONDS):
            return
        if self.ledger.reigns[self.reign_of(computer.serving) - 1].term == leader.term:
            raise Stuck(f"{computer} serves clients, and its lease has ended")

    def _in_sync_changed(self, before: frozenset[str]) -> None:
        in_sync = self.service.in_sync
        for name in list(self._without_data):
            if name not in in_sync:
                self._without_data[name] = True
            elif self._without_data[name] and self._has_copied(self._named(name)):
                del self._without_data[name]
            else:
                # The leader has added it before it noticed the loss.
                self._without_data[name] = False
        self.ledger.short_from = None if len(in_sync) >= self._min_in_sync else self._numbers
        added = sorted(in_sync - before)
        if added and self.chance.random() < _ADDED_CHANCE:
            computer = self._named(self.chance.choice(added))
            self.ledger.when_confirmed = lambda _: self._look_at(computer)

    def _has_copied(self, computer: Computer) -> bool:
        state = NodeState(computer.disk.copy(0), DATA, CLUSTER, computer.name)
        return state.has_joined and state.is_whole

    def _copies(self, name: str) -> None:
        """A node that copies files could not lead, so it does not count as in sync."""
        if name in self.service.in_sync:
            raise Lost(f"{name} replaces its files, and counts as in sync")

    def _lost(self, node: Node, is_off: bool) -> None:
        """A node is gone: its kernel tells the clients, or they hear nothing for a while."""
        seconds = self.chance.random() * (2.0 if is_off else 0.01)
        for client in self._clients:
            session = client.session
            if session is not None and session.node is node:
                self.world.loop.call_later(seconds, session.cut)

    def _start_later(self, computer: Computer, seconds: float) -> None:
        self.world.loop.call_later(seconds, self._start, computer)

    def _start(self, computer: Computer) -> None:
        """Start a node. If it counts as in sync still, all that was confirmed meanwhile has to wait for it."""
        if computer.process is None and not self._is_healing and self.chance.random() < _BACK_CHANCE:
            self._look_at(computer)
        computer.start()

    # -- the run ------------------------------------------------------------------------------------------------

    def complete(self) -> None:
        try:
            for each in self.computers:
                each.start()
            self._run(_BEGINS_SECONDS)
            self.world.loop.call_soon(self._fault)
            self._run(FAULTS_SECONDS)
            self._heal()
            self._await_all_in_sync()
            self._check_loses_leader()
            self._check_heals()
            self._check_replicas()
            self.digest = self._take_digest()
        finally:
            self._close()

    def _run(self, seconds: float, is_enough: Callable[[], bool] | None = None) -> bool:
        """Let time pass, until there is enough. Returns whether there is."""
        end = self.world.now + seconds
        while self.world.now < end:
            self.world.loop.run(min(self.world.now + 0.1, end))
            self._check_failed_disks()
            if is_enough is not None and is_enough():
                return True
        return False

    def _check_failed_disks(self) -> None:
        """A leader whose disk has failed serves no longer."""
        for each in self.computers:
            node, process = each.serving, each.process
            if node is None or process is None or not node.storage.failure:
                continue
            since = self._failed_since.setdefault(node, self.world.now)
            if self.world.now - since > _STOPS_SECONDS and process.has_run_for(_STOPS_SECONDS):
                raise Stuck(f"{each} serves clients, and its disk has failed: {node.storage.failure}")

    def _close(self) -> None:
        for each in self.computers:
            each.close()

    def _await_all_in_sync(self) -> None:
        everybody = frozenset(each.name for each in self.computers)

        def are_in_sync() -> bool:
            # A leader that stands still has not noticed who has lost its disk.
            return self.service.in_sync == everybody and not self._without_data

        if not self._run(_IN_SYNC_SECONDS, are_in_sync):
            raise Stuck(f"{_IN_SYNC_SECONDS:.0f} s after all faults only {sorted(self.service.in_sync)} are in sync")

    def _check_heals(self) -> None:
        """Clients are confirmed again in time, and all nodes come in sync."""
        confirmed = self.figures.confirmed
        if not self._run(_LEADS_SECONDS, lambda: self.figures.confirmed > confirmed + 5):
            raise Stuck(f"{_LEADS_SECONDS:.0f} s after all faults nothing is confirmed")
        self._await_all_in_sync()
        for client in self._clients:
            client.is_going = False

        def are_answered() -> bool:
            return not any(each.session is not None and each.session.awaits for each in self._clients)

        if not self._run(_ANSWERS_SECONDS, are_answered):
            raise Stuck("clients wait for ever")
        self._run(_LEARNS_SECONDS)
        serving = [each for each in self.computers if each.serving is not None]
        if len(serving) != 1:
            raise Stuck(f"after all faults {serving} serve clients")

    def _check_loses_leader(self) -> None:
        """Whatever becomes of the leader for good, another node leads in time, unless there are too few."""
        leader = next((each for each in self.computers if each.serving is not None), None)
        if leader is None or leader.process is None or len(self.computers) <= self._min_in_sync:
            return
        way = self.chance.choice(("stalls", "stands still", "is cut off", "is killed", "has no power", "has no lease"))
        self.world.say(leader, way, "for good")
        if way == "stalls":
            leader.stalled_until = self.world.now + _FOR_GOOD_SECONDS
        elif way == "stands still":
            leader.process.stand_still(_FOR_GOOD_SECONDS)
        elif way == "is cut off":
            self.network.cut_off(leader.name)
        elif way == "is killed":
            leader.kill()
        elif way == "has no power":
            leader.lose_power()
        else:
            self.network.cuts |= {(leader.name, COORDINATOR), (COORDINATOR, leader.name)}
        confirmed = [*self.ledger.confirmed_by]

        def another_confirms() -> bool:
            return len(self.ledger.confirmed_by) > len(confirmed)

        if not self._run(_REPLACED_SECONDS, another_confirms):
            raise Stuck(f"{_REPLACED_SECONDS:.0f} s after the leader {way} no other node confirms")
        self.network.heal()
        leader.repair()
        leader.start()

    def _check_replicas(self) -> None:
        for each in self.computers:
            self._look_at(each)

    def _look_at(self, computer: Computer) -> None:
        """Whether a node that is in sync could lead, whatever it loses."""
        if computer.name in self.service.in_sync and computer.name not in self._without_data:
            self.world.say("looking at", computer)
            contents = self._contents_of(computer)
            if contents is not None:
                self.figures.inspected_replicas += 1
                self.ledger.check(contents, f"{computer}, which is in sync,")

    def _contents_of(self, computer: Computer) -> dict[str, list[Entry]] | None:
        """What a node would recover after a loss of power; None if its directory is not whole."""
        seed = self.chance.getrandbits(32)
        disk = computer.disk.copy(seed)
        disk.lose_power()
        if not NodeState(disk, DATA, CLUSTER, computer.name).is_whole:
            return None
        chance = random.Random(seed)
        database = DatabaseFile(chance, disk, DATA / "definitions.sqlite")
        database.replace(computer.database.copy())
        baton = Baton()
        try:
            loop = VirtualLoop(self.world.now)
            node = Node(disk, database, loop, chance, baton, computer.segment_bytes, FRAME_MAX_BYTES)
            if node.storage.damage:
                raise FailedRecovery(f"{computer} has damage: {node.storage.damage}")
            return node.contents()
        except StorageError as error:
            raise FailedRecovery(f"{computer} could not start: {error}") from error
        finally:
            baton.kill()
            database.discard()

    def _count_copies(self, copy: Copy) -> None:
        """See that enough nodes have a message that has just been confirmed, whatever they lose."""
        if copy.is_out:
            return
        count = 0
        for computer in self.computers:
            contents = None if computer.name in self._without_data else self._contents_of(computer)
            # One that copies files, or has lost its disk, had the message before.
            count += contents is None or copy.number in numbers(contents.get(copy.queue, ()))
        if count < self._min_in_sync:
            raise Lost(f"{copy} was confirmed, and is on {count} of {self._min_in_sync} nodes only")

    # -- faults -------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self._is_healing:
            return
        if any(self._weights):
            self.chance.choices(self._faults, self._weights)[0]()
        self.world.loop.call_later(self.chance.expovariate(1 / self._pace), self._fault)

    def _soon(self, seconds: float, undo: Callable[[], None]) -> None:
        def undo_before_all_heals() -> None:
            if not self._is_healing:
                undo()

        self.world.loop.call_later(self.chance.random() * seconds, undo_before_all_heals)

    def _any(self) -> Computer:
        """A node; often the one that leads."""
        leader = self.service.leader
        if leader is not None and self.chance.random() < 0.5:
            return self._named(leader.node)
        return self.chance.choice(self.computers)

    def _kill(self) -> None:
        computer = self._any()
        if computer.process is not None:
            self.figures.kills += 1
            computer.kill()
            self._start_later(computer, self.chance.choice((0.0, 0.5, 4.0)) * self.chance.random())

    def _lose_power(self) -> None:
        computer = self._any()
        if computer.process is not None:
            self.figures.power_losses += 1
            if self.chance.random() < 0.5:
                computer.fuse, computer.error = self.chance.randrange(40), 0
                computer.when_off = lambda: self._start_later(computer, self.chance.random() * 4.0)
            else:
                computer.lose_power()
                self._start_later(computer, self.chance.random() * 4.0)

    def _lose_all_power(self) -> None:
        self.figures.all_powers_lost += 1
        for computer in self.computers:
            if computer.is_up:
                computer.lose_power()
            self._start_later(computer, self.chance.random() * 3.0)

    def _stop(self) -> None:
        self.figures.stops += 1
        self._any().stop()

    def _stand_still(self) -> None:
        process = self._any().process
        if process is not None:
            self.figures.stand_stills += 1
            seconds = self.chance.choice((0.5, 2.0, 6.0)) * self.chance.random()
            self.world.say(process.name, "stands still for", seconds)
            process.stand_still(seconds)

    def _partition(self) -> None:
        """Two sides that do not reach each other, or one of which does not reach the other."""
        self.figures.partitions += 1
        names = [each.name for each in self.computers]
        side = set(self.chance.sample(names, self.chance.randrange(1, len(names))))
        if self.chance.random() < 0.3:
            side.add(COORDINATOR)
        others = {*names, COORDINATOR} - side
        if self.chance.random() < 0.5:
            # The coordinator is reached by all.
            side.discard(COORDINATOR)
            others.discard(COORDINATOR)
        cuts = {(one, other) for one in side for other in others}
        if self.chance.random() < 0.7:
            cuts |= {(other, one) for one, other in cuts}
        self.world.say("cut:", sorted(cuts))
        self.network.cuts |= cuts
        self._soon(self.chance.choice((1.0, 5.0)), self._reconnect)

    def _reconnect(self) -> None:
        """The nodes in sync that the leader does not reach have what was confirmed meanwhile; the network is whole."""
        leader = self.service.leader
        if leader is not None:
            for name in sorted(self.service.in_sync):
                if (leader.node, name) in self.network.cuts and self.chance.random() < _BACK_CHANCE:
                    self._look_at(self._named(name))
        self.network.heal()

    def _cut_coordinator(self) -> None:
        self.figures.partitions += 1
        name = self._any().name
        self.world.say("cut:", name, "from the coordinator")
        cuts = {(name, COORDINATOR), (COORDINATOR, name)}
        self.network.cuts |= self.chance.choice((cuts, {(name, COORDINATOR)}, {(COORDINATOR, name)}))
        self._soon(self.chance.choice((1.0, 5.0)), self._reconnect)

    def _break_links(self) -> None:
        name = self._any().name
        for link in [link for link in self.network.links if link.process.name == name]:
            if link.peer is not None and self.chance.random() < 0.7:
                self.figures.broken_links += 1
                link.reset()
                link.peer.reset()

    def _take_coordinator_down(self) -> None:
        self.figures.outages += 1
        self.world.say("the coordinator is down")
        self.service.is_down = True
        self._soon(self.chance.choice((1.0, 5.0)), self.service.come_up)

    def _lose_answers(self) -> None:
        self.figures.lost_answers += 1
        self.service.losses = self.chance.choice((0.1, 0.5))
        self.service.delays = self.chance.choice((0.0, 0.3, 0.7))
        self._soon(3.0, self._lose_no_answers)

    def _lose_no_answers(self) -> None:
        self.service.losses = self.service.delays = 0.0

    def _slow_down(self) -> None:
        self.figures.slow_networks += 1
        self.network.latency = self.chance.choice((0.01, 0.1, 0.3))
        self._soon(3.0, self._hurry)

    def _hurry(self) -> None:
        self.network.latency = 0.0005

    def _stall(self) -> None:
        self.figures.stalled_disks += 1
        computer = self._any()
        seconds = self.chance.choice((0.3, 2.0, 6.0)) * self.chance.random()
        self.world.say("the disk of", computer, "stalls for", seconds)
        computer.stalled_until = self.world.now + seconds

    def _fail_disk(self) -> None:
        computer = self._any()
        if computer.is_up and not self._without_data:
            self.figures.failing_disks += 1
            computer.error = self.chance.choice((errno.EIO, errno.ENOSPC))
            computer.fuse = self.chance.randrange(40)
            self._soon(3.0, computer.repair)

    def _fill_disk(self) -> None:
        computer = self._any()
        if self._without_data:
            return
        self.figures.full_disks += 1
        computer.has_failed = True
        computer.disk.capacity = computer.disk.used_bytes + self.chance.randrange(5_000)
        self._soon(3.0, computer.repair)

    def _lose_disk(self) -> None:
        """A node gets an empty disk, unless nobody else may have all that was confirmed then."""
        computer = self._any()
        others = self.service.in_sync - self._without_data.keys() - {computer.name}
        if not others or self.service.under_way or any(each.has_failed or each.error for each in self.computers):
            return
        if not all(self._contents_of(self._named(name)) is not None for name in others):
            return
        self.figures.lost_disks += 1
        self._without_data[computer.name] = computer.name not in self.service.in_sync
        computer.replace_disk()
        self._start_later(computer, self.chance.random() * 4.0)

    def _hand_over(self) -> None:
        """Somebody wants another node to lead."""
        self.figures.wishes += 1
        heir = self.chance.choice(self.computers).name
        self.world.say(heir, "is to lead")
        self.service.wish(heir, self.service.grant(_WISH_SECONDS))

    def _inspect(self) -> None:
        """Look at a node in sync, and at the next message that is confirmed."""
        self._look_at(self._any())
        self.ledger.when_confirmed = self._count_copies

    def _heal(self) -> None:
        """No more faults, and all that were are over."""
        self.world.say("all faults are over")
        self._is_healing = True
        self.network.heal()
        self._hurry()
        self._lose_no_answers()
        if self.service.is_down:
            self.service.come_up()
        for each in self.computers:
            each.repair()
            each.start()
        for client in self._clients:
            client.slow_down()
