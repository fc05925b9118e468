"""Staged publishes beside a model of them: whenever the power fails, a batch is published as a whole and once, or not.

All of the storage is the production's, on a disk in memory. Batches go to two queues and a stream; what comes to the
first queue is consumed now and then.
"""

import random
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flintmq.broker.broker import Broker
from flintmq.broker.message import PERSISTENT, Address, Message
from flintmq.broker.ports import UserRecord, VHostRecord
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.stage.copies import Attempt, Key
from flintmq.broker.stage.stage import Stage
from flintmq.storage.group_commit import Batch, GroupCommit, Rounds
from flintmq.storage.node import NodeStorage
from flintmq.storage.pages.spill import SpillRunner
from tests.effort import effort
from tests.sim.database import DatabaseFile
from tests.sim.disk import PowerLoss, SimulatedDisk
from tests.unit.broker.memory import got
from tests.unit.storage.nodes import CODEC, CODECS

# Small, so that segments end, are moved and go within a run.
SEGMENT_BYTES = 3000
DATA = Path("/data")
DATABASE = DATA / "definitions.sqlite"
QUEUES = ("q", "r", "s")


class Stepped(GroupCommit):
    """Writes what it was given when it is told to."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.inbox: list[Batch] = []
        self.now = 0.0

    def submit(self, batch: Batch) -> None:
        self.inbox.append(batch)

    def run(self, is_last: bool = False) -> None:
        batches, self.inbox = self.inbox, []
        self.rounds.round(batches, is_last, self.now)
        if not is_last:
            # Settlements that wait for company need not wait longer.
            self.now += 1.0
            self.rounds.round([], False, self.now)
        assert self.rounds.failure == ""

    def close(self) -> None:
        self.run(True)


class NoSpill(SpillRunner):
    def submit(self, job: object) -> None:
        raise AssertionError("pages stay in memory here")

    def close(self) -> None:
        pass


class Staged:
    """What an attempt has, by queue."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.bodies: dict[str, list[bytes]] = {name: [] for name in QUEUES}


