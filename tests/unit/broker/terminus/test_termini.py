"""Ends of links that outlive them: what they hold, when they expire, and what a restart leaves of them."""

from collections.abc import Callable

import pytest

from flintmq.base.errors import ResourceError
from flintmq.base.limits import TERMINI_MAX, TERMINI_USER_MAX
from flintmq.broker.message import Entry
from flintmq.broker.queue.classic import view_of
from flintmq.broker.queue.seen import Seen
from flintmq.broker.queue.settlement import ACCEPTED, RELEASED, modified
from flintmq.broker.terminus.registry import TerminusRegistry
from flintmq.broker.terminus.terminus import (
    CONFIGURATION,
    CONNECTION_CLOSE,
    LINK_DETACH,
    NEVER,
    NONE,
    SESSION_END,
    UNSETTLED_STATE,
    SourceTerminus,
    TargetTerminus,
)
from tests.unit.broker import world as worlds
from tests.unit.broker.memory import MemoryStorage, got, message


class World(worlds.World):
    """A broker with a queue."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        super().__init__(storage)
        if storage is None:
            self.declare("q")
        else:
            self.broker.dispatch()

    @property
    def termini(self) -> TerminusRegistry:
        return self.vhost.termini

    def source(self, durability: int = UNSETTLED_STATE, expiry: str = NEVER, timeout_ms: int = 0) -> SourceTerminus:
        made = self.termini.make_source("u", "c", "l", durability, expiry, timeout_ms, b"source")
        made.attach(object(), "session", "connection")
        return made

    def target(self, durability: int = UNSETTLED_STATE, expiry: str = NEVER, timeout_ms: int = 0) -> TargetTerminus:
        made = self.termini.make_target("u", "c", "l", durability, expiry, timeout_ms, b"target")
        made.attach(object(), "session", "connection")
        return made


# -- a source --------------------------------------------------------------------------------------------------------


def test_what_a_source_holds_survives() -> None:
    """After a restart it knows its deliveries by their tags, and the queue has the others only."""
    world = World()
    world.put("a", "b", "c")
    source = world.source()
    for tag in (b"1", b"2"):
        source.hold(tag, world.queue, world.take())
    assert source.settle(b"1", ACCEPTED)
    again = world.restarted()
    assert again.count == 2
    found = again.termini.sources["u", "c", "l"]
    assert found.record == source.record
    assert [(tag, held.entry.message.body) for tag, held in found.unsettled.items()] == [(b"2", b"b")]
    assert again.queue.message_count == 1
    assert found.settle(b"2", RELEASED)
    assert [again.take().message.body for _ in range(2)] == [b"b", b"c"]
    assert again.kept == [b"b", b"c"]


def test_notes_whose_settlement_is_damaged() -> None:
    """An old note of what was delivered again, or of a tag that is another's by now, holds nothing back."""
    world = World()
    world.put("a", "b", "c")
    source = world.source()
    again_a, stray_b, tagged_c = (world.take() for _ in range(3))
    # What a damaged record leaves: a was under tag 1 before, and tag 3 was that of b.
    for tag, entry in ((b"1", again_a), (b"2", again_a), (b"3", stray_b), (b"3", tagged_c)):
        source.hold(tag, world.queue, entry)
    again = world.restarted()
    found = again.termini.sources["u", "c", "l"]
    held = {tag: held.entry.message.body for tag, held in found.unsettled.items()}
    assert held == {b"2": b"a", b"3": b"c"}
    assert again.take().message.body == b"b"
    for tag in held:
        assert found.settle(tag, ACCEPTED)
    assert again.kept == [b"b"]


def test_settlement_and_note_are_one_group() -> None:
    """A crash between the two is none: the note goes in the group of what becomes of the message."""
    world = World()
    world.put("a")
    source = world.source()
    source.hold(b"1", world.queue, world.take())
    journal = world.storage.memory_journal
    groups = journal.group_count
    source.settle(b"1", modified(True, False, {"x": 1}))
    assert journal.group_count == groups + 1
    assert len(journal.replaced) == 1
    assert world.kept == [b"a"]


