"""Policies: arguments that an administrator sets for queues and exchanges by name patterns, at any time.

Of the matching policies the one with the highest priority applies, and likewise one operator policy. They are merged
with the declared arguments key by key, as in RabbitMQ.
"""

from collections.abc import Callable
from typing import Final, final

from flintmq.base.errors import ConfigurationError
from flintmq.base.limits import DEDUP_MAX_ENTRIES, EXPIRY_MAX_MS
from flintmq.broker.arguments import (
    FILTER_MAX_BYTES,
    FILTER_MIN_BYTES,
    OVERFLOWS,
    QUEUE_KINDS,
    RETRY_TYPES,
    SEGMENT_MAX_BYTES,
    STRATEGIES,
    is_age,
    is_routing_key,
)
from flintmq.broker.exchange.types import EXCHANGE_TYPES
from flintmq.broker.message import Table
from flintmq.broker.pattern import Pattern
from flintmq.broker.ports import PolicyRecord

# The value of apply-to for all queues, whatever their type.
ANY_QUEUE: Final = "queue"
# The values of apply-to, and the kinds of queues that each includes.
APPLY_TO: Final[dict[str, tuple[str, ...]]] = {
    "all": (*QUEUE_KINDS, "exchange"),
    "queues": QUEUE_KINDS,
    "classic_queues": ("classic",),
    "quorum_queues": ("quorum",),
    "streams": ("stream",),
    "exchanges": ("exchange",),
}

# Keys that RabbitMQ does not support for a kind of queue. A policy with such a key is skipped for queues of that kind,
# unless its apply-to names exactly this kind, which RabbitMQ does not consider.
_FOREIGN: Final[dict[str, frozenset[str]]] = {
    "classic": frozenset(
        {
            *("max-age", "stream-max-segment-size-bytes", "initial-cluster-size"),
            *("delivery-limit", "dead-letter-strategy", "target-group-size"),
            *("max-in-memory-length", "max-in-memory-bytes"),
        }
    ),
    "quorum": frozenset(
        {
            *("max-age", "stream-max-segment-size-bytes", "initial-cluster-size"),
            *("queue-mode", "queue-master-locator"),
            *("ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"),
        }
    ),
    "stream": frozenset(
        {
            *("expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key", "max-length"),
            *("max-in-memory-length", "max-in-memory-bytes", "overflow", "queue-mode", "queue-master-locator"),
            *("delivery-limit", "dead-letter-strategy", "target-group-size", "paused", "dedup-window", "dedup-size"),
            *("ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"),
        }
    ),
    "exchange": frozenset(),
}

