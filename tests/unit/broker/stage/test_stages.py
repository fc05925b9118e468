"""Publishing in stages: what is staged nobody gets, what is committed everybody does, and a restart changes neither."""

from collections.abc import Iterable

import pytest

import flintmq
from flintmq.base.errors import AccessRefused, InternalError, NotFound, PreconditionFailed
from flintmq.base.limits import (
    STAGE_ATTEMPTS_MAX,
    STAGE_IDLE_MS,
    STAGE_OWNERS_MAX,
    STAGE_STEP_MESSAGES,
    STAGES_MAX,
    STAGES_USER_MAX,
)
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Entry, Message, Table
from flintmq.broker.ports import UserRecord
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.publish import ROUTED, STORED, UNROUTED
from flintmq.broker.stage.copies import Attempt
from flintmq.broker.stage.stage import Stage
from flintmq.broker.tap import Client as TapClient
from flintmq.broker.tap import Tap
from tests.unit.broker import world as worlds
from tests.unit.broker.memory import MemoryStorage, Taker, got, message


class Watcher(Tap):
    """Who released what to which queue."""

    def __init__(self) -> None:
        self.released_by: list[tuple[str, str, str, str]] = []

    def published(self, client: TapClient, message: Message, queues: list[Queue]) -> Message:
        return message

    def committed(self, client: TapClient, queue: Queue, message: Message) -> None:
        self.released_by.append((client.user, client.connection, queue.name, message.body.decode()))

    def delivered(self, client: TapClient, queue: Queue, entry: Entry) -> None:
        raise AssertionError

    def end_dispatch(self) -> None:
        return None


class Faulty(Watcher):
    """Fails whenever something is released."""

    def committed(self, client: TapClient, queue: Queue, message: Message) -> None:
        raise ValueError("no room for a copy")


STREAM: Table = {"x-queue-type": "stream"}


