"""Import of definitions into a broker. Importing the same file again changes nothing.

Everything is read and checked before the first change: an error in the file keeps all of it out. In a running broker,
clients may delete objects that the rest of the import needs; the changes before that stay. Existing queues, exchanges
and bindings stay as they are; virtual hosts, users and rules become what the file says (as in RabbitMQ).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from flintmq.base.errors import AmqpError, ConfigurationError
from flintmq.broker.access.password_hash import algorithm_of, check_password_hash
from flintmq.broker.access.user import check_user_size
from flintmq.broker.broker import Broker
from flintmq.broker.ports import (
    LimitRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    Rule,
    TopicPermissionRecord,
    UserRecord,
    VHostRecord,
)
from flintmq.broker.rules import check_rule
from flintmq.broker.vhost import check_vhost, check_vhost_size
from flintmq.management.definitions.document import (
    BindingEntry,
    Document,
    Entry,
    ExchangeEntry,
    GlobalParameterEntry,
    ParameterEntry,
    PermissionEntry,
    PolicyEntry,
    QueueEntry,
    TopicPermissionEntry,
    UserEntry,
    UserLimitEntry,
    VHostEntry,
    VHostLimitEntry,
    arguments_of,
    parse_tags,
    table,
)
from flintmq.management.definitions.topology import QUEUE_TYPES, RESERVED, Topology, is_implied, queue_arguments

# RabbitMQ's component names of parameters that are rules here.
VHOST_LIMITS: Final = "vhost-limits"
OPERATOR_POLICY: Final = "operator_policy"
# The units of work in one step of applying policies: 16 names.
_STEP_UNITS: Final = 512
_KEPT_ONLY: Final = "is kept for the next export, and has no effect"

# Returns the hash and its algorithm for a plain-text password; the present ones if the password of the user is
# unchanged.
Hasher = Callable[[UserRecord | None, str], tuple[str, str]]
_Record = VHostRecord | UserRecord | Rule


def import_in_steps(document: Document, broker: Broker, hasher: Hasher) -> Iterator[str | None]:
    """Import a document step by step; some steps yield a remark about a setting without effect.

    In a running broker, other work runs between two steps. Changes are staged, and the caller commits them; at a start,
    the caller discards them after an error. Raises ConfigurationError, which names the entry.
    """
    records: list[_Record] = []
    for made in _records(document, broker, hasher):
        records += made
        yield None
    topology = Topology(broker, records)
    for at, exchange in enumerate(document.exchanges):
        with _named(document, "exchanges", at, exchange):
            topology.exchange(exchange)
        yield None
    for at, queue in enumerate(document.queues):
        with _named(document, "queues", at, queue):
            topology.queue(queue)
        yield None
    for at, binding in enumerate(document.bindings):
        with _named(document, "bindings", at, binding):
            topology.binding(binding)
        yield None
    for record in records:
        if isinstance(record, VHostRecord):
            broker.put_vhost(record)
        elif isinstance(record, UserRecord):
            broker.put_user(record)
        else:
            broker.put_rule(record)
            yield from policy_steps(broker)
        if isinstance(record, ParameterRecord) and record.vhost:
            yield f"the {record.component} '{record.name}' {_KEPT_ONLY}"
        else:
            yield None
    for at, exchange in enumerate(document.exchanges):
        with _named(document, "exchanges", at, exchange):
            _declare_exchange(broker, exchange)
        yield None
    for at, queue in enumerate(document.queues):
        with _named(document, "queues", at, queue):
            _declare_queue(broker, queue)
        yield None
    for at, binding in enumerate(document.bindings):
        with _named(document, "bindings", at, binding):
            _bind(broker, binding)
        yield None


def policy_steps(broker: Broker) -> Iterator[None]:
    """Apply changes of policies to all queues and exchanges, a few at each step."""
    while broker.tick.policy_changes > 0 and broker.do_steps(_STEP_UNITS):
        yield None


@contextmanager
def _named(document: Document, section: str, at: int, entry: Entry) -> Iterator[None]:
    """Add the name of the entry to errors."""
    try:
        yield
    except (ConfigurationError, AmqpError) as error:
        raise ConfigurationError(f"{document.place}: {section}[{at}] ('{entry.label}'): {error}") from error


def _records(document: Document, broker: Broker, hasher: Hasher) -> Iterator[Sequence[_Record]]:
    """The records of all sections except exchanges, queues and bindings, checked against each other and the broker."""

    def user(entry: UserEntry) -> list[_Record]:
        known = broker.users.get(entry.name)
        records = _user(entry, known.record if known else None, hasher)
        for record in records:
            if isinstance(record, UserRecord):
                check_user_size(record, known is None)
        return records

    def vhost(entry: VHostEntry) -> list[_Record]:
        known = broker.vhosts.get(entry.name)
        record = _vhost(entry, known.record if known else VHostRecord(entry.name))
        check_vhost_size(record, known is None)
        return [record]

    sections: dict[str, Callable[..., Sequence[_Record]]] = {
        "vhosts": vhost,
        "users": user,
        "permissions": _permission,
        "topic_permissions": _topic_permission,
        "vhost_limits": _vhost_limits,
        "user_limits": _user_limits,
        "policies": _policy,
        "parameters": rules_of_parameter,
        "global_parameters": _global_parameter,
    }
    vhosts = {*broker.vhosts, *(entry.name for entry in document.vhosts)}
    users = {*broker.users, *(entry.name for entry in document.users)}
    for section, translate in sections.items():
        for at, entry in enumerate(getattr(document, section)):
            with _named(document, section, at, entry):
                records = translate(entry)
                for record in records:
                    _check_record(record, vhosts, users)
            yield records
    for section in ("exchanges", "queues", "bindings"):
        for at, entry in enumerate(getattr(document, section)):
            with _named(document, section, at, entry):
                _check_record(entry, vhosts, users)
                arguments_of(entry)
            yield []


def _check_record(record: _Record | Entry, vhosts: set[str], users: set[str]) -> None:
    """Check a record. Raises ConfigurationError if it is invalid, or if its virtual host or user does not exist."""
    vhost = getattr(record, "vhost", "")
    user = getattr(record, "user", "")
    if isinstance(record, LimitRecord):
        vhost, user = (record.owner, "") if record.scope == "vhost" else ("", record.owner)
    if vhost and vhost not in vhosts:
        raise ConfigurationError(f"there is no vhost '{vhost}', neither in the broker nor in the file")
    if user and user not in users:
        raise ConfigurationError(f"there is no user '{user}', neither in the broker nor in the file")
    if isinstance(record, Rule):
        check_rule(record)


def _vhost(entry: VHostEntry, known: VHostRecord) -> VHostRecord:
    data = entry.metadata
    queue_type = entry.default_queue_type or data.default_queue_type or known.default_queue_type
    description = entry.description or data.description or known.description
    tags = parse_tags(entry.tags or data.tags) or known.tags
    record = VHostRecord(
        entry.name,
        entry.dialect or known.dialect,
        QUEUE_TYPES.get(queue_type, queue_type),
        description,
        tags,
    )
    check_vhost(record)
    return record


def _user(entry: UserEntry, known: UserRecord | None, hasher: Hasher) -> list[_Record]:
    if entry.password_hash is not None:
        password_hash = entry.password_hash
        algorithm = checked_algorithm(known, password_hash, entry.hashing_algorithm)
    elif entry.password is not None:
        password_hash, algorithm = hasher(known, entry.password)
    else:
        raise ConfigurationError("a user needs a password_hash or a password")
    user = UserRecord(entry.name, password_hash, parse_tags(entry.tags), algorithm)
    return [user, *_limits("user", entry.name, entry.limits)]


def checked_algorithm(known: UserRecord | None, password_hash: str, algorithm: str | None) -> str:
    """The algorithm of a given hash. Raises ConfigurationError for a hash that cannot be checked.

    The present hash of a user is accepted even if a new one would be refused.
    """
    algorithm = algorithm or algorithm_of(password_hash)
    if known is None or (known.hashing_algorithm, known.password_hash) != (algorithm, password_hash):
        check_password_hash(algorithm, password_hash)
    return algorithm


def _limits(scope: str, owner: str, values: object) -> list[Rule]:
    limits: list[Rule] = []
    if not isinstance(values, (dict, list)):
        raise ConfigurationError("limits are an object with their names and values")
    for name, value in table(values).items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigurationError(f"the limit '{name}' is a number, not {value!r}")
        limits.append(LimitRecord(scope, owner, name, value))
    return limits


def _vhost_limits(entry: VHostLimitEntry) -> list[Rule]:
    return _limits("vhost", entry.vhost, entry.value)


def _user_limits(entry: UserLimitEntry) -> list[Rule]:
    return _limits("user", entry.user, entry.value)


def _permission(entry: PermissionEntry) -> list[_Record]:
    return [PermissionRecord(entry.vhost, entry.user, entry.configure, entry.write, entry.read)]


def _topic_permission(entry: TopicPermissionEntry) -> list[_Record]:
    return [TopicPermissionRecord(entry.vhost, entry.user, entry.exchange, entry.write, entry.read)]


def _policy(entry: PolicyEntry) -> list[_Record]:
    definition = table(entry.definition)
    return [PolicyRecord(entry.vhost, entry.name, entry.pattern, definition, entry.apply_to, entry.priority)]


def rules_of_parameter(entry: ParameterEntry) -> list[Rule]:
    """The rules that a parameter stands for. Raises ConfigurationError."""
    value = entry.value
    if entry.component == VHOST_LIMITS:
        return _limits("vhost", entry.vhost, value)
    if entry.component == OPERATOR_POLICY:
        if not isinstance(value, dict) or not isinstance(value.get("pattern"), str):
            raise ConfigurationError("an operator policy has a pattern and a definition")
        definition, apply_to, priority = (
            value.get("definition", {}),
            value.get("apply-to", "all"),
            value.get("priority", 0),
        )
        if not isinstance(definition, dict | list) or not isinstance(apply_to, str) or type(priority) is not int:
            raise ConfigurationError("an operator policy has an object for its definition, and a number as priority")
        return [
            PolicyRecord(
                entry.vhost, entry.name, value["pattern"], table(definition), apply_to, priority, operator=True
            )
        ]
    return [ParameterRecord(entry.vhost, entry.component, entry.name, value)]


def _global_parameter(entry: GlobalParameterEntry) -> list[_Record]:
    return [ParameterRecord("", "", entry.name, entry.value)]


def _declare_exchange(broker: Broker, entry: ExchangeEntry) -> None:
    exchanges = broker.vhost(entry.vhost).exchanges
    if entry.name not in exchanges.by_name and not entry.name.startswith(RESERVED):
        exchanges.declare(entry.name, entry.type, entry.durable, entry.auto_delete, entry.internal, arguments_of(entry))


def _declare_queue(broker: Broker, entry: QueueEntry) -> None:
    vhost = broker.vhost(entry.vhost)
    if entry.name not in vhost.queues and not entry.name.startswith(RESERVED):
        arguments = queue_arguments(entry, vhost.record.default_queue_type)
        vhost.declare_queue(entry.name, entry.durable, False, entry.auto_delete, arguments, None)


def _bind(broker: Broker, entry: BindingEntry) -> None:
    vhost = broker.vhost(entry.vhost)
    if is_implied(entry):
        return
    arguments = arguments_of(entry)
    if entry.destination_type == "exchange":
        vhost.exchanges.bind_exchange(entry.destination, entry.source, entry.routing_key, arguments)
    elif entry.destination_type == "queue":
        queue = vhost.queue(entry.destination, None)
        vhost.exchanges.bind_queue(queue, entry.source, entry.routing_key, arguments)
    else:
        raise ConfigurationError(f"a destination_type is queue or exchange, not {entry.destination_type}")