# Keys for which the smaller value wins if both sides have one.
_SMALLER: Final = frozenset(
    {
        *("expires", "message-ttl", "max-length", "max-length-bytes", "consumer-timeout"),
        *("max-in-memory-length", "max-in-memory-bytes", "delayed-retry-min", "delayed-retry-max"),
    }
)
# Keys for which the policy wins over the argument, by kind. For all others the argument wins.
_POLICY_FIRST: Final[dict[str, frozenset[str]]] = {
    "classic": frozenset({"paused"}),
    "quorum": frozenset({"overflow", "delayed-retry-type", "paused"}),
    "stream": frozenset({"max-age", "max-length-bytes", "stream-max-segment-size-bytes", "stream-filter-size-bytes"}),
    "exchange": frozenset(),
}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_key(value: object) -> bool:
    return isinstance(value, str) and is_routing_key(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= EXPIRY_MAX_MS


def _is_expiry(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= EXPIRY_MAX_MS


def _is_dedup_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= DEDUP_MAX_ENTRIES


def _is_age(value: object) -> bool:
    return isinstance(value, str) and is_age(value)


def _is_segment_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= SEGMENT_MAX_BYTES


def _is_filter_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and FILTER_MIN_BYTES <= value <= FILTER_MAX_BYTES


def _is_overflow(value: object) -> bool:
    return value in OVERFLOWS


def _is_strategy(value: object) -> bool:
    return value in STRATEGIES


def _is_retry(value: object) -> bool:
    return value in RETRY_TYPES


def _is_node_type(value: object) -> bool:
    return value == ANY_QUEUE or value in QUEUE_KINDS or value in EXCHANGE_TYPES


# The keys of a definition, with the check of a value and the text that says what it must be.
_KEYS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "alternate-exchange": (_is_text, "the name of an exchange"),
    "auto-create": (_is_node_type, "queue, or a type of queues or exchanges"),
    "consumer-timeout": (_is_time, "a time in milliseconds"),
    "dead-letter-exchange": (_is_text, "the name of an exchange"),
    "dead-letter-routing-key": (_is_key, "a routing key of at most 255 bytes"),
    "dead-letter-strategy": (_is_strategy, "at-most-once or at-least-once"),
    "dedup-size": (_is_dedup_size, f"a number of messages from 1 to {DEDUP_MAX_ENTRIES}"),
    "dedup-window": (_is_expiry, "a time in milliseconds, 1 at least"),
    "delayed-retry-max": (_is_time, "a time in milliseconds"),
    "delayed-retry-min": (_is_time, "a time in milliseconds"),
    "delayed-retry-type": (_is_retry, "disabled, all, failed or returned"),
    "delivery-limit": (_is_number, "a number"),
    "expires": (_is_expiry, "a time in milliseconds, 1 at least"),
    "max-age": (_is_age, "a number and one of Y, M, D, h, m, s"),
    "max-length": (_is_count, "a number of messages"),
    "max-length-bytes": (_is_count, "a number of bytes"),
    "message-ttl": (_is_time, "a time in milliseconds"),
    "paused": (_is_flag, "true or false"),
    "stream-filter-size-bytes": (_is_filter_size, f"a number of bytes from {FILTER_MIN_BYTES} to {FILTER_MAX_BYTES}"),
    "stream-max-segment-size-bytes": (_is_segment_size, f"a number of bytes, {SEGMENT_MAX_BYTES} at most"),
    "overflow": (_is_overflow, "drop-head, reject-publish or reject-publish-dlx"),
}
# Keys for clusters or other storage. They are kept for exports, and have no effect here.
_WITHOUT_EFFECT: Final = frozenset(
    {
        *("consumer-disconnected-timeout", "federation-upstream", "federation-upstream-set", "ha-mode"),
        *("ha-params", "ha-promote-on-failure", "ha-promote-on-shutdown", "ha-sync-batch-size", "ha-sync-mode"),
        *("initial-cluster-size", "max-in-memory-bytes", "max-in-memory-length", "queue-leader-locator"),
        *("queue-master-locator", "queue-mode", "queue-version", "target-group-size"),
    }
)
_OPERATOR_KEYS: Final = frozenset(
    {
        *("delayed-retry-max", "delayed-retry-min", "delayed-retry-type", "delivery-limit", "expires", "max-length"),
        *("max-length-bytes", "message-ttl", "overflow", "max-in-memory-bytes", "max-in-memory-length"),
        *("paused", "queue-version", "target-group-size"),
    }
)


def check_policy(record: PolicyRecord) -> None:
    """Raises ConfigurationError for an invalid policy."""
    Pattern(record.pattern)
    if record.apply_to not in APPLY_TO:
        raise ConfigurationError(f"apply-to '{record.apply_to}' is unknown; known values: {', '.join(APPLY_TO)}")
    if not _is_number(record.priority):
        raise ConfigurationError(f"the priority must be a number, not {record.priority!r}")
    if not record.definition:
        raise ConfigurationError("the definition is empty")
    for key, value in record.definition.items():
        known = _KEYS.get(key)
        if record.operator and key not in _OPERATOR_KEYS:
            raise ConfigurationError(f"'{key}' is not a key of operator policies")
        if known is None:
            if key not in _WITHOUT_EFFECT:
                raise ConfigurationError(f"'{key}' is not a key of policies")
            continue
        is_right, what = known
        if not is_right(value):
            raise ConfigurationError(f"{key} must be {what}, not {value!r}")


@final
class _Policy:
    def __init__(self, record: PolicyRecord) -> None:
        self.record = record
        self._pattern = Pattern(record.pattern)

    def concerns(self, kind: str, name: str) -> bool:
        """Whether the policy applies to objects of this kind ("exchange", or a kind of queue) and name."""
        kinds = APPLY_TO[self.record.apply_to]
        if kind not in kinds:
            return False
        if len(kinds) > 1 and not _FOREIGN[kind].isdisjoint(self.record.definition):
            return False
        return self._pattern.matches(name)


@final
class Policies:
    """The policies of a virtual host."""

    def __init__(self) -> None:
        # Policies by whether they are the operator's, the highest priority first.
        self._sorted: dict[bool, list[_Policy]] = {False: [], True: []}

    @property
    def records(self) -> list[PolicyRecord]:
        return [policy.record for policies in self._sorted.values() for policy in policies]

    def put(self, record: PolicyRecord) -> Callable[[str, str], bool]:
        """Add a policy, or replace the one of its name. Returns a function of kind and name.

        The function says whether the change may concern an object of that kind and name. Raises ConfigurationError for
        an invalid policy.
        """
        check_policy(record)
        made = _Policy(record)
        changed = [made, *self._take(record)]
        policies = self._sorted[record.operator]
        policies.append(made)
        policies.sort(key=_rank)
        return lambda kind, name: any(policy.concerns(kind, name) for policy in changed)

    def remove(self, record: PolicyRecord) -> Callable[[str, str], bool]:
        """Remove the policy of this name, if any. Returns a function of kind and name, as `put` does."""
        changed = self._take(record)
        return lambda kind, name: any(policy.concerns(kind, name) for policy in changed)

    def _take(self, record: PolicyRecord) -> list[_Policy]:
        policies = self._sorted[record.operator]
        taken = [policy for policy in policies if policy.record.name == record.name]
        for policy in taken:
            policies.remove(policy)
        return taken

    def find(self, kind: str, name: str, operator: bool) -> PolicyRecord | None:
        """Return the policy of an object of this kind ("exchange", or a kind of queue) and name, or None."""
        for policy in self._sorted[operator]:
            if policy.concerns(kind, name):
                return policy.record
        return None

    def auto_create(self, name: str, kinds: tuple[str, ...]) -> str:
        """Return the type among `kinds` of the node that a link's attach creates under this name, or "" for none."""
        for kind in (*QUEUE_KINDS, "exchange"):
            found = self.find(kind, name, False)
            wanted = None if found is None else found.definition.get("auto-create")
            if isinstance(wanted, str) and wanted in kinds:
                return wanted
        return ""

    def effective(self, kind: str, name: str, arguments: Table) -> Table:
        """Return a queue's effective arguments, under the names of arguments."""
        together = self._definition(kind, name)
        if not together:
            return arguments
        effective = dict(arguments)
        for key, value in together.items():
            argument = f"x-{key}"
            declared = arguments.get(argument)
            effective[argument] = value if declared is None else _with_argument(key, kind, value, declared)
        return effective

    def alternate(self, exchange: str) -> str:
        """Return the alternate exchange that policies set for an exchange, or ""."""
        name = self._definition("exchange", exchange).get("alternate-exchange")
        return name if isinstance(name, str) else ""

    def _definition(self, kind: str, name: str) -> Table:
        """Return the merged definition of the applicable policies."""
        ours = self.find(kind, name, False)
        operators = self.find(kind, name, True)
        if ours is None or operators is None:
            either = ours or operators
            return either.definition if either is not None else {}
        together = {**ours.definition, **operators.definition}
        for key in operators.definition:
            if key in ours.definition:
                together[key] = _narrower(key, ours.definition[key], operators.definition[key])
        return together


def _rank(policy: _Policy) -> int:
    return -policy.record.priority


def _narrower(key: str, ours: object, operators: object) -> object:
    """Merge the values of a policy and an operator policy: the smaller number, else the operator's."""
    if isinstance(ours, int) and isinstance(operators, int):
        if key in _SMALLER:
            return min(ours, operators)
        if key == "delivery-limit":
            return _delivery_limit(ours, operators)
    return operators


def _with_argument(key: str, kind: str, policy: object, argument: object) -> object:
    if key in _POLICY_FIRST[kind]:
        return policy
    if isinstance(policy, int) and isinstance(argument, int):
        if key in _SMALLER:
            return min(policy, argument)
        if key == "delivery-limit":
            return _delivery_limit(policy, argument)
    return argument


def _delivery_limit(one: int, other: int) -> int:
    """Return the effective limit. A negative one means no limit and yields to the other."""
    return max(one, other) if one < 0 or other < 0 else min(one, other)