class World(worlds.World):
    """A broker with a queue and a user."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        if storage is not None:
            # What was packed is gone.
            storage.memory_pages.kept.clear()
        super().__init__(storage)
        if storage is None:
            self.broker.put_user(UserRecord("u", ""))
            self.declare("q")

    def open(self, owner: str = "query", name: str = "tx") -> Stage:
        return self.vhost.stages.open(name, "u", owner)

    @property
    def stage(self) -> Stage:
        return self.vhost.stages.find("tx", "u")

    @property
    def epoch(self) -> int:
        return int(self.stage.epoch)

    def stage_bodies(self, attempt: Attempt, bodies: Iterable[str], *queues: str, headers: str = "") -> list[int]:
        to = [self.vhost.queues[name] for name in queues or ("q",)]
        return [attempt.put(message(body, True, headers), to) for body in bodies]

    def staged(self, bodies: Iterable[str], batch: int = 0, partition: int = 0, number: int = 0) -> Attempt:
        """A complete attempt for the queue."""
        stage = self.stage
        attempt = stage.begin(int(stage.epoch), (batch, partition, number))
        self.stage_bodies(attempt, bodies)
        attempt.complete()
        return attempt

    def commit(self, batch: int, attempts: dict[int, int], ticks: int = 1) -> tuple[int, bool]:
        done = self.stage.commit(int(self.stage.epoch), batch, attempts)
        self.tick(ticks)
        return int(done.published), done.already

    def tick(self, count: int = 1) -> bool:
        more = False
        for _ in range(count):
            more = self.broker.dispatch()
            self.storage.commit()
            more |= self.broker.on_committed()
        return more

    def bodies(self, name: str = "q") -> list[str]:
        """All that is ready, which goes."""
        return worlds.bodies(self.vhost.queues[name])

    @property
    def kept(self) -> list[bytes]:
        """What a restart would find, but for what it knows of the stage itself."""
        return [body for body in self.storage.memory_journal.kept.values() if not body.startswith(b"s ")]


@pytest.fixture
def world() -> World:
    made = World()
    made.open()
    return made


def numbered(count: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


# -- batches ---------------------------------------------------------------------------------------------------------


def test_staged_messages_wait_for_their_commit(world: World) -> None:
    """They stand in the journal, and their queue knows nothing of them; after the commit they are behind the others."""
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    assert world.stage_bodies(attempt, ["a", "b"]) == [STORED, STORED]
    world.vhost.deliver(message("before", True), [world.queue])
    assert attempt.complete() == 2
    world.tick()
    assert world.queue.message_count == 1
    assert world.commit(0, {0: 0}) == (2, False)
    assert world.bodies() == ["before", "a", "b"]
    assert world.kept == []


def test_a_consumer_gets_them_as_new_ones(world: World) -> None:
    """They are delivered in the tick of the commit, and nobody has had them before."""
    consumer = Taker()
    world.queue.subscribe(consumer, {})
    world.staged(["a"])
    world.tick()
    assert consumer.taken == []
    world.commit(0, {0: 0})
    assert [(entry.message.body, entry.redelivered) for entry in consumer.taken] == [(b"a", False)]


def test_only_committed_attempts_are_published(world: World) -> None:
    """Other attempts of the batch, and of those before, are discarded with all they have in the journal."""
    world.staged(["old"], 0, 0, 0)
    world.staged(["lost"], 1, 0, 0)
    world.staged(["won"], 1, 0, 1)
    world.staged(["too"], 1, 1, 5)
    world.staged(["next"], 2, 0, 0)
    assert world.commit(1, {0: 1, 1: 5}) == (2, False)
    assert world.bodies() == ["won", "too"]
    assert world.commit(2, {0: 0}) == (1, False)
    assert world.bodies() == ["next"]
    assert world.kept == []


def test_a_batch_is_committed_once(world: World) -> None:
    """A second commit publishes nothing, and discards what was staged for it since."""
    world.staged(["a"])
    assert world.commit(0, {0: 0}) == (1, False)
    late = world.stage.begin(world.epoch, (0, 0, 1))
    assert late.is_late
    assert world.stage_bodies(late, ["never"]) == [ROUTED]
    assert late.complete() == 1
    assert world.commit(0, {0: 1}) == (0, True)
    assert world.bodies() == ["a"]
    assert world.kept == []


def test_a_winner_has_to_be_complete(world: World) -> None:
    """Otherwise nothing of the commit happens, and it can be made again when all is there."""
    world.staged(["a"], partition=0)
    attempt = world.stage.begin(world.epoch, (0, 1, 0))
    world.stage_bodies(attempt, ["b"])
    for attempts in ({0: 0, 1: 0}, {0: 0, 1: 9}):
        with pytest.raises(PreconditionFailed, match="batch 0, partition 1, attempt .* is not complete"):
            world.commit(0, attempts)
    attempt.complete()
    assert world.commit(0, {0: 0, 1: 0}) == (2, False)
    assert world.bodies() == ["a", "b"]


def test_an_abort_discards_its_batch_alone(world: World) -> None:
    """What was staged for others stays."""
    world.staged(["a"], batch=0)
    open_still = world.stage.begin(world.epoch, (0, 1, 0))
    world.staged(["b"], batch=1)
    world.stage.abort(world.epoch, 0)
    with pytest.raises(PreconditionFailed, match="batch 0 was aborted"):
        world.stage_bodies(open_still, ["c"])
    world.tick()
    assert world.commit(1, {0: 0}) == (1, False)
    assert world.bodies() == ["b"]
    assert world.kept == []


def test_an_attempt_that_begins_again_replaces_the_first(world: World) -> None:
    """A task that comes back with the same numbers starts over, and the first one publishes no more."""
    first = world.staged(["old"])
    again = world.stage.begin(world.epoch, (0, 0, 0))
    with pytest.raises(PreconditionFailed, match="has begun again elsewhere"):
        world.stage_bodies(first, ["older"])
    with pytest.raises(PreconditionFailed, match="is not complete"):
        world.commit(0, {0: 0})
    world.stage_bodies(again, ["new"])
    again.complete()
    world.commit(0, {0: 0})
    assert world.bodies() == ["new"]
    assert world.kept == []


def test_what_is_given_up_is_discarded(world: World) -> None:
    """An attempt whose channel ends leaves nothing, unless it was complete by then."""
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, numbered(10))
    attempt.abandon()
    complete = world.staged(["kept"], partition=1)
    complete.abandon()
    world.tick()
    assert world.commit(0, {1: 0}) == (1, False)
    assert world.bodies() == ["kept"]
    assert world.kept == []


def test_a_message_goes_to_all_of_its_queues(world: World) -> None:
    """It is written once, and is on each of them after the commit."""
    world.declare("p")
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    written = len(world.storage.memory_journal.appends)
    assert world.stage_bodies(attempt, ["a"], "q", "p") == [STORED]
    records = [ids for body, ids in world.storage.memory_journal.appends[written:] if body == b"a"]
    assert records == [[world.queue.id, world.vhost.queues["p"].id]]
    assert attempt.put(message("nowhere", True), []) == UNROUTED
    assert attempt.complete() == 1
    world.commit(0, {0: 0})
    assert (world.bodies("q"), world.bodies("p")) == (["a"], ["a"])


def test_many_messages_are_packed_and_released_in_steps(world: World) -> None:
    """They take pages while they wait; a commit brings so many of them to the queue in a tick, and then the others."""
    count = STAGE_STEP_MESSAGES + 3000
    world.staged(numbered(count))
    assert sum(page.count for page in world.storage.memory_pages.kept) == count
    assert world.commit(0, {0: 0}, ticks=0) == (count, False)
    assert world.tick()
    assert STAGE_STEP_MESSAGES <= world.queue.message_count < count
    world.tick()
    assert world.bodies() == numbered(count)
    assert world.kept == []


def test_many_messages_are_discarded_in_steps(world: World) -> None:
    """Their pages go, and the journal is told of each."""
    world.staged(numbered(STAGE_STEP_MESSAGES + 3000))
    world.stage.abort(world.epoch, 0)
    assert world.tick()
    assert any(body.startswith(b"r ") for body in world.kept)
    world.tick()
    assert (world.kept, world.storage.memory_pages.kept) == ([], {})


def test_what_is_staged_is_packed_when_memory_is_low(world: World) -> None:
    """However little each attempt has, also of one that goes on; large messages are as soon as no more come."""
    kept = world.storage.memory_pages.kept
    world.staged(["a", "b"], partition=0)
    attempt = world.stage.begin(world.epoch, (0, 1, 0))
    world.stage_bodies(attempt, ["c"])
    assert not kept
    world.broker.page_out()
    assert sum(page.count for page in kept) == 3
    world.stage_bodies(attempt, ["d", "e" * 100_000])
    attempt.complete()
    assert sum(page.count for page in kept) == 5
    world.commit(0, {0: 0, 1: 0})
    assert world.bodies() == ["a", "b", "c", "d", "e" * 100_000]


def test_notes_of_many_attempts_go_in_steps(world: World) -> None:
    """As messages do; a restart in the middle of it publishes nothing again, and drops the others."""
    for partition in range(1500):
        world.staged([str(partition)], partition=partition)
    world.commit(0, dict.fromkeys(range(1500), 0))
    assert world.queue.message_count == 1500
    notes = [body for body in world.kept if not body.isdigit()]
    assert 0 < len([body for body in notes if body.startswith(b"c ")]) < 1500
    again = world.restarted()
    while again.tick():
        pass
    assert again.bodies() == numbered(1500)
    assert again.kept == []


@pytest.mark.parametrize("restarts", [False, True], ids=["goes on", "restarts"])
def test_who_traces_messages_sees_what_is_committed(world: World, restarts: bool) -> None:
    """As it goes to each queue, a stream among them; behind a start it is from the user whose stage it is."""
    stream = world.declare("s", STREAM)
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, ["a"], "q", stream.name)
    attempt.complete()
    world.staged(["lost"], number=1)
    world.broker.tick.tap = seen = Watcher()
    world.tick()
    assert seen.released_by == []
    world.stage.commit(world.epoch, 0, {0: 0}, TapClient("test:1", 1, "someone", "/"))
    world.storage.commit()
    if restarts:
        world = world.restarted()
        world.broker.tick.tap = seen
    world.tick(3)
    user, connection = ("u", "") if restarts else ("someone", "test:1")
    assert seen.released_by == [(user, connection, "q", "a"), (user, connection, "s", "a")]


@pytest.mark.parametrize("arguments", [{}, STREAM], ids=["entries", "stream"])
@pytest.mark.parametrize("count", [3, 1500], ids=["one page", "pages"])
def test_tracing_that_fails_takes_no_message_along(world: World, count: int, arguments: Table) -> None:
    """What is committed comes to its queue all the same, once, and so it does behind a restart."""
    queue = world.declare("t", arguments)
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, numbered(count), "t")
    attempt.complete()
    world.broker.tick.tap = Faulty()
    world.stage.commit(world.epoch, 0, {0: 0})
    failures = 0
    for _ in range(20):
        try:
            world.tick()
        except ValueError:
            failures += 1
    assert failures > 0
    assert queue.message_count == count
    again = world.restarted()
    again.tick(5)
    assert again.vhost.queues["t"].message_count == count


def test_batches_keep_their_order(world: World) -> None:
    """The second one comes behind the first, however many ticks that takes."""
    first = numbered(STAGE_STEP_MESSAGES + 10, "a")
    world.staged(first, batch=0)
    world.staged(["b"], batch=1)
    world.commit(0, {0: 0}, ticks=0)
    world.commit(1, {0: 0}, ticks=3)
    assert world.bodies() == [*first, "b"]


# -- writers ---------------------------------------------------------------------------------------------------------


def test_a_new_writer_fences_the_one_before(world: World) -> None:
    """It can do nothing any more, and what it staged is gone; nor does it get the id back."""
    world.staged(["a"], batch=3)
    world.commit(3, {0: 0})
    world.staged(["lost"], batch=4)
    epoch = world.epoch
    attempt = world.stage.begin(epoch, (4, 1, 0))
    stage = world.open("another")
    assert (stage.epoch, stage.next_batch) == (epoch + 1, 0)
    for act in (
        lambda: stage.begin(epoch, (4, 0, 1)),
        lambda: stage.commit(epoch, 4, {}),
        lambda: stage.abort(epoch, 4),
        lambda: world.stage_bodies(attempt, ["b"]),
        attempt.complete,
        world.open,
    ):
        with pytest.raises(PreconditionFailed, match="'tx' in vhost '/' has been taken over by another writer"):
            act()
    world.tick()
    with pytest.raises(PreconditionFailed, match="is not complete"):
        world.commit(4, {0: 0})
    assert world.bodies() == ["a"]
    assert world.kept == []


def test_an_owner_opens_as_often_as_it_likes(world: World) -> None:
    """Its tasks do, each for itself: they get the same answer, which says what is committed, and disturb nobody."""
    world.commit(3, {})
    world.staged(["a"], batch=4)
    written = world.storage.memory_journal.kept.copy()
    epoch = world.epoch
    stage = world.open()
    assert (stage.epoch, stage.next_batch) == (epoch, 4)
    assert world.storage.memory_journal.kept == written
    assert world.commit(4, {0: 0}) == (1, False)


def test_who_was_taken_over_is_known_after_a_restart(world: World) -> None:
    """Owners are any text; the ones before stay fenced as long as there is room to remember them."""
    owners = ["query", "a 1:b", "", *numbered(STAGE_OWNERS_MAX - 1)]
    before = world.epoch - 1
    for owner in owners[1:]:
        world.open(owner)
    again = world.restarted()
    assert again.stage.owner == owners[-1]
    for owner in owners[1:-1]:
        with pytest.raises(PreconditionFailed, match="taken over"):
            again.open(owner)
    assert again.open(owners[-1]).epoch == before + len(owners)
    assert again.open(owners[0]).epoch == before + len(owners) + 1
    again.vhost.stages.forget("tx", "u")
    assert again.open("a 1:b").next_batch == 0


def test_another_owner_begins_anew(world: World) -> None:
    """Its batches are numbered by itself."""
    world.commit(7, {})
    assert world.open("another").next_batch == 0
    world.staged(["a"])
    assert world.commit(0, {0: 0}) == (1, False)


def test_an_id_is_its_users(world: World) -> None:
    """Nobody else opens it, stages under it, or makes it be forgotten; an id that nobody opened is not found."""
    stages = world.vhost.stages
    for act in (lambda: stages.open("tx", "v", ""), lambda: stages.find("tx", "v"), lambda: stages.forget("tx", "v")):
        with pytest.raises(AccessRefused, match="transactional id 'tx' in vhost '/' refused for user 'v'"):
            act()
    with pytest.raises(NotFound, match="no transactional id 'ty' in vhost '/'"):
        stages.find("ty", "u")
    with pytest.raises(PreconditionFailed, match="must not be empty"):
        stages.open("", "u", "")


@pytest.mark.skipif(flintmq.compiled, reason="limits are part of compiled code")
def test_there_are_limits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of transactional ids, and of attempts that nobody decides about."""
    assert STAGES_MAX > 1
    monkeypatch.setattr("flintmq.broker.stage.registry.STAGES_MAX", 1)
    with pytest.raises(PreconditionFailed, match="has 1 transactional ids already"):
        world.open(name="ty")
    monkeypatch.setattr("flintmq.broker.stage.registry.STAGES_MAX", 3)
    assert STAGES_MAX > STAGES_USER_MAX > 1
    monkeypatch.setattr("flintmq.broker.stage.registry.STAGES_USER_MAX", 1)
    with pytest.raises(PreconditionFailed, match="user 'u' has 1 transactional ids in vhost '/' already: forget"):
        world.open(name="ty")
    world.vhost.stages.open("ty", "v", "")
    assert STAGE_ATTEMPTS_MAX > 2
    monkeypatch.setattr("flintmq.broker.stage.stage.STAGE_ATTEMPTS_MAX", 2)
    for number in range(2):
        world.stage.begin(world.epoch, (0, 0, number))
    with pytest.raises(PreconditionFailed, match="has 2 attempts: commit or abort"):
        world.stage.begin(world.epoch, (0, 0, 2))


