"""Logins: who is let in, who is not, and what is not computed twice."""

import threading

import pytest

from flintmq.broker.ports import UserRecord
from flintmq.broker.user import User
from flintmq.server import auth
from flintmq.server.auth import Authenticator, hash_password

HASH = hash_password("right")


def verdict(checker: Authenticator, user: str, password: str, address: str = "127.0.0.1") -> str:
    """The answer to one login."""
    answers: list[str] = []
    came = threading.Event()

    def answer(why: str) -> None:
        answers.append(why)
        came.set()

    checker.check(user, password, address, lambda: True, answer)
    assert came.wait(10)
    return answers[0]


@pytest.fixture
def checker() -> Authenticator:
    return Authenticator({name: User(UserRecord(name, HASH)) for name in ("guest", "anna")}, frozenset({"guest"}))


@pytest.mark.parametrize(
    ("user", "password", "address", "words"),
    [
        ("anna", "right", "10.1.2.3", ""),
        ("guest", "right", "127.0.0.1", ""),
        ("guest", "right", "::1", ""),
        ("anna", "wrong", "127.0.0.1", "wrong password"),
        ("anna", "", "127.0.0.1", "wrong password"),
        ("nobody", "", "127.0.0.1", "no user"),
        ("guest", "right", "10.1.2.3", "only log in from this machine"),
        ("guest", "right", "", "only log in from this machine"),
    ],
)
def test_who_is_let_in(checker: Authenticator, user: str, password: str, address: str, words: str) -> None:
    """The right password of a known user, and for guest only from this machine; also the second time."""
    for _ in range(2):
        why = verdict(checker, user, password, address)
        assert words in why
        assert bool(why) == bool(words)


def test_a_right_password_is_computed_once(checker: Authenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that comes back does not wait for argon2 again; a wrong password always does."""
    computed: list[str] = []
    matches = auth.matches

    def counted(user: UserRecord, password: str) -> bool:
        computed.append(password)
        return matches(user, password)

    monkeypatch.setattr(auth, "matches", counted)
    for password in ("right", "right", "wrong", "wrong", "right"):
        verdict(checker, "anna", password)
    assert computed == ["right", "wrong", "wrong"]


def test_nobody_waits_for_logins_of_the_gone(checker: Authenticator) -> None:
    """A login whose connection has ended is neither computed nor answered."""
    checker.check("anna", "right", "127.0.0.1", lambda: False, pytest.fail)
    assert verdict(checker, "anna", "wrong") == "wrong password for user 'anna'"
