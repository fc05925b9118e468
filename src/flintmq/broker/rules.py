"""What rules have to be like, whoever brings them."""

from flintmq.broker.limits import check_limit
from flintmq.broker.permission import check_permission, check_topic_permission
from flintmq.broker.policy import check_policy
from flintmq.broker.ports import LimitRecord, PermissionRecord, PolicyRecord, Rule, TopicPermissionRecord


def check_rule(rule: Rule) -> None:
    """Raises ConfigurationError for a rule that makes no sense, whomever and whatever it is for."""
    if isinstance(rule, PermissionRecord):
        check_permission(rule)
    elif isinstance(rule, TopicPermissionRecord):
        check_topic_permission(rule)
    elif isinstance(rule, PolicyRecord):
        check_policy(rule)
    elif isinstance(rule, LimitRecord):
        check_limit(rule)