@pytest.mark.skipif(flintmq.compiled, reason="limits are part of compiled code")
def test_an_id_that_nobody_uses_makes_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was not used for longest goes, not before its time, and not while something is staged under it."""
    monkeypatch.setattr("flintmq.broker.stage.registry.STAGES_USER_MAX", 2)
    start = world.broker.now_ms
    attempt = world.staged(["a"])
    world.broker.now_ms = start + STAGE_IDLE_MS // 2
    world.open(name="ty")
    world.broker.now_ms = start + STAGE_IDLE_MS + STAGE_IDLE_MS // 2 - 1
    with pytest.raises(PreconditionFailed, match="has 2 transactional ids"):
        world.open(name="tz")
    world.broker.now_ms += 1
    world.open(name="tz")
    world.tick()
    assert [*world.vhost.stages.by_name] == ["tx", "tz"]
    assert attempt.is_complete
    world.broker.now_ms += STAGE_IDLE_MS
    world.commit(0, {0: 0})
    world.open(name="ty")
    world.tick()
    assert [*world.vhost.stages.by_name] == ["tx", "ty"]
    assert world.restarted().vhost.stages.by_name.keys() == {"tx", "ty"}


def test_an_id_is_forgotten_once_all_is_done(world: World) -> None:
    """What is committed gets to its queue first, what is not is discarded; nothing is left in journal and database."""
    world.staged(["a"], batch=0)
    world.staged(["b"], batch=1)
    world.commit(0, {0: 0}, ticks=0)
    world.vhost.stages.forget("tx", "u")
    with pytest.raises(PreconditionFailed, match="taken over"):
        world.commit(1, {0: 0})
    assert world.tick(3) is False
    assert world.bodies() == ["a"]
    assert world.storage.memory_definitions.stages == {}
    assert world.storage.memory_journal.kept == {}
    world.vhost.stages.forget("tx", "u")
    assert world.open().next_batch == 0


def test_a_writer_of_a_forgotten_id_does_not_write_under_the_next(world: World) -> None:
    """Epochs go on growing where the id is made anew, so that a task of before is fenced."""
    old = world.epoch
    world.vhost.stages.forget("tx", "u")
    world.tick()
    assert world.vhost.stages.by_name == {}
    assert world.open("another").epoch > old
    with pytest.raises(PreconditionFailed, match="has been taken over by another writer"):
        world.stage.commit(old, 41, {})
    world.staged(["a"])
    assert world.commit(0, {0: 0}) == (1, False)


def test_who_opens_it_meanwhile_begins_anew(world: World) -> None:
    """An id that is being forgotten can be used at once."""
    world.commit(5, {})
    epoch = world.epoch
    world.vhost.stages.forget("tx", "u")
    assert world.open().next_batch == 0
    world.tick(3)
    world.staged(["a"])
    assert world.commit(0, {0: 0}) == (1, False)
    again = world.restarted()
    assert (again.epoch, again.stage.next_batch) == (epoch + 1, 1)


def test_a_deleted_user_leaves_nothing(world: World) -> None:
    """Nobody who has its name later goes on with its batches."""
    world.staged(["a"])
    world.broker.delete_user("u")
    world.tick(3)
    assert (world.vhost.stages.by_name, world.storage.memory_journal.kept) == ({}, {})


def test_a_user_whose_deletion_alone_was_kept_leaves_nothing(world: World) -> None:
    """Where a crash lost what the stages noted of it, the restart finds out."""
    world.staged(["a"])
    del world.storage.memory_definitions.users["u"]
    again = world.restarted()
    with pytest.raises(PreconditionFailed, match="taken over"):
        again.commit(0, {0: 0})
    again.tick(3)
    assert (again.vhost.stages.by_name, again.storage.memory_journal.kept) == ({}, {})


# -- queues ----------------------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_when_it_is_staged_and_when_it_is_committed(world: World) -> None:
    """Each attempt may have what there is room for; of a batch that has more, nothing is committed."""
    world.declare("p", {"x-max-length": 3, "x-overflow": "reject-publish"})
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, ["a", "b", "c"], "p")
    with pytest.raises(PreconditionFailed, match="queue 'p' in vhost '/' has no room for the staged messages"):
        world.stage_bodies(attempt, ["d"], "p")
    attempt.complete()
    other = world.stage.begin(world.epoch, (0, 1, 0))
    world.stage_bodies(other, ["e"], "p")
    other.complete()
    with pytest.raises(PreconditionFailed, match="queue 'p' in vhost '/' has no room for the staged messages"):
        world.commit(0, {0: 0, 1: 0})
    assert world.commit(0, {0: 0}) == (3, False)
    assert world.bodies("p") == ["a", "b", "c"]


def test_a_queue_that_drops_its_oldest_does_so_with_the_commit(world: World) -> None:
    """Staging makes nothing go."""
    world.declare("p", {"x-max-length": 2})
    world.vhost.deliver(message("old", True), [world.vhost.queues["p"]])
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, ["a", "b", "c"], "p")
    attempt.complete()
    assert world.vhost.queues["p"].message_count == 1
    world.commit(0, {0: 0})
    assert world.bodies("p") == ["b", "c"]
    assert world.kept == []


def test_a_queue_that_deduplicates_does_so_with_the_commit(world: World) -> None:
    """What is discarded is not remembered, and what came meanwhile is not taken again."""
    world.declare("p", {"x-dedup-window": 60_000})
    queue = world.vhost.queues["p"]
    for number in range(2):
        attempt = world.stage.begin(world.epoch, (0, 0, number))
        world.stage_bodies(attempt, ["a"], "p", headers="message_id=1")
        world.stage_bodies(attempt, ["b"], "p", headers="message_id=2")
        world.stage_bodies(attempt, ["again"], "p", headers="message_id=2")
        attempt.complete()
    world.vhost.deliver(message("meanwhile", True, "message_id=1"), [queue])
    world.commit(0, {0: 1})
    assert world.bodies("p") == ["meanwhile", "b"]


def test_times_count_from_the_commit(world: World) -> None:
    """A time to live, and a delay, begin when the message comes to its queue."""
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, ["short"], headers="ttl=100")
    world.stage_bodies(attempt, ["later"], headers="delay=500")
    attempt.complete()
    world.broker.now_ms = 10_000
    world.commit(0, {0: 0})
    assert (world.queue.message_count, world.queue.held_count) == (1, 1)
    world.broker.now_ms = 10_101
    world.tick()
    assert world.queue.message_count == 0
    world.broker.now_ms = 10_500
    world.tick()
    assert world.bodies() == ["later"]


def test_a_queue_that_is_deleted_takes_its_part_along(world: World) -> None:
    """What was staged for it is settled with the commit, or the discard; other queues get theirs."""
    world.declare("p")
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, numbered(1500), "q", "p")
    attempt.complete()
    world.vhost.remove_queue(world.vhost.queues["p"])
    world.commit(0, {0: 0}, ticks=2)
    assert world.bodies() == numbered(1500)
    assert world.kept == []


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("queues", [("p",), ("p", "o")])
def test_a_commit_leaves_no_message_without_a_queue(world: World, queues: tuple[str, ...], restarts: bool) -> None:
    """Their queues were deleted since they were staged: the batch is not committed, and what was staged anew is."""
    for name in queues:
        world.declare(name)
    world.staged(["a"], partition=0)
    attempt = world.stage.begin(world.epoch, (0, 1, 0))
    world.stage_bodies(attempt, ["b", "c"], *queues)
    attempt.complete()
    for name in queues:
        world.vhost.remove_queue(world.vhost.queues[name])
    if restarts:
        world = world.restarted()
    with pytest.raises(PreconditionFailed, match="2 messages of batch 0, partition 1, attempt 0, whose queues"):
        world.commit(0, {0: 0, 1: 0})
    world.tick()
    assert world.bodies() == []
    world.staged(["b", "c"], partition=1, number=1)
    assert world.commit(0, {0: 0, 1: 1}) == (3, False)
    assert world.bodies() == ["a", "b", "c"]


def test_a_message_of_one_queue_is_missed_beside_others_of_two(world: World) -> None:
    """What others have on further queues does not stand for it."""
    for name in ("p", "o"):
        world.declare(name)
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, ["alone"], "p")
    world.stage_bodies(attempt, ["many"], "q", "o")
    attempt.complete()
    world.vhost.remove_queue(world.vhost.queues["p"])
    with pytest.raises(PreconditionFailed, match="1 messages"):
        world.commit(0, {0: 0})


def test_a_queue_that_is_unbound_gets_what_was_staged_for_it(world: World) -> None:
    """The way of a message is that of the moment at which it was staged, and told to be safe."""
    exchanges = world.vhost.exchanges
    exchanges.bind_queue(world.queue, "amq.fanout", "", {})
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    letter = message("a", True)
    route = Route(Address("amq.fanout", ""))
    assert attempt.put(letter, world.vhost.queues_of(route, letter, None)) == STORED
    attempt.complete()
    exchanges.unbind_queue(world.queue, "amq.fanout", "", {})
    assert world.commit(0, {0: 0}) == (1, False)
    assert world.bodies() == ["a"]


def test_a_deleted_vhost_takes_all_along(world: World) -> None:
    """Nothing of its stages is left in the journal, in pages, or in the tick."""
    world.staged(numbered(2000), batch=0)
    world.staged(numbered(2000), batch=1)
    world.commit(0, {0: 0}, ticks=0)
    world.broker.delete_vhost("/")
    world.tick()
    assert (world.storage.memory_journal.kept, world.storage.memory_pages.kept) == ({}, {})


def test_commands_are_not_staged(world: World) -> None:
    """They are no messages, and do something at once."""
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    with pytest.raises(PreconditionFailed, match="a command to queues cannot be staged"):
        world.stage_bodies(attempt, ["a"], headers="cancel=x")


def test_transient_messages_are_staged_in_memory(world: World) -> None:
    """They need no journal, and get to their queue like others."""
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    for number in range(1500):
        assert attempt.put(message(str(number)), [world.queue]) == ROUTED
    attempt.complete()
    world.commit(0, {0: 0})
    assert world.bodies() == numbered(1500)


def test_a_stream_gets_copies(world: World) -> None:
    """They are among the stage's own until the commit, and in the stream afterwards."""
    world.declare("s", STREAM)
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, numbered(2000), "s", "q")
    attempt.complete()
    stream = world.storage.streams[world.vhost.queues["s"].id]
    assert stream.next_offset == 0
    world.commit(0, {0: 0}, ticks=2)
    assert [each.body.decode() for each in stream.messages] == numbered(2000)
    assert world.bodies() == numbered(2000)
    assert world.kept == []


