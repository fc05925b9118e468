"""Queues that end by themselves: with links, with messages, or with both."""

import pytest

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.arguments import (
    LIFETIME,
    LIFETIME_POLICIES,
    ON_CLOSE,
    ON_NO_LINKS,
    ON_NO_LINKS_OR_MESSAGES,
    ON_NO_MESSAGES,
)
from flintmq.broker.message import Table
from flintmq.broker.queue.entries import entry_queue
from flintmq.broker.queue.lifetime import Lifetime
from flintmq.broker.queue.settlement import ACCEPTED, RELEASED
from flintmq.broker.terminus.terminus import NEVER, UNSETTLED_STATE
from tests.unit.broker import world as worlds
from tests.unit.broker.memory import Taker, got, message, purge


class World(worlds.World):
    def __init__(self, policy: str, durable: bool = False, arguments: Table | None = None) -> None:
        super().__init__()
        self.vhost.declare_queue("q", durable, False, False, {LIFETIME: policy, **(arguments or {})}, None, True)

    @property
    def lifetime(self) -> Lifetime:
        assert self.queue.lifetime is not None
        return self.queue.lifetime

    @property
    def is_there(self) -> bool:
        """Once the tick has ended."""
        self.broker.dispatch()
        return "q" in self.vhost.queues


@pytest.mark.parametrize("policy", LIFETIME_POLICIES)
def test_nothing_ends_it_before_it_is_used(policy: str) -> None:
    """It is made before its link is there, and that may come in a later tick."""
    world = World(policy)
    assert world.is_there
    world.lifetime.open("creator")
    assert world.is_there


@pytest.mark.parametrize("policy", [policy for policy in LIFETIME_POLICIES if policy != ON_NO_MESSAGES])
def test_it_ends_in_the_tick_in_which_its_virtual_host_is_deleted(policy: str) -> None:
    world = World(policy)
    world.lifetime.open("creator")
    world.lifetime.close("creator")
    assert world.broker.tick.ended
    world.broker.delete_vhost("/")
    world.broker.dispatch()
    assert not world.broker.vhosts


def test_delete_on_close() -> None:
    """With the link that made it, whoever else is there."""
    world = World(ON_CLOSE)
    for link in ("creator", "other"):
        world.lifetime.open(link)
    world.lifetime.close("other")
    world.put("m")
    assert world.is_there
    world.lifetime.open("other")
    world.lifetime.close("creator")
    assert not world.is_there


def test_delete_on_no_links() -> None:
    """With the last of its links, and of its consumers by other protocols; messages or not."""
    world = World(ON_NO_LINKS)
    for link in ("creator", "other"):
        world.lifetime.open(link)
    world.put("m")
    world.lifetime.close("creator")
    taker = Taker()
    world.queue.subscribe(taker, {})
    world.lifetime.close("other")
    assert world.is_there
    world.vhost.unsubscribe(world.queue, taker)
    assert not world.is_there


def test_delete_on_no_messages() -> None:
    """When the link that made it is gone, and the last message is settled."""
    world = World(ON_NO_MESSAGES)
    world.lifetime.open("creator")
    world.put("a", "b")
    world.lifetime.open("other")
    for _ in range(2):
        ACCEPTED.apply(world.queue, world.take(), None)
    assert world.is_there
    world.put("c")
    world.lifetime.close("creator")
    entry = world.take()
    assert world.is_there
    RELEASED.apply(world.queue, entry, None)
    assert world.is_there
    ACCEPTED.apply(world.queue, world.take(), None)
    assert not world.is_there


def test_delete_on_no_links_or_messages() -> None:
    """When neither is left."""
    world = World(ON_NO_LINKS_OR_MESSAGES)
    world.lifetime.open("creator")
    world.put("a")
    world.lifetime.open("other")
    world.lifetime.close("creator")
    ACCEPTED.apply(world.queue, world.take(), None)
    assert world.is_there
    world.put("b")
    world.lifetime.close("other")
    assert world.is_there
    ACCEPTED.apply(world.queue, world.take(), None)
    assert not world.is_there


