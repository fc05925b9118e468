"""What rules have to be like, whoever brings them."""

from flintmq.base.errors import ConfigurationError
from flintmq.base.json_values import is_nested_deeper
from flintmq.base.limits import TABLE_DEPTH_MAX
from flintmq.broker.limits import check_limit
from flintmq.broker.permission import check_permission, check_topic_permission
from flintmq.broker.policy import check_policy
from flintmq.broker.ports import (
    LimitRecord,
    PermissionRecord,
    PolicyRecord,
    Rule,
    TopicPermissionRecord,
)


def check_rule(rule: Rule) -> None:
    """Raises ConfigurationError for a rule that makes no sense, whomever and whatever it is for."""
    if isinstance(rule, PermissionRecord):
        check_permission(rule)
    elif isinstance(rule, TopicPermissionRecord):
        check_topic_permission(rule)
    elif isinstance(rule, PolicyRecord):
        _check_depth(rule.name, rule.definition)
        check_policy(rule)
    elif isinstance(rule, LimitRecord):
        check_limit(rule)
    else:
        _check_depth(rule.name, rule.value)


def _check_depth(name: str, value: object) -> None:
    if is_nested_deeper(value, TABLE_DEPTH_MAX):
        raise ConfigurationError(f"what '{name}' is has more than {TABLE_DEPTH_MAX} objects within each other")