# -- restarts --------------------------------------------------------------------------------------------------------


def test_a_complete_attempt_survives(world: World) -> None:
    """After a restart it can be committed, once, with the same epoch; its messages are not redelivered."""
    world.staged(numbered(1500))
    again = world.restarted()
    again.tick()
    assert again.queue.message_count == 0
    consumer = Taker()
    assert again.commit(0, {0: 0}, ticks=2) == (1500, False)
    again.queue.subscribe(consumer, {})
    again.tick()
    assert consumer.bodies == numbered(1500)
    assert not any(entry.redelivered for entry in consumer.taken)
    assert again.commit(0, {0: 0}) == (0, True)


def test_an_attempt_that_was_not_complete_is_discarded(world: World) -> None:
    """Its channel is gone with the broker."""
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, numbered(100))
    again = world.restarted()
    again.tick()
    assert again.kept == []
    with pytest.raises(PreconditionFailed, match="is not complete"):
        again.commit(0, {0: 0})
    assert again.bodies() == []


def test_what_is_committed_gets_to_its_queue(world: World) -> None:
    """However far it was: what was consumed stays gone, what was not comes, and nothing twice."""
    world.staged(numbered(STAGE_STEP_MESSAGES + 3000))
    world.staged(["other"], number=1)
    world.commit(0, {0: 0})
    for _ in range(10):
        entry = got(world.queue)
        assert entry is not None
        world.queue.settle(entry)
    again = world.restarted()
    again.tick(4)
    assert again.bodies() == numbered(STAGE_STEP_MESSAGES + 3000)[10:]
    assert again.kept == []
    assert again.commit(0, {0: 1}) == (0, True)