class StageMachine(RuleBasedStateMachine):
    """`published` has, for each committed batch, the messages of its attempts by queue. `consumed` has those that were
    taken from the queue q, and `surely` those of them whose settlement is durable.
    """

    @initialize(seed=st.integers(0, 1 << 30))
    def start(self, seed: int) -> None:
        self.disk = SimulatedDisk(seed)
        chance = random.Random(seed)  # noqa: S311 - a repeatable test
        self.database = DatabaseFile(chance, self.disk, DATABASE)
        self.counter = 0
        self.published: list[dict[str, list[bytes]]] = []
        self.sure_batches = 0
        self.others: set[bytes] = set()
        self.sure_others: set[bytes] = set()
        self.consumed: set[bytes] = set()
        self.surely_consumed: set[bytes] = set()
        self.open: list[Staged] = []
        self.complete: dict[Key, Staged] = {}
        self.sure_complete: dict[Key, Staged] = {}
        # Each under the number of the note that it began with.
        self.staged: dict[int, Staged] = {}
        self.ever_staged: dict[str, set[bytes]] = {name: set() for name in QUEUES}
        self._open()
        self.broker.put_vhost(VHostRecord("/"))
        self.broker.put_user(UserRecord("u", ""))
        vhost = self.broker.vhosts["/"]
        for name, arguments in (("q", {}), ("r", {}), ("s", {"x-queue-type": "stream"})):
            vhost.declare_queue(name, True, False, False, dict[str, object](arguments), None)
        vhost.stages.open("tx", "u", "query")
        self.sync()

    def _open(self) -> None:
        commits: list[Stepped] = []

        def made(rounds: Rounds) -> GroupCommit:
            commits.append(Stepped(rounds))
            return commits[0]

        self.storage = NodeStorage(
            DATA, CODECS, lambda: None, self.disk, SEGMENT_BYTES, self.database.open, made, spill_runner=NoSpill
        )
        (self.thread,) = commits
        self.broker = Broker(self.storage)
        self.broker.now_ms = 1000
        self.broker.recover(self.storage.definitions.load())

    def queue(self, name: str) -> Queue:
        return self.broker.vhosts["/"].queues[name]

    @property
    def stage(self) -> Stage:
        return self.broker.vhosts["/"].stages.find("tx", "u")

    def _message(self) -> Message:
        self.counter += 1
        return Message(Address("", "q"), CODEC, b"", b"%d" % self.counter, PERSISTENT, 1)

    # -- what a writer does -----------------------------------------------------------------------------------------

    @rule(partition=st.integers(0, 2), attempt=st.integers(0, 1), ahead=st.integers(0, 1))
    def begin(self, partition: int, attempt: int, ahead: int) -> None:
        key = (int(self.stage.next_batch) + ahead, partition, attempt)
        self.open = [each for each in self.open if each.attempt.key != key]
        self.complete.pop(key, None)
        staged = Staged(self.stage.begin(int(self.stage.epoch), key))
        self.staged[int(staged.attempt.serial)] = staged
        self.open.append(staged)

    @precondition(lambda self: self.open)
    @rule(
        data=st.data(),
        count=st.sampled_from([1, 3, 20, 100]),
        names=st.lists(st.sampled_from(QUEUES), min_size=1, max_size=3, unique=True),
    )
    def put(self, data: st.DataObject, count: int, names: list[str]) -> None:
        self._put(data.draw(st.sampled_from(self.open)), count, names)

    def _put(self, staged: Staged, count: int, names: list[str]) -> None:
        for _ in range(count):
            message = self._message()
            staged.attempt.put(message, [self.queue(name) for name in names])
            for name in names:
                staged.bodies[name].append(message.body)
                self.ever_staged[name].add(message.body)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        staged = data.draw(st.sampled_from(self.open))
        self.open.remove(staged)
        staged.attempt.complete()
        self.complete[staged.attempt.key] = staged

    @rule(partition=st.integers(0, 2), count=st.sampled_from([1, 3, 100]), name=st.sampled_from(QUEUES))
    def task(self, partition: int, count: int, name: str) -> None:
        """All that a task does, in one go."""
        self.begin(partition, 0, 0)
        staged = self.open.pop()
        self._put(staged, count, [name])
        staged.attempt.complete()
        self.complete[staged.attempt.key] = staged

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        staged = data.draw(st.sampled_from(self.open))
        self.open.remove(staged)
        staged.attempt.abandon()

    @rule(is_reversed=st.booleans())
    def commit(self, is_reversed: bool) -> None:
        """With one attempt of each partition."""
        stage = self.stage
        batch = int(stage.next_batch)
        keys = sorted([key for key in self.complete if key[0] == batch], reverse=is_reversed)
        chosen = {key[1]: key[2] for key in keys}
        done = stage.commit(int(stage.epoch), batch, chosen)
        attempts = [self.complete[batch, partition, number] for partition, number in chosen.items()]
        assert done.published == sum(staged.attempt.count for staged in attempts)
        self.published.append({name: [body for staged in attempts for body in staged.bodies[name]] for name in QUEUES})
        self.open = [each for each in self.open if each.attempt.key[0] > batch]
        self.complete = {key: staged for key, staged in self.complete.items() if key[0] > batch}
        assert stage.commit(int(stage.epoch), batch, chosen).already

    @rule(ahead=st.integers(0, 1))
    def abort(self, ahead: int) -> None:
        batch = int(self.stage.next_batch) + ahead
        self.stage.abort(int(self.stage.epoch), batch)
        self.open = [each for each in self.open if each.attempt.key[0] != batch]
        self.complete = {key: staged for key, staged in self.complete.items() if key[0] != batch}

    # -- what others do ---------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(QUEUES), count=st.integers(1, 20))
    def publish(self, name: str, count: int) -> None:
        vhost = self.broker.vhosts["/"]
        for _ in range(count):
            message = self._message()
            vhost.deliver(message, [self.queue(name)])
            if name == "q":
                self.others.add(message.body)

    @rule(count=st.sampled_from([1, 10, 200]))
    def consume(self, count: int) -> None:
        queue = self.queue("q")
        for _ in range(count):
            entry = got(queue)
            if entry is None:
                break
            assert entry.message.body not in self.consumed, "a message came twice"
            self.consumed.add(entry.message.body)
            queue.settle(entry)

    # -- time -------------------------------------------------------------------------------------------------------

    def _tick(self) -> bool:
        more = self.broker.dispatch()
        self.storage.commit()
        return self.broker.on_committed() or more

    @rule()
    def tick(self) -> None:
        self._tick()

    @rule()
    def sync(self) -> None:
        self._tick()
        self._note_sure()
        self.thread.run()
        self._now_sure()

    def _note_sure(self) -> None:
        """What is handed over now is durable once that is written."""
        self.handed_over = (
            len(self.published),
            set(self.others),
            set(self.consumed),
            dict(self.complete),
        )

    def _now_sure(self) -> None:
        self.sure_batches, self.sure_others, self.surely_consumed, self.sure_complete = self.handed_over

    @rule(calls=st.integers(0, 12), seed=st.integers(0, 1 << 30), commits=st.booleans(), ticks=st.integers(1, 2))
    def lose_power(self, calls: int, seed: int, commits: bool, ticks: int) -> None:
        """Within a round of writing, after so many calls to the disk, or behind it; often with a commit on its way."""
        if commits:
            self.commit(False)
        for _ in range(ticks):
            self._tick()
        self._note_sure()
        left = calls

        def trouble(what: str, path: str) -> None:
            nonlocal left
            if left == 0:
                raise PowerLoss
            left -= 1

        self.disk.trouble = trouble
        try:
            self.thread.run()
            self._now_sure()
        except PowerLoss:
            pass
        self.disk.trouble = None
        self.disk.lose_power(seed)
        self.database.lose_power()
        self._open()
        self._look()

    @rule()
    def stop(self) -> None:
        self._tick()
        self._note_sure()
        self.storage.close()
        self._now_sure()
        self._open()
        self._look()

    # -- what is found ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        batches = int(self.stage.next_batch)
        assert self.sure_batches <= batches <= len(self.published), "a batch is forgotten, or made up"
        while self._tick():
            pass
        self.thread.run()
        del self.published[batches:]
        self.sure_batches = batches
        found = self._bodies("q")
        assert len(found) == len(set(found)), "a message is there twice"
        assert not self.surely_consumed & set(found), "a settled message is back"
        wanted = {body for batch in self.published for body in batch["q"]}
        # Who got something before it was durable may get it again.
        consumed = (self.consumed - set(found)) & (wanted | self.others)
        assert wanted <= set(found) | consumed, "a message of a batch is lost"
        strangers = set(found) - wanted
        assert self.sure_others - consumed <= strangers <= self.others, "what nobody committed is there, or one is lost"
        self.consumed = consumed
        self.others = strangers | consumed & self.others
        for name in ("r", "s"):
            there = [body for body in self._bodies(name) if body in self.ever_staged[name]]
            assert sorted(there) == sorted(body for batch in self.published for body in batch[name])
        self.open = []
        attempts = self.stage._attempts
        for key, staged in self.sure_complete.items():
            if self.complete.get(key) is staged:
                assert key in attempts, "a complete attempt is lost"
        self.complete = {key: self.staged[int(attempt.serial)] for key, attempt in attempts.items()}
        for key, staged in self.complete.items():
            staged.attempt = attempts[key]
        self._note_sure()
        self._now_sure()

    def _bodies(self, name: str) -> list[bytes]:
        queue = self.queue(name)
        if queue.keeps_all:
            assert isinstance(queue, StreamQueue)
            cursor = queue.log.cursor(0, 1 << 20)
            bodies = []
            while (message := cursor.next(queue.log.next_offset)) is not None:
                bodies.append(message.body)
            return bodies
        entries = []
        while (entry := got(queue)) is not None:
            entries.append(entry)
        queue.release(entries)
        return [entry.message.body for entry in entries]


TestStages = StageMachine.TestCase
TestStages.settings = settings(max_examples=effort(60), stateful_step_count=50)