@pytest.mark.parametrize("durability", [NONE, CONFIGURATION])
def test_without_unsettled_state_nothing_is_written(durability: int) -> None:
    """Neither for a delivery that is held, nor for one that is settled."""
    world = World()
    world.put("a", "b")
    appends = len(world.storage.memory_journal.appends)
    source = world.source(durability)
    source.hold(b"1", world.queue, world.take())
    source.hold(b"2", world.queue, world.take())
    source.settle(b"1", RELEASED)
    target = world.target(durability)
    target.part(b"t", b"part")
    target.received(b"t", b"accepted")
    assert len(world.storage.memory_journal.appends) == appends
    assert world.storage.memory_journal.group_count == 0
    again = world.restarted()
    assert len(again.termini) == (2 if durability == CONFIGURATION else 0)
    assert again.queue.message_count == 2


def test_transient_messages_need_no_note() -> None:
    """No restart would find them."""
    world = World()
    world.vhost.deliver(message("transient"), [world.queue])
    source = world.source()
    source.hold(b"1", world.queue, world.take())
    assert world.kept == []
    assert source.settle(b"1", RELEASED)
    assert world.queue.message_count == 1


def test_durability_changes() -> None:
    """Who attaches may want more kept, or less: then it is, of what is held already, too."""
    world = World()
    world.put("a")
    source, target = world.source(NONE), world.target(NONE)
    source.hold(b"1", world.queue, world.take())
    target.part(b"half", b"p1")
    target.part(b"half", b"p2")
    target.received(b"whole", b"accepted")
    for terminus in (source, target):
        terminus.configure(UNSETTLED_STATE, SESSION_END, 7, b"changed")
    again = world.restarted()
    found = again.termini.sources["u", "c", "l"]
    assert (found.record.expiry, found.record.timeout_ms, found.record.configuration) == (SESSION_END, 7, b"changed")
    assert list(found.unsettled) == [b"1"]
    received = again.termini.targets["u", "c", "l"].unsettled
    assert {tag: (each.parts, each.outcome) for tag, each in received.items()} == {
        b"half": ([b"p1", b"p2"], None),
        b"whole": ([], b"accepted"),
    }
    found.configure(NONE, NEVER, 0, b"")
    again.termini.targets["u", "c", "l"].configure(NONE, NEVER, 0, b"")
    assert again.kept == [b"a"]
    assert not again.storage.memory_definitions.termini
    assert list(found.unsettled) == [b"1"]


def test_a_note_of_a_queue_that_is_gone() -> None:
    """It is dropped with the queue, before a restart and after."""
    world = World()
    world.put("a")
    source = world.source()
    source.hold(b"1", world.queue, world.take())
    world.vhost.remove_queue(world.queue)
    assert (source.unsettled, world.kept) == ({}, [])
    assert not source.settle(b"1", ACCEPTED)
    world.declare("q")
    world.put("b")
    source.hold(b"2", world.queue, world.take())
    del world.storage.memory_definitions.queues["q"]
    again = World(world.storage)
    assert again.termini.sources["u", "c", "l"].unsettled == {}
    assert again.kept == [b"b"]


def test_a_vhost_goes_with_its_termini() -> None:
    """With all that they hold and note."""
    world = World()
    world.put("a")
    source, target = world.source(expiry=LINK_DETACH, timeout_ms=10), world.target()
    source.hold(b"1", world.queue, world.take())
    target.part(b"2", b"part")
    world.broker.delete_vhost("/")
    assert world.kept == []
    assert (source.gone, target.gone) == (True, True)


def test_a_stream_is_held_by_offset() -> None:
    """The log has the message still after a restart; where it has not, nothing is held."""
    world = World()
    stream = world.declare("s", {"x-queue-type": "stream"})
    for body in ("a", "b"):
        world.vhost.deliver(message(body, persistent=True), [stream])
    world.storage.sync()
    source = world.source()
    for offset in (0, 1, 5):
        source.hold(b"%d" % offset, stream, Entry(message("?"), offset))
    again = world.restarted()
    found = again.termini.sources["u", "c", "l"]
    assert [(tag, held.entry.message.body) for tag, held in found.unsettled.items()] == [(b"0", b"a"), (b"1", b"b")]
    assert found.settle(b"0", ACCEPTED)
    assert found.settle(b"1", RELEASED)
    # How far its links have read is known as long as the terminus is.
    assert again.kept == [b"s%d 0 2" % stream.id]
    found.expire()
    assert again.kept == []


