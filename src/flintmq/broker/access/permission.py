"""A user's permissions in a virtual host: configure, write, read, and topic permissions.

The rules are RabbitMQ's: three patterns of names per user and virtual host. An empty pattern matches no name. Patterns
see the default exchange as `amq.default`. Topic permissions, if any, restrict the routing keys at a topic exchange.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import AccessRefused
from flintmq.base.work import WORK
from flintmq.broker.access.scopes import Scopes
from flintmq.broker.pattern import Pattern, literal
from flintmq.broker.ports import PermissionRecord, TopicPermissionRecord

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"

# Allowed names are cached, so that a repeated check costs one look-up.
_KNOWN_MAX: Final = 4_096


def check_permission(record: PermissionRecord) -> None:
    """Raises ConfigurationError if one of the patterns is invalid."""
    for pattern in (record.configure, record.write, record.read):
        _pattern(pattern)


def check_topic_permission(record: TopicPermissionRecord) -> None:
    """Raises ConfigurationError if one of the patterns is invalid."""
    for pattern in (record.write, record.read):
        _pattern(pattern)


def _pattern(text: str) -> Pattern:
    return Pattern(text or "^$")


# The work of comparing a routing key with a pattern is counted, because a message may name many keys.
_PATTERN_UNITS: Final = 4


@final
class Rights:
    """One user's permissions in one virtual host. Without any, the user cannot enter the virtual host.

    `version` grows with every change: an answer is valid only for the version in which it was given. `variables` are
    the names that patterns of topic permissions may use in braces.
    """

    def __init__(self, user: str, vhost: str) -> None:
        self.user = user
        self.vhost = vhost
        self.permission: PermissionRecord | None = None
        self.topics: dict[str, TopicPermissionRecord] = {}
        self.version: i64 = 0
        self._patterns: dict[str, Pattern] = {}
        self._topic_patterns: dict[tuple[str, str], Pattern] = {}
        self._known: dict[tuple[str, str], bool] = {}
        # The scopes of a token, for users who logged in with one. They have no patterns.
        self._scopes: Scopes | None = None

    # -- grants -------------------------------------------------------------------------------------------------

    def grant(self, record: PermissionRecord) -> None:
        self._patterns = {
            CONFIGURE: _pattern(record.configure),
            WRITE: _pattern(record.write),
            READ: _pattern(record.read),
        }
        self.permission = record
        self._changed()

    def revoke(self) -> None:
        self.permission = None
        self._patterns = {}
        self._changed()

    def grant_scopes(self, scopes: Scopes) -> None:
        """Grant exactly the scopes of a token. A virtual host that the token does not name is closed."""
        self._scopes = scopes
        self.permission = PermissionRecord(self.vhost, self.user, "", "", "") if scopes.enters(self.vhost) else None
        self._changed()

    def grant_topics(self, record: TopicPermissionRecord) -> None:
        self._topic_patterns[WRITE, record.exchange] = self._topic_pattern(record.write)
        self._topic_patterns[READ, record.exchange] = self._topic_pattern(record.read)
        self.topics[record.exchange] = record
        self._changed()

    def revoke_topics(self, exchange: str) -> None:
        """Remove the topic permissions for an exchange: the user may use any routing key there again."""
        self.topics.pop(exchange, None)
        self._topic_patterns.pop((WRITE, exchange), None)
        self._topic_patterns.pop((READ, exchange), None)
        self._changed()

    def _topic_pattern(self, text: str) -> Pattern:
        for name, value in (("username", self.user), ("vhost", self.vhost)):
            text = text.replace(f"{{{name}}}", literal(value))
        return _pattern(text)

    def _changed(self) -> None:
        self.version += 1
        self._known.clear()

    # -- checks -------------------------------------------------------------------------------------------------

    def check(self, action: str, kind: str, name: str) -> None:
        """Raises AccessRefused unless the user may do `action` with the exchange or queue (`kind`) of this name."""
        if kind == "exchange" and name == "":
            name = "amq.default"
        if not self._allows(action, name):
            raise AccessRefused(
                f"{action} access to {kind} '{name}' in vhost '{self.vhost}' refused for user '{self.user}'"
            )

    def check_any(self, kind: str, name: str) -> None:
        """Raises AccessRefused unless the user has some permission here, enough for a passive declare (RabbitMQ)."""
        if not (self._allows(READ, name) or self._allows(WRITE, name)):
            self.check(CONFIGURE, kind, name)

    def check_topic(self, action: str, exchange: str, routing_key: str) -> None:
        """Raises AccessRefused unless the user may use the routing key at this topic exchange."""
        WORK.spent += _PATTERN_UNITS
        scopes = self._scopes
        if scopes is not None:
            is_allowed = scopes.allows_key(action, self.vhost, exchange, routing_key)
        else:
            pattern = self._topic_patterns.get((action, exchange))
            is_allowed = pattern is None or pattern.matches(routing_key)
        if not is_allowed:
            raise AccessRefused(
                f"{action} access to topic '{routing_key}' in exchange topic '{exchange}' in vhost '{self.vhost}' "
                f"refused for user '{self.user}'"
            )

    def _allows(self, action: str, name: str) -> bool:
        key = (action, name)
        if key in self._known:
            return True
        scopes = self._scopes
        if scopes is not None:
            is_allowed = scopes.allows(action, self.vhost, name)
        else:
            pattern = self._patterns.get(action)
            is_allowed = pattern is not None and pattern.matches(name)
        if not is_allowed:
            return False
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[key] = True
        return True
