"""Users and their passwords: argon2id, off the event loop, in constant time whether the user exists or not."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from flintmq.broker.ports import UserRecord

# OWASP's parameters: 19 MiB, two passes, one lane. One thread, so that a storm of logins takes one core and 19 MiB.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
_THREADS: Final = 1


def hash_password(password: str) -> str:
    return _HASHER.hash(password)


def _matches(password_hash: str, password: str) -> bool:
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


class Authenticator:
    """`loopback_only` are users who may not come from another machine: those whose password everybody knows."""

    def __init__(self, users: list[UserRecord], loopback_only: frozenset[str]) -> None:
        self._users = {user.name: user for user in users}
        self._loopback_only = loopback_only
        # What an unknown user's password is compared with, so that the answer takes as long as for a known one.
        self._nobody = hash_password("")
        self._threads = ThreadPoolExecutor(_THREADS, "flintmq-auth")

    def check(self, user: str, password: str, address: str, answer: Callable[[str], None]) -> None:
        """Calls `answer` from another thread with why the login is refused, or "" when it is accepted."""
        self._threads.submit(self._check, user, password, address, answer)

    def _check(self, user: str, password: str, address: str, answer: Callable[[str], None]) -> None:
        known = self._users.get(user)
        right = _matches(known.password_hash if known else self._nobody, password)
        if known is None:
            answer(f"there is no user '{user}'")
        elif not right:
            answer(f"wrong password for user '{user}'")
        elif user in self._loopback_only and not ip_address(address).is_loopback:
            answer(f"user '{user}' may only log in from this machine")
        else:
            answer("")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