@pytest.mark.parametrize("how", ["expires", "queue deleted", "not durable any more"])
def test_what_was_sent_of_copies_is_known_as_long_as_the_terminus(how: str) -> None:
    """One note says it, whatever was settled before; it goes with the terminus, its queue, or its durability."""
    world = World()
    world.put("a", "b", "c")
    source = world.source()
    source.seen = Seen(world.queue.id)
    for seq in range(3):
        source.seen.add(seq)
        source.hold(b"%d" % seq, view_of(world.queue), Entry(message(str(seq)), seq))
    for tag in (b"0", b"2"):
        assert source.settle(tag, ACCEPTED)
    assert [body for body in world.kept if body.startswith(b"s")] == [b"s%d 0 1 2 3" % world.queue.id]
    again = world.restarted()
    found = again.termini.sources["u", "c", "l"]
    assert found.seen is not None
    assert [found.seen.has(seq) for seq in range(4)] == [True, False, True, False]
    if how == "expires":
        found.expire()
    elif how == "queue deleted":
        again.vhost.remove_queue(again.queue)
        again = again.restarted()
    else:
        found.configure(CONFIGURATION, NEVER, 0, b"source")
    assert [body for body in again.kept if body.startswith(b"s")] == []


def test_a_time_to_live_goes_on_while_it_is_held() -> None:
    """What was held over a restart expires once it is back, if its time is over."""
    world = World()
    world.vhost.deliver(message("a", persistent=True), [world.declare("t", {"x-message-ttl": 100})])
    entry = got(world.vhost.queues["t"])
    assert entry is not None
    source = world.source()
    source.hold(b"1", world.vhost.queues["t"], entry)
    again = world.restarted()
    found = again.termini.sources["u", "c", "l"]
    again.pass_ms(1000)
    assert list(found.unsettled) == [b"1"]
    found.settle(b"1", RELEASED)
    again.pass_ms(1)
    assert again.kept == []


# -- a target --------------------------------------------------------------------------------------------------------


def test_what_was_received_is_known_after_a_restart() -> None:
    """Parts of a message, and the outcome of one that is on its queue, until the sender has settled or aborted it."""
    world = World()
    target = world.target()
    target.part(b"half", b"p1")
    assert target.part(b"half", b"p22").size == 5
    target.part(b"whole", b"p")
    target.begin()
    world.put("whole")
    target.received(b"whole", b"accepted")
    target.end()
    again = world.restarted()
    found = again.termini.targets["u", "c", "l"]
    assert {tag: (each.parts, each.size, each.outcome) for tag, each in found.unsettled.items()} == {
        b"half": ([b"p1", b"p22"], 5, None),
        b"whole": ([], 0, b"accepted"),
    }
    assert found.forget(b"half")
    assert found.forget(b"whole")
    assert not found.forget(b"whole")
    assert again.kept == [b"whole"]
    assert again.restarted().termini.targets["u", "c", "l"].unsettled == {}


def test_parts_that_are_out_of_memory_keep_their_notes() -> None:
    """They are put out when the link is suspended, by a restart, too, and however often somebody goes on with them;
    with the message go the notes of all of its parts.
    """
    world = World()
    pages = world.storage.memory_pages
    target = world.target()
    target.part(b"half", b"1" * 2_000)
    world.put("between")
    target.part(b"half", b"2" * 2_000)
    target.part(b"small", b"3")
    target.detach()
    half = target.unsettled[b"half"]
    assert (half.parts, half.notes, half.held, target.paged_out_bytes) == ([], [], 4_000, 4_000)
    assert target.unsettled[b"small"].parts == [b"3"]
    target.attach(object(), "session", "connection")
    target.part(b"half", b"4")
    assert half.parts == [b"1" * 2_000 + b"2" * 2_000, b"4"]
    target.detach()
    again = world.restarted()
    found = again.termini.targets["u", "c", "l"]
    assert found.unsettled[b"half"].parts == []
    assert len(pages.put) == 2
    assert found.forget(b"half")
    assert len(pages.put) == 1
    found.attach(object(), "session", "connection")
    assert found.unsettled[b"small"].parts == [b"3"]
    assert found.forget(b"small")
    assert again.kept == [b"between"]