def test_a_commit_that_went_nowhere_yet_is_found(world: World) -> None:
    """Killed right after it was durable, the batch is published by the next start."""
    world.declare("s", STREAM)
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, ["a", "b"], "q", "s")
    attempt.complete()
    world.commit(0, {0: 0}, ticks=0)
    again = world.restarted()
    again.tick(3)
    assert again.bodies() == ["a", "b"]
    assert [each.body for each in again.storage.streams[again.vhost.queues["s"].id].messages] == [b"a", b"b"]
    assert again.kept == []


def test_what_a_commit_has_brought_may_be_leased(world: World) -> None:
    """A restart in the middle of it leaves what was leased by then to the lease, in its place, and nowhere else."""
    world.staged(numbered(STAGE_STEP_MESSAGES + 10))
    world.commit(0, {0: 0})
    lease = world.vhost.leases.open(world.queue, "reader", 0, 0)
    lease.extend(lease.epoch, 20, 0)
    again = world.restarted()
    (found,) = again.vhost.leases.of(again.queue)
    leased = found.read(0)
    assert leased is not None
    assert [entry.message.body.decode() for entry in leased.entries] == numbered(20)
    found.settle(found.epoch, found.next)
    again.tick(3)
    assert again.bodies() == numbered(STAGE_STEP_MESSAGES + 10)[20:]
    assert not [body for body in again.kept if not body.startswith(b"S")]


