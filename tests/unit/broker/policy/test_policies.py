"""Policies: whom they concern, which of them counts, and what comes of them and of arguments together."""

from functools import partial

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.broker.broker import Broker
from flintmq.broker.message import Table
from flintmq.broker.policy.policies import Policies, check_policy
from flintmq.broker.ports import PolicyRecord, VHostRecord
from flintmq.broker.vhost import VHost
from tests.unit.broker.memory import MemoryStorage, got, message


def policy(
    definition: Table,
    name: str = "p",
    pattern: str = ".*",
    apply_to: str = "all",
    priority: int = 0,
    operator: bool = False,
) -> PolicyRecord:
    return PolicyRecord("/", name, pattern, definition, apply_to, priority, operator)


def policies(*records: PolicyRecord) -> Policies:
    made = Policies()
    for record in records:
        made.put(record)
    return made


# -- whom they concern --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", ["classic", "quorum", "stream", "exchange"]),
        ("queues", ["classic", "quorum", "stream"]),
        ("classic_queues", ["classic"]),
        ("quorum_queues", ["quorum"]),
        ("streams", ["stream"]),
        ("exchanges", ["exchange"]),
    ],
)
def test_apply_to(apply_to: str, kinds: list[str]) -> None:
    """A policy is for the kinds it says."""
    made = policies(policy({"max-length-bytes": 1}, apply_to=apply_to))
    found = [kind for kind in ("classic", "quorum", "stream", "exchange") if made.find(kind, "n", False)]
    assert found == kinds


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("delivery-limit", "classic"),
        ("max-age", "classic"),
        ("max-age", "quorum"),
        ("message-ttl", "stream"),
        ("dedup-size", "stream"),
        ("paused", "stream"),
    ],
)
def test_keys_of_other_kinds(key: str, kind: str) -> None:
    """A policy with a key that a kind does not have is not for it, and the next one counts (RabbitMQ)."""
    value = {"max-age": "1h", "paused": True}.get(key, 5)
    next_one = policy({"max-length-bytes": 1}, "next", priority=1)
    made = policies(policy({key: value, "max-length-bytes": 2}, priority=2), next_one)
    assert made.find(kind, "q", False) == next_one


def test_delivery_limit_on_classic_queues() -> None:
    """Where a policy names the kind, it is for it: classic queues have delivery limits here."""
    made = policies(policy({"delivery-limit": 5}, apply_to="classic_queues"))
    assert made.effective("classic", "q", {}) == {"x-delivery-limit": 5}


def test_the_highest_priority_counts() -> None:
    """One policy counts, and its name and pattern decide together with its priority; the others are not merged."""
    made = policies(
        policy({"max-length": 1}, "low", "^a", priority=1),
        policy({"message-ttl": 2}, "high", "^ab", priority=2),
        policy({"expires": 3}, "higher", "^abc", priority=3),
    )
    assert made.effective("classic", "abx", {}) == {"x-message-ttl": 2}
    assert made.effective("classic", "ax", {}) == {"x-max-length": 1}
    assert made.effective("classic", "x", {}) == {}


def test_of_one_name_there_is_one() -> None:
    """Putting a policy of a name again replaces it; an operator policy of that name is another one."""
    made = policies(
        policy({"max-length": 1}),
        policy({"max-length": 3}, operator=True),
        policy({"max-length-bytes": 2}, pattern="^q"),
    )
    assert len(made.records) == 2
    assert made.effective("classic", "q", {}) == {"x-max-length": 3, "x-max-length-bytes": 2}
    made.remove(policy({}, operator=True))
    assert made.effective("classic", "q", {}) == {"x-max-length-bytes": 2}