# -- expiry ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expiry", "ends_with"),
    [(LINK_DETACH, "detach"), (SESSION_END, "session"), (CONNECTION_CLOSE, "connection"), (NEVER, None)],
)
@pytest.mark.parametrize("timeout_ms", [0, 50])
def test_expiry_policies(expiry: str, ends_with: str | None, timeout_ms: int) -> None:
    """It expires so long after its policy's event; what it holds goes back then, as released."""
    world = World()
    world.put("a")
    source, target = world.source(UNSETTLED_STATE, expiry, timeout_ms), world.target(NONE, expiry, timeout_ms)
    source.hold(b"1", world.queue, world.take())
    events: dict[str, Callable[[], object]] = {
        "detach": lambda: [terminus.detach() for terminus in (source, target)],
        "session": lambda: world.termini.session_ended("session"),
        "connection": lambda: world.termini.connection_closed("connection"),
    }
    for name, event in events.items():
        event()
        world.pass_ms(timeout_ms + 1)
        is_gone = ends_with is not None and list(events).index(name) >= list(events).index(ends_with)
        assert (source.gone, target.gone) == (is_gone, is_gone)
        assert world.queue.message_count == is_gone
    assert len(world.termini) == (2 if ends_with is None else 0)
    if ends_with is not None:
        entry = world.take()
        assert (entry.redelivered, entry.returns) == (True, 0)
        assert world.kept == [b"a"]
        assert not world.storage.memory_definitions.termini


def test_who_comes_back_in_time() -> None:
    """The clock stops when a link attaches, over another session too, and what was held is there."""
    world = World()
    world.put("a")
    source = world.source(NONE, SESSION_END, 50)
    source.hold(b"1", world.queue, world.take())
    world.termini.session_ended("session")
    world.pass_ms(40)
    source.attach(object(), "other session", "other connection")
    world.pass_ms(100)
    world.termini.connection_closed("connection")
    world.termini.session_ended("session")
    world.pass_ms(100)
    assert list(source.unsettled) == [b"1"]
    world.termini.connection_closed("other connection")
    world.pass_ms(50)
    assert source.gone
    assert source.unsettled == {}


@pytest.mark.parametrize("expiry", [LINK_DETACH, SESSION_END, CONNECTION_CLOSE, NEVER])
def test_expiry_after_a_restart(expiry: str) -> None:
    """A restart ends links, sessions and connections: the time begins with it."""
    world = World()
    world.put("a")
    source = world.source(UNSETTLED_STATE, expiry, 50)
    source.hold(b"1", world.queue, world.take())
    again = world.restarted()
    again.pass_ms(49)
    assert len(again.termini) == 1
    again.pass_ms(2)
    assert (len(again.termini), again.queue.message_count) == ((1, 0) if expiry == NEVER else (0, 1))


def test_closing() -> None:
    """A link that is closed ends its terminus at once; the name is free for another one."""
    world = World()
    world.put("a")
    source = world.source()
    source.hold(b"1", world.queue, world.take())
    source.expire()
    source.expire()
    assert world.queue.message_count == 1
    other = world.source()
    source.detach()
    assert world.termini.sources["u", "c", "l"] is other


def test_undeliverable_here_is_about_the_terminus() -> None:
    """Whoever resumes the link must not get it either; when the terminus is gone, anybody may."""
    world = World()
    world.put("a")
    source = world.source()
    source.hold(b"1", world.queue, world.take())
    source.settle(b"1", modified(False, True))
    assert got(world.queue, source) is None
    source.expire()
    assert got(world.queue, source) is not None


def test_there_is_a_limit() -> None:
    """Of termini in a virtual host, both roles together."""
    world = World()
    for number in range(TERMINI_MAX - 1):
        world.termini.make_source(f"u{number % 3}", "c", str(number), NONE, NEVER, 0, b"")
    target = world.target()
    with pytest.raises(ResourceError, match=f"has {TERMINI_MAX} link termini"):
        world.source()
    target.expire()
    world.source()


def test_nobody_keeps_others_from_theirs() -> None:
    """Of those, a part is one user's; what goes makes room, and what a restart finds counts."""
    world = World()
    made = [world.termini.make_source("u", "c", str(number), NONE, NEVER, 0, b"") for number in range(TERMINI_USER_MAX)]
    with pytest.raises(ResourceError, match=f"user 'u' has {TERMINI_USER_MAX} link termini"):
        world.target()
    world.termini.make_source("other", "c", "l", NONE, NEVER, 0, b"")
    made[0].expire()
    world.target()
    with pytest.raises(ResourceError):
        world.source()