def test_numbers_are_not_given_twice(world: World) -> None:
    """What is published after a restart is not taken for a part of an attempt that has reserved more than it used."""
    world.staged(["a"])
    again = world.restarted()
    for number in range(100):
        again.vhost.deliver(message(str(number), True), [again.queue])
    third = again.restarted()
    assert third.queue.message_count == 100
    assert third.commit(0, {0: 0}) == (1, False)
    assert third.bodies() == [*numbered(100), "a"]


@pytest.mark.parametrize("queue", ["q", "fleeting"])
def test_what_is_not_kept_makes_no_part_of_a_batch_after_a_restart(world: World, queue: str) -> None:
    """An attempt with transient messages, or for a queue that does not survive, is refused then, and staged again."""
    world.vhost.declare_queue("fleeting", False, False, False, {}, None)
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    for number in range(10):
        attempt.put(message(str(number), number % 2 == 0 or queue != "q"), [world.vhost.queues[queue]])
    attempt.complete()
    again = world.restarted()
    with pytest.raises(PreconditionFailed, match="batch 0, .* is not complete: stage the batch again"):
        again.commit(0, {0: 0})
    again.staged(["a"], number=1)
    assert again.commit(0, {0: 1}) == (1, False)
    assert (again.bodies(), again.kept) == (["a"], [])


