"""Users and their passwords: argon2id, off the event loop, in constant time whether the user exists or not."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from hmac import compare_digest
from ipaddress import ip_address
from secrets import token_bytes
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
    """`loopback_only` are users who may not come from another machine: those whose password everybody knows.

    A password that was right is remembered until the process ends, as a hash under a key that only this process knows:
    a thousand clients that come back after a restart cannot wait for a thousand times argon2.
    """

    def __init__(self, users: list[UserRecord], loopback_only: frozenset[str]) -> None:
        self._users = {user.name: user for user in users}
        self._loopback_only = loopback_only
        # What an unknown user's password is compared with, so that the answer takes as long as for a known one.
        self._nobody = hash_password("")
        self._key = token_bytes(32)
        self._remembered: dict[str, bytes] = {}
        self._threads = ThreadPoolExecutor(_THREADS, "flintmq-auth")

    def check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        """Calls `answer` with why the login is refused, or "" when it is accepted, from this or another thread.

        Nothing is computed, and nobody answered, once `is_wanted` says that nobody waits any more.
        """
        remembered = self._remembered.get(user)
        if remembered is not None and compare_digest(remembered, self._digest(password)):
            answer(self._verdict(user, True, address))
        else:
            self._threads.submit(self._check, user, password, address, is_wanted, answer)

    def _check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        if not is_wanted():
            return
        known = self._users.get(user)
        right = _matches(known.password_hash if known else self._nobody, password)
        if known is not None and right:
            self._remembered[user] = self._digest(password)
        answer(self._verdict(user, right, address))

    def _digest(self, password: str) -> bytes:
        return blake2b(password.encode(), key=self._key).digest()

    def _verdict(self, user: str, right: bool, address: str) -> str:
        if user not in self._users:
            return f"there is no user '{user}'"
        if not right:
            return f"wrong password for user '{user}'"
        if user in self._loopback_only and not _is_loopback(address):
            return f"user '{user}' may only log in from this machine"
        return ""

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
