"""Validation of rules, whichever interface sets them."""

from flintmq.base.errors import ConfigurationError
from flintmq.broker.access.limits import check_limit
from flintmq.broker.access.permission import check_permission, check_topic_permission
from flintmq.broker.bounds import integer_fault, name_fault, value_fault
from flintmq.broker.policy.policies import check_policy
from flintmq.broker.ports import (
    LimitRecord,
    PermissionRecord,
    PolicyRecord,
    Rule,
    TopicPermissionRecord,
)


def check_rule(rule: Rule) -> None:
    """Raises ConfigurationError for a rule that is invalid for any user and object."""
    if isinstance(rule, PermissionRecord):
        _check_size("permission", rule.user, [rule.configure, rule.write, rule.read])
        check_permission(rule)
    elif isinstance(rule, TopicPermissionRecord):
        _check_size("exchange of a topic permission", rule.exchange, [rule.write, rule.read])
        check_topic_permission(rule)
    elif isinstance(rule, PolicyRecord):
        _check_size("policy", rule.name, [rule.pattern, rule.definition])
        check_policy(rule)
        _check(integer_fault(f"the priority of policy '{rule.name}'", rule.priority))
    elif isinstance(rule, LimitRecord):
        check_limit(rule)
        _check(integer_fault(f"the limit '{rule.name}'", rule.value))
    else:
        _check_size("component", rule.component, None)
        _check_size("parameter", rule.name, rule.value)


def _check_size(what: str, name: str, value: object) -> None:
    _check(name_fault(f"{what} name", name) or value_fault(f"what {what} '{name}' says", value))


def _check(fault: str) -> None:
    if fault:
        raise ConfigurationError(fault)