def test_a_damaged_journal_leaves_no_batch_half_published(world: World) -> None:
    """Where a restart does not find a message of a complete attempt, nothing of it is committed."""
    world.staged(numbered(10))
    damaged = [key for key, body in world.storage.memory_journal.kept.items() if body == b"5"]
    del world.storage.memory_journal.kept[damaged[0]]
    again = world.restarted()
    with pytest.raises(PreconditionFailed, match="batch 0, .* is not complete"):
        again.commit(0, {0: 0})
    again.tick()
    assert (again.bodies(), again.kept) == ([], [])


@pytest.mark.parametrize("how", ["abort", "begin", "commit"])
def test_what_is_being_discarded_does_not_come_back(world: World, how: str) -> None:
    """A restart before all of a complete attempt is settled goes on discarding it: it is not complete any more."""
    world.staged(numbered(STAGE_STEP_MESSAGES + 3000), batch=1)
    if how == "abort":
        world.stage.abort(world.epoch, 1)
    elif how == "begin":
        world.stage.begin(world.epoch, (1, 0, 0))
    else:
        world.commit(1, {}, ticks=0)
    world.tick()
    assert any(body.isdigit() for body in world.kept)
    again = world.restarted()
    if how != "commit":
        with pytest.raises(PreconditionFailed, match="is not complete"):
            again.commit(1, {0: 0})
    again.tick(2)
    assert (again.bodies(), again.kept) == ([], [])


def test_a_new_writer_has_fenced_what_a_restart_finds(world: World) -> None:
    """A crash before all of it was discarded changes nothing."""
    world.staged(["lost"], batch=4)
    epoch = world.epoch
    world.open("another")
    again = world.restarted()
    assert (again.epoch, again.stage.owner) == (epoch + 1, "another")
    with pytest.raises(PreconditionFailed, match="is not complete"):
        again.commit(4, {0: 0})
    again.tick()
    assert (again.bodies(), again.kept) == ([], [])


def test_the_later_of_two_with_the_same_numbers_counts(world: World) -> None:
    """After a restart, too, the attempt that began again is the one that a commit names."""
    world.staged(["old"])
    world.staged(["new"])
    again = world.restarted()
    again.tick()
    assert again.commit(0, {0: 0}) == (1, False)
    assert again.bodies() == ["new"]
    assert again.kept == []


def test_a_restart_goes_on_forgetting(world: World) -> None:
    """What was to be forgotten is, and its numbers are no good to anybody."""
    world.staged(["a"])
    world.vhost.stages.forget("tx", "u")
    again = world.restarted()
    again.tick(3)
    assert (again.vhost.stages.by_name, again.storage.memory_journal.kept) == ({}, {})