def test_a_message_of_the_same_tick_keeps_it() -> None:
    """What was taken in before the tick ends is not lost with a queue that was empty for a moment."""
    world = World(ON_NO_MESSAGES)
    world.lifetime.open("creator")
    world.put("a")
    world.lifetime.close("creator")
    ACCEPTED.apply(world.queue, world.take(), None)
    world.put("b")
    assert world.is_there
    assert world.queue.message_count == 1


@pytest.mark.parametrize(
    "arguments",
    [{"x-max-length": 1}, {"x-message-ttl": 10}, {"x-last-value-key": "k"}, {"x-dead-letter-exchange": "amq.fanout"}],
)
def test_every_way_out_is_counted(arguments: Table) -> None:
    """Messages that are dropped, expire, are replaced or die are not on the queue any more."""
    world = World(ON_NO_MESSAGES, arguments=arguments)
    world.lifetime.open("creator")
    for number in range(3):
        world.vhost.deliver(message(str(number), headers="k=1"), [world.queue])
    world.lifetime.close("creator")
    assert world.is_there
    while (entry := got(world.queue)) is not None:
        world.queue.reject(entry)
    world.broker.now_ms += 100
    assert not world.is_there


def test_purging_and_consumers_without_acknowledgements() -> None:
    """Both let messages go at once."""
    world = World(ON_NO_LINKS_OR_MESSAGES)
    world.lifetime.open("creator")
    world.put("a", "b")
    world.lifetime.close("creator")
    taker = Taker(1, no_ack=True)
    world.queue.subscribe(taker, {})
    assert world.is_there
    purge(entry_queue(world.queue, "queue.purge"))
    assert world.is_there
    world.vhost.unsubscribe(world.queue, taker)
    assert not world.is_there


def test_a_restart_ends_links() -> None:
    """A durable one with messages is there until they are gone; without, it is not."""
    for count in (0, 2):
        world = World(ON_NO_MESSAGES, durable=True)
        world.lifetime.open("creator")
        world.put(*["m"] * count)
        again = worlds.World(world.storage)
        again.broker.dispatch()
        assert ("q" in again.vhost.queues) == (count > 0)
        if count:
            worlds.taken(again.queue)
            again.broker.dispatch()
            assert "q" not in again.vhost.queues


def test_a_terminus_keeps_its_node() -> None:
    """A link that may be resumed still exists: over a restart, too, if it is durable; until it expires."""
    world = World(ON_CLOSE, durable=True)
    source = world.vhost.termini.make_source("u", "c", "l", UNSETTLED_STATE, NEVER, 0, b"")
    source.attach("link", "session", "connection")
    source.made(world.queue)
    world.vhost.termini.connection_closed("connection")
    assert world.is_there
    again = worlds.World(world.storage)
    again.broker.dispatch()
    assert "q" in again.vhost.queues
    again.vhost.termini.sources["u", "c", "l"].expire()
    again.broker.dispatch()
    assert "q" not in again.vhost.queues
    assert not world.storage.memory_definitions.termini


def test_a_terminus_has_one_node() -> None:
    """When a link comes back for another one, the first may go."""
    world = World(ON_NO_LINKS)
    source = world.vhost.termini.make_source("u", "c", "l", UNSETTLED_STATE, NEVER, 0, b"")
    source.own(world.queue)
    source.own(world.queue)
    assert world.is_there
    source.own(world.vhost.declare_queue("other", False, False, False, {LIFETIME: ON_NO_LINKS}, None))
    assert not world.is_there
    source.expire()
    world.broker.dispatch()
    assert not world.vhost.queues


def test_another_policy_is_refused() -> None:
    """There are four."""
    with pytest.raises(PreconditionFailed, match="one of delete-on-close, "):
        World("delete-on-sunday")
