"""Export of a broker's definitions in RabbitMQ's format, with FlintMQ's additions.

Transient and exclusive objects are left out, and so are predeclared ones.
"""

from collections.abc import Iterator
from typing import Any

from flintmq.base.json_values import to_json, without_types
from flintmq.broker.access.user import User
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.registry import is_durable
from flintmq.broker.message import Table
from flintmq.broker.ports import ParameterRecord, PermissionRecord, PolicyRecord, TopicPermissionRecord
from flintmq.broker.vhost import VHost
from flintmq.management.definitions.importer import OPERATOR_POLICY, VHOST_LIMITS
from flintmq.management.values import arguments_shown

Fields = dict[str, Any]


def export_definitions(broker: Broker, version: str) -> Fields:
    """All durable definitions as one object. `version` is FlintMQ's."""
    sections = {name: list(entries) for name, entries in sections_of(broker).items()}
    return {"product_name": "FlintMQ", "product_version": version, **sections}


def sections_of(broker: Broker) -> dict[str, Iterator[Fields]]:
    """The sections of an export as iterators: the broker may change between two entries."""
    vhosts = [broker.vhosts[name] for name in sorted(broker.vhosts)]
    users = [broker.users[name] for name in sorted(broker.users)]
    rights = [rights for user in users for rights in user.all_rights]
    return {
        "users": (_user(user) for user in users),
        "vhosts": (_vhost(vhost) for vhost in vhosts),
        "permissions": (_permission(given) for given in (each.permission for each in rights) if given is not None),
        "topic_permissions": (_topic_permission(given) for each in rights for given in list(each.topics.values())),
        "parameters": parameters(broker, vhosts, with_limits=True),
        "global_parameters": ({"name": record.name, "value": record.value} for record in _kept(broker, "")),
        "policies": (
            {"vhost": record.vhost, "name": record.name, **_policy(record)}
            for vhost in vhosts
            for record in list(vhost.policies.records)
            if not record.operator
        ),
        "queues": (queue for vhost in vhosts for queue in _queues(vhost)),
        "exchanges": (exchange for vhost in vhosts for exchange in _exchanges(vhost)),
        "bindings": (binding for vhost in vhosts for binding in _bindings(vhost)),
    }


def sections_of_vhost(broker: Broker, vhost: VHost) -> dict[str, Iterator[Fields]]:
    """The sections of one virtual host; their entries do not name it."""
    policies = (record for record in list(vhost.policies.records) if not record.operator)
    sections: dict[str, Iterator[Fields]] = {
        "parameters": parameters(broker, [vhost], with_limits=False),
        "policies": ({"name": record.name, **_policy(record)} for record in policies),
        "exchanges": _exchanges(vhost),
        "queues": _queues(vhost),
        "bindings": _bindings(vhost),
    }
    return {name: map(_without_vhost, entries) for name, entries in sections.items()}


def _without_vhost(entry: Fields) -> Fields:
    entry.pop("vhost", None)
    return entry


def _kept(broker: Broker, vhost: str) -> list[ParameterRecord]:
    return [broker.parameters[key] for key in sorted(broker.parameters) if key[0] == vhost]


def parameters(broker: Broker, vhosts: list[VHost], *, with_limits: bool) -> Iterator[Fields]:
    """The parameters of virtual hosts: also limits, if wanted, and operator policies, which RabbitMQ keeps as such."""
    for vhost in vhosts:
        yield from map(_parameter, _kept(broker, vhost.name))
    for vhost in vhosts:
        if with_limits and vhost.limits.values:
            yield _limits(vhost)
    for vhost in vhosts:
        yield from (_operator_policy(record) for record in list(vhost.policies.records) if record.operator)


def _user(user: User) -> Fields:
    return {
        "name": user.name,
        "password_hash": user.record.password_hash,
        "hashing_algorithm": user.record.hashing_algorithm,
        "tags": list(user.record.tags),
        "limits": dict(user.limits.values),
    }


def _permission(given: PermissionRecord) -> Fields:
    return {
        "user": given.user,
        "vhost": given.vhost,
        "configure": given.configure,
        "write": given.write,
        "read": given.read,
    }


def _topic_permission(given: TopicPermissionRecord) -> Fields:
    return {
        "user": given.user,
        "vhost": given.vhost,
        "exchange": given.exchange,
        "write": given.write,
        "read": given.read,
    }


def metadata_of(vhost: VHost) -> Fields:
    record = vhost.record
    metadata: Fields = {"description": record.description, "tags": list(record.tags)}
    if record.default_queue_type:
        metadata["default_queue_type"] = record.default_queue_type
    return metadata


def _vhost(vhost: VHost) -> Fields:
    metadata = metadata_of(vhost)
    return {"name": vhost.name, "dialect": vhost.record.dialect, **metadata, "metadata": metadata}


def _parameter(record: ParameterRecord) -> Fields:
    return {"vhost": record.vhost, "component": record.component, "name": record.name, "value": record.value}


def _limits(vhost: VHost) -> Fields:
    return {"vhost": vhost.name, "component": VHOST_LIMITS, "name": "limits", "value": vhost.limits.values}


def _operator_policy(record: PolicyRecord) -> Fields:
    return {"vhost": record.vhost, "component": OPERATOR_POLICY, "name": record.name, "value": _policy(record)}


def _policy(record: PolicyRecord) -> Fields:
    return {
        "pattern": record.pattern,
        "apply-to": record.apply_to,
        "definition": _table(record.definition),
        "priority": record.priority,
    }


def _queues(vhost: VHost) -> Iterator[Fields]:
    return (
        {
            "name": queue.name,
            "vhost": vhost.name,
            "type": queue.kind,
            "durable": True,
            "auto_delete": queue.auto_delete,
            **_arguments(queue.arguments),
        }
        for queue in list(vhost.queues.values())
        if queue.durable and queue.owner is None
    )


def _exchanges(vhost: VHost) -> Iterator[Fields]:
    return (
        {
            "name": exchange.name,
            "vhost": vhost.name,
            "type": exchange.type,
            "durable": True,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            **_arguments(exchange.arguments),
        }
        for exchange in list(vhost.exchanges.by_name.values())
        if exchange.durable and exchange.name and not exchange.name.startswith("amq.")
    )


def _bindings(vhost: VHost) -> Iterator[Fields]:
    return (
        {
            "source": exchange.name,
            "vhost": vhost.name,
            "destination": binding.destination.name,
            "destination_type": binding.destination_type,
            "routing_key": binding.routing_key,
            **_arguments(binding.arguments),
        }
        for exchange in list(vhost.exchanges.by_name.values())
        for binding in exchange.each_binding()
        if is_durable(binding)
    )


def _arguments(table: Table) -> Fields:
    """Arguments from which an import makes the same ones."""
    return arguments_shown(table, lambda value: to_json(without_types(value)))


def _table(table: Table) -> Fields:
    return {name: to_json(value) for name, value in table.items()}