def test_a_queue_that_is_gone_costs_nobody_else(world: World) -> None:
    """After a restart, the notes for a queue that was deleted since say nothing."""
    world.declare("p")
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, ["a"], "q", "p")
    attempt.complete()
    gone = world.vhost.queues["p"]
    world.vhost.remove_queue(gone)
    again = world.restarted()
    again.commit(0, {0: 0})
    assert again.bodies() == ["a"]
    assert [key for key in again.storage.memory_journal.kept if key[0] not in (gone.id, again.stage.record.id)] == []


def test_copies_for_a_stream_that_is_gone_go_at_the_start(world: World) -> None:
    """Nobody else would settle them, and they would keep the journal from getting shorter."""
    world.declare("s", STREAM)
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, numbered(100), "s", "q")
    attempt.complete()
    world.vhost.remove_queue(world.vhost.queues["s"])
    again = world.restarted()
    assert {key[0] for key, body in again.storage.memory_journal.kept.items() if body.isdigit()} == {again.queue.id}
    assert again.commit(0, {0: 0}) == (100, False)
    again.tick()
    assert (again.bodies(), again.kept) == (numbered(100), [])


@pytest.mark.parametrize("written", [0, 1, 1500, 2500, 3000])
def test_a_stream_gets_each_message_once(world: World, written: int) -> None:
    """However many of a batch's messages its files had at a crash, before the journal knew: the others follow."""
    world.declare("s", STREAM)
    queue = world.vhost.queues["s"]
    world.vhost.deliver(message("before", True), [queue])
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, numbered(3000), "s")
    attempt.complete()
    world.commit(0, {0: 0}, ticks=0)
    world.broker.dispatch()
    journal = dict(world.storage.memory_journal.kept)
    assert any(body.startswith(b"p ") for body in journal.values())
    world.storage.commit()
    assert world.broker.on_committed()
    assert world.storage.batches_behind == [world.storage.batch + 1]
    stream = world.storage.streams[queue.id]
    assert len(stream.messages) == 3001
    del stream.messages[1 + written :]
    world.storage.memory_journal.kept = journal
    again = world.restarted()
    # What was found out is on its way to the disk before the stream can grow.
    assert again.storage.batches_behind[-1] == again.storage.batch + 1
    again.vhost.deliver(message("between", True), [again.vhost.queues["s"]])
    again.tick(3)
    bodies = [each.body.decode() for each in stream.messages]
    assert bodies == ["before", *numbered(3000)[:written], "between", *numbered(3000)[written:]]
    assert again.kept == []


def test_landings_of_two_writers_follow_each_other(world: World) -> None:
    """What several stages bring to a stream in one tick is told apart by its offsets."""
    world.declare("s", STREAM)
    stages = [world.open(name="tx"), world.open(name="ty")]
    for stage in stages:
        attempt = stage.begin(int(stage.epoch), (0, 0, 0))
        world.stage_bodies(attempt, numbered(10, stage.record.name), "s")
        attempt.complete()
        stage.commit(int(stage.epoch), 0, {0: 0})
    world.broker.dispatch()
    notes = [body.split() for body in world.kept if body.startswith(b"p ")]
    assert [int(words[-1]) for words in notes] == [0, 10]
    world.storage.commit()
    world.broker.on_committed()
    world.tick(2)
    stream = world.storage.streams[world.vhost.queues["s"].id]
    assert [each.body.decode() for each in stream.messages] == [*numbered(10, "tx"), *numbered(10, "ty")]
    assert world.kept == []


def test_a_landing_that_is_planned_again_has_one_note(world: World) -> None:
    """Where a batch could not be handed over: a restart must not take messages of others for landed copies."""
    world.declare("s", STREAM)
    attempt = world.stage.begin(world.epoch, (0, 0, 0))
    world.stage_bodies(attempt, numbered(10), "s")
    attempt.complete()
    world.commit(0, {0: 0}, ticks=0)
    world.broker.dispatch()
    world.vhost.deliver(message("other", True), [world.vhost.queues["s"]])
    world.broker.dispatch()
    notes = [body.split() for body in world.kept if body.startswith(b"p ")]
    assert [int(words[-1]) for words in notes] == [1]
    world.storage.commit()
    world.broker.on_committed()
    world.tick(2)
    assert world.kept == []


# -- pages that cannot be read ---------------------------------------------------------------------------------------


def test_a_page_that_cannot_be_read_is_left_to_a_restart(world: World) -> None:
    """Whoever looks at the log is told; other batches go on, and a restart publishes what is left."""
    pages = world.storage.memory_pages
    world.staged(numbered(2000), batch=0)
    world.staged(["small"], batch=1)
    pages.is_readable = False
    with pytest.raises(InternalError, match="damaged"):
        world.commit(0, {0: 0})
    world.commit(1, {0: 0})
    assert world.bodies() == ["small"]
    pages.is_readable = True
    again = world.restarted()
    again.tick(3)
    assert again.bodies() == numbered(2000)
    assert again.kept == []