# -- what comes together ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ours", "operators", "arguments", "effective"),
    [
        ("classic", {"max-length": 5}, {"max-length": 3}, {}, {"x-max-length": 3}),
        ("classic", {"max-length": 5}, {"max-length": 9}, {}, {"x-max-length": 5}),
        ("classic", {"max-length": 5}, {"message-ttl": 9}, {}, {"x-max-length": 5, "x-message-ttl": 9}),
        ("classic", {"overflow": "drop-head"}, {"overflow": "reject-publish"}, {}, {"x-overflow": "reject-publish"}),
        ("quorum", {"delivery-limit": 5}, {"delivery-limit": 3}, {}, {"x-delivery-limit": 3}),
        ("quorum", {"delivery-limit": -1}, {"delivery-limit": 3}, {}, {"x-delivery-limit": 3}),
        ("classic", {"max-length": 5}, None, {"x-max-length": 3}, {"x-max-length": 3}),
        ("classic", {"max-length": 5}, None, {"x-max-length": 9}, {"x-max-length": 5}),
        ("classic", {"expires": 5}, None, {"x-expires": 9}, {"x-expires": 5}),
        ("classic", {"message-ttl": 5}, None, {"x-message-ttl": 0}, {"x-message-ttl": 0}),
        ("classic", {"max-length-bytes": 5}, None, {"x-max-length-bytes": 9}, {"x-max-length-bytes": 5}),
        ("stream", {"max-length-bytes": 50}, None, {"x-max-length-bytes": 9}, {"x-max-length-bytes": 50}),
        ("stream", {"max-age": "1h"}, None, {"x-max-age": "9D"}, {"x-max-age": "1h"}),
        (
            "classic",
            {"dead-letter-exchange": "p"},
            None,
            {"x-dead-letter-exchange": "a"},
            {"x-dead-letter-exchange": "a"},
        ),
        ("classic", {"overflow": "reject-publish"}, None, {"x-overflow": "drop-head"}, {"x-overflow": "drop-head"}),
        ("quorum", {"overflow": "reject-publish"}, None, {"x-overflow": "drop-head"}, {"x-overflow": "reject-publish"}),
        ("quorum", {"delivery-limit": 5}, None, {"x-delivery-limit": -1}, {"x-delivery-limit": 5}),
        ("quorum", {"delivery-limit": 5}, None, {"x-delivery-limit": 2}, {"x-delivery-limit": 2}),
        ("classic", {"paused": False}, None, {"x-paused": True}, {"x-paused": False}),
        ("quorum", {"paused": False}, {"paused": True}, {"x-paused": False}, {"x-paused": True}),
        ("classic", {"dedup-window": 5}, None, {"x-dedup-window": 9}, {"x-dedup-window": 9}),
        ("classic", {"max-length": 5}, {"max-length": 4}, {"x-max-length": 3, "x-y": 1}, {"x-max-length": 3, "x-y": 1}),
    ],
)
def test_together(kind: str, ours: Table, operators: Table | None, arguments: Table, effective: Table) -> None:
    """RabbitMQ's ways to bring policy, operator policy and argument together, key by key."""
    records = [policy(ours)] + ([policy(operators, operator=True)] if operators else [])
    assert policies(*records).effective(kind, "q", arguments) == effective


def test_arguments_stay_what_they_are() -> None:
    """What a queue was declared with is not touched; without a policy it is the effective table itself."""
    arguments: Table = {"x-max-length": 9}
    assert policies(policy({"max-length": 5})).effective("classic", "q", arguments) == {"x-max-length": 5}
    assert arguments == {"x-max-length": 9}
    assert policies().effective("classic", "q", arguments) is arguments


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (policy({}), "the definition is empty"),
        (policy({"max-lenght": 5}), "'max-lenght' is not a key of policies"),
        (policy({"max-priority": 5}), "'max-priority' is not a key of policies"),
        (
            policy({"dead-letter-exchange": "x"}, operator=True),
            "'dead-letter-exchange' is not a key of operator policies",
        ),
        (policy({"max-length": -1}), "max-length must be a number of messages, not -1"),
        (policy({"max-length": True}), "max-length must be a number of messages, not True"),
        (policy({"max-length": "5"}), "max-length must be a number of messages"),
        (policy({"message-ttl": 2**60}), "message-ttl must be a time in milliseconds"),
        (policy({"expires": 0}), "expires must be a time in milliseconds, 1 at least"),
        (policy({"overflow": "drop"}), "overflow must be drop-head, reject-publish or reject-publish-dlx, not 'drop'"),
        (policy({"max-age": "5"}), "max-age must be a number and one of"),
        (policy({"dead-letter-exchange": 5}), "dead-letter-exchange must be the name of an exchange"),
        (policy({"paused": "yes"}), "paused must be true or false, not 'yes'"),
        (policy({"dedup-window": 0}), "dedup-window must be a time in milliseconds, 1 at least"),
        (policy({"dedup-size": 0}), "dedup-size must be a number of messages from 1 to 10000000, not 0"),
        (policy({"dedup-size": 10_000_001}), "dedup-size must be a number of messages from 1"),
        (policy({"dedup-size": True}), "dedup-size must be a number of messages from 1"),
        (policy({"dead-letter-strategy": "twice"}), "at-most-once or at-least-once"),
        (policy({"max-length": 5}, pattern="("), "is not a valid pattern"),
        (policy({"max-length": 5}, apply_to="topics"), "apply-to 'topics' is unknown; known values: all, queues"),
    ],
)
def test_what_is_refused(record: PolicyRecord, words: str) -> None:
    """A policy that nothing could come of is refused, with the reason."""
    with pytest.raises(ConfigurationError, match=words):
        check_policy(record)


def test_what_other_brokers_have() -> None:
    """Keys of clusters and of mirroring are taken, and do nothing."""
    check_policy(policy({"ha-mode": "all", "ha-sync-mode": "automatic", "queue-leader-locator": "balanced"}))


# -- in a virtual host --------------------------------------------------------------------------------------------


def _vhost() -> tuple[Broker, VHost]:
    broker = Broker(MemoryStorage())
    return broker, broker.add_vhost("/")


