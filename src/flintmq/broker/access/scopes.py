"""Scopes of a token, in RabbitMQ's syntax: `read:VHOST/NAME`, `tag:administrator`.

A scope may have a third part, a pattern of routing keys at topic exchanges. In each part `*` matches any text, and
percent-encoding makes a character literal. A scope of any other form grants nothing.
"""

from collections.abc import Iterable
from typing import final
from urllib.parse import unquote_plus

_ACTIONS = ("configure", "write", "read")
_TAG = "tag:"


@final
class Wildcard:
    """A pattern with `*`.

    Matching takes at most time in proportion to text length times pattern length: clients choose both.
    """

    def __init__(self, text: str) -> None:
        parts = [unquote_plus(part) for part in text.split("*")]
        self._is_literal = len(parts) == 1
        self._first = parts[0]
        self._last = parts[-1]
        self._inner = [part for part in parts[1:-1] if part]

    def matches(self, text: str) -> bool:
        if self._is_literal:
            return text == self._first
        end = len(text) - len(self._last)
        if end < len(self._first) or not text.startswith(self._first) or not text.endswith(self._last):
            return False
        at = len(self._first)
        for part in self._inner:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


@final
class _Scope:
    def __init__(self, action: str, vhost: Wildcard, name: Wildcard, key: Wildcard) -> None:
        self.action = action
        self.vhost = vhost
        self.name = name
        self.key = key


@final
class Scopes:
    """The scopes of one token, without the prefix that says that they are meant for this broker."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._scopes: list[_Scope] = []
        tags: dict[str, None] = {}
        for text in texts:
            if text.startswith(_TAG):
                tags[text[len(_TAG) :]] = None
                continue
            scope = _parsed(text)
            if scope is not None:
                self._scopes.append(scope)
        self.tags = tuple(tags)

    def enters(self, vhost: str) -> bool:
        """Whether the scopes grant anything in the virtual host."""
        return any(scope.vhost.matches(vhost) for scope in self._scopes)

    def allows(self, action: str, vhost: str, name: str) -> bool:
        for scope in self._scopes:
            if scope.action == action and scope.vhost.matches(vhost) and scope.name.matches(name):
                return True
        return False

    def allows_key(self, action: str, vhost: str, exchange: str, routing_key: str) -> bool:
        for scope in self._scopes:
            if (
                scope.action == action
                and scope.vhost.matches(vhost)
                and scope.name.matches(exchange)
                and scope.key.matches(routing_key)
            ):
                return True
        return False


def _parsed(text: str) -> _Scope | None:
    action, colon, rest = text.partition(":")
    parts = rest.split("/")
    if not colon or action not in _ACTIONS or not 2 <= len(parts) <= 3:
        return None
    return _Scope(action, Wildcard(parts[0]), Wildcard(parts[1]), Wildcard(parts[2] if len(parts) == 3 else "*"))
