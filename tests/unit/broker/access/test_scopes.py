"""Scopes of tokens: what they grant, and what they do not."""

import pytest

from flintmq.base.errors import AccessRefused, NotAllowed
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.scopes import Scopes, Wildcard


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("a", ["a"], ["", "A", "aa"]),
        ("*", ["", "a", "a/b*"], []),
        ("a*", ["a", "ab"], ["", "ba"]),
        ("*a", ["a", "ba"], ["ab"]),
        ("a*a", ["aa", "aba"], ["a", "ab"]),
        ("a*b*c", ["abc", "axbxc", "abbcc"], ["acb", "ab", "ac"]),
        ("a**c", ["ac", "abc"], ["a", "c"]),
        ("%2F", ["/"], ["%2F"]),
        ("a%2Ab", ["a*b"], ["axb"]),
        ("*ab*ab", ["abab", "xabxab"], ["ab", "xab"]),
        ("", [""], ["a"]),
    ],
)
def test_wildcards(pattern: str, matching: list[str], others: list[str]) -> None:
    """A star is any text, none included; percent signs say what is meant as it is."""
    wildcard = Wildcard(pattern)
    assert [name for name in matching + others if wildcard.matches(name)] == matching


def test_a_wildcard_that_is_meant_to_be_slow() -> None:
    """Stars do not make each other try again."""
    assert not Wildcard("*a" * 100 + "b").matches("a" * 20_000)


@pytest.mark.parametrize(
    "text",
    ["", ":", "read", "read:", "read:a", "read:a/b/c/d", "delete:*/*", "Read:*/*", "tags:administrator", "read */*"],
)
def test_what_grants_nothing(text: str) -> None:
    """Whatever is not understood is not taken for something that it resembles."""
    scopes = Scopes([text])
    assert scopes.tags == ()
    assert not scopes.enters("a")
    assert not any(scopes.allows(action, "a", "b") for action in ("configure", "write", "read"))


def test_what_scopes_grant() -> None:
    """An action, in the virtual hosts and on the names of one scope; not of parts of two."""
    scopes = Scopes(["read:v1/orders.*", "write:v2/*/logs.*", "tag:monitoring", "tag:policymaker"])
    assert scopes.tags == ("monitoring", "policymaker")
    assert [scopes.enters(vhost) for vhost in ("v1", "v2", "v3")] == [True, True, False]
    assert scopes.allows("read", "v1", "orders.new")
    assert not scopes.allows("read", "v2", "orders.new")
    assert not scopes.allows("write", "v1", "orders.new")
    assert scopes.allows_key("write", "v2", "topics", "logs.x")
    assert not scopes.allows_key("write", "v2", "topics", "metrics.x")
    assert scopes.allows_key("read", "v1", "orders.new", "any key")


def _bearer(*scopes: str, name: str = "anna", expires_ms: int = 1_000) -> Bearer:
    return Bearer(name, Scopes(scopes), expires_ms)


def test_rights_by_a_token() -> None:
    """They are asked for as those of patterns are, with the same words for what is refused."""
    bearer = _bearer("read:v/q", "write:v/t/a.*")
    rights = bearer.rights("v")
    rights.check("read", "queue", "q")
    rights.check_topic("write", "t", "a.b")
    with pytest.raises(AccessRefused, match="write access to queue 'q' in vhost 'v' refused for user 'anna'"):
        rights.check("write", "queue", "q")
    with pytest.raises(AccessRefused, match="write access to topic 'b' in exchange topic 't'"):
        rights.check_topic("write", "t", "b")
    assert bearer.rights("other").permission is None


def test_a_newer_token() -> None:
    """What the last one granted is gone, what was asked before is asked again, and it has to be the same user's."""
    bearer = _bearer("read:v/q", "tag:administrator")
    rights = bearer.rights("v")
    rights.check("read", "queue", "q")
    version = rights.version
    bearer.renew(_bearer("write:v/q", expires_ms=2_000))
    assert bearer.expires_ms == 2_000
    assert rights.version > version
    assert not bearer.user.is_administrator
    rights.check("write", "queue", "q")
    with pytest.raises(AccessRefused):
        rights.check("read", "queue", "q")
    with pytest.raises(NotAllowed, match="Not allowed to change username on refreshed token"):
        bearer.renew(_bearer("read:v/q", name="otto"))
    rights.check("write", "queue", "q")