def _declare(vhost: VHost, name: str, arguments: Table | None = None) -> None:
    vhost.declare_queue(name, True, False, False, arguments or {}, None)


def test_queues_follow_at_once() -> None:
    """A policy is in force for queues that are there and that come later, until it is changed or withdrawn."""
    broker, vhost = _vhost()
    _declare(vhost, "q1", {"x-max-length": 7})
    _declare(vhost, "other")
    record = policy({"max-length": 5}, pattern="^q")
    broker.put_rule(record)
    _declare(vhost, "q2")
    queues = vhost.queues
    assert [queues[name].settings.max_length for name in ("q1", "q2", "other")] == [5, 5, -1]
    broker.put_rule(policy({"max-length": 6}, pattern="2$"))
    assert [queues[name].settings.max_length for name in ("q1", "q2", "other")] == [7, 6, -1]
    broker.delete_rule(record)
    assert [queues[name].settings.max_length for name in ("q1", "q2", "other")] == [7, -1, -1]


@pytest.mark.parametrize(
    ("definition", "left"),
    [
        ({"max-length": 2}, ["c", "d"]),
        ({"max-length-bytes": 3}, ["b", "c", "d"]),
        ({"max-length": 0}, []),
        ({"max-length": 2, "overflow": "reject-publish"}, ["a", "b", "c", "d"]),
    ],
)
def test_a_limit_that_comes_later(definition: Table, left: list[str]) -> None:
    """Messages that are there already and too many go, the oldest first; where publishers are to stop, none do."""
    broker, vhost = _vhost()
    _declare(vhost, "q")
    for body in "abcd":
        vhost.deliver(message(body), [vhost.queues["q"]])
    broker.put_rule(policy(definition))
    found = [entry.message.body.decode() for entry in iter(partial(got, vhost.queues["q"]), None)]
    assert found == left


def test_a_policy_is_no_argument() -> None:
    """Declaring a queue again with its own arguments is the same, whatever policies say."""
    broker, vhost = _vhost()
    _declare(vhost, "q", {"x-max-length": 7})
    broker.put_rule(policy({"max-length": 5, "message-ttl": 5}))
    _declare(vhost, "q", {"x-max-length": 7})


def test_exchanges_follow_at_once() -> None:
    """So are alternate exchanges; one that was declared with its own keeps that."""
    broker, vhost = _vhost()
    declare = vhost.exchanges.declare
    declare("x1", "direct", True, False, False, {})
    record = policy({"alternate-exchange": "ae"}, pattern="^x", apply_to="exchanges")
    broker.put_rule(record)
    declare("x2", "direct", True, False, False, {})
    declare("x3", "direct", True, False, False, {"alternate-exchange": "own"})
    exchanges = vhost.exchanges.by_name
    assert [exchanges[name].alternate for name in ("x1", "x2", "x3", "amq.direct")] == ["ae", "ae", "own", ""]
    broker.delete_rule(record)
    assert [exchanges[name].alternate for name in ("x1", "x2", "x3")] == ["", "", "own"]


def test_policies_after_a_restart() -> None:
    """What was laid down before a restart is in force after it, for queues and exchanges that came back."""
    broker, vhost = _vhost()
    _declare(vhost, "q")
    vhost.exchanges.declare("x", "direct", True, False, False, {})
    broker.put_rule(policy({"max-length": 5}, apply_to="queues"))
    broker.put_rule(policy({"alternate-exchange": "ae"}, "p2", apply_to="exchanges"))
    again = Broker(broker.storage)
    again.recover(broker.storage.definitions.load())
    assert again.vhosts["/"].queues["q"].settings.max_length == 5
    assert again.vhosts["/"].exchanges.by_name["x"].alternate == "ae"


def test_a_refused_policy_changes_nothing() -> None:
    """Neither in memory nor on the disk."""
    broker, vhost = _vhost()
    broker.put_rule(policy({"max-length": 5}))
    with pytest.raises(ConfigurationError):
        broker.put_rule(policy({"max-length": -5}))
    assert vhost.policies.records == [policy({"max-length": 5})]
    assert broker.storage.definitions.load().rules == [policy({"max-length": 5})]


def test_the_default_queue_type() -> None:
    """A declaration without a type gets the virtual host's, where it fits, and is the same as one with it."""
    broker, vhost = _vhost()
    broker.put_vhost(VHostRecord("/", default_queue_type="quorum"))
    _declare(vhost, "q")
    _declare(vhost, "q", {"x-queue-type": "quorum"})
    _declare(vhost, "c", {"x-queue-type": "classic"})
    vhost.declare_queue("e", False, True, False, {}, object())
    assert [vhost.queues[name].kind for name in ("q", "c", "e")] == ["quorum", "classic", "classic"]
    with pytest.raises(ConfigurationError, match="queue type 'fast' is unknown"):
        broker.put_vhost(VHostRecord("/", default_queue_type="fast"))
