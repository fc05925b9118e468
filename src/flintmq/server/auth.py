"""Users and their passwords: argon2id, off the event loop, in constant time whether the user exists or not."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from hashlib import new as new_digest
from hmac import compare_digest
from ipaddress import ip_address
from queue import SimpleQueue
from secrets import token_bytes
from threading import Thread
from typing import Final

import structlog
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from flintmq.base.errors import AuthenticationFailed
from flintmq.broker.ports import UserRecord
from flintmq.broker.user import User
from flintmq.protocol.sasl import scram

log = structlog.get_logger()

# OWASP's parameters: 19 MiB, two passes, one lane. One thread, so that a storm of logins takes one core and 19 MiB.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)

# RabbitMQ's ways to hash, for users that were imported.
_DIGESTS: Final = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}
_SALT_BYTES: Final = 4
_SCRAM_SALT_BYTES: Final = 16
ALGORITHM: Final = "argon2id"


def hash_password(password: str) -> str:
    return _HASHER.hash(password)


def _hash_of_nothing() -> str:
    """What no password has for its hash, and is as much work to check; to be had at once, where a hash takes 25 ms."""
    salt, digest = (b64encode(token_bytes(size)).decode().rstrip("=") for size in (_HASHER.salt_len, _HASHER.hash_len))
    return f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}${salt}${digest}"


def hash_unless_known(user: UserRecord | None, password: str) -> tuple[str, str]:
    """A hash of the password and its algorithm: those the user has, if they are of this password."""
    if user is not None and matches(user, password):
        return user.password_hash, user.hashing_algorithm
    return hash_password(password), ALGORITHM


def scram_keys(password: str) -> tuple[str, ...]:
    """What a user needs to log in by SCRAM; nothing for a password that SCRAM cannot have."""
    try:
        return tuple(
            str(scram.derive_keys(mechanism, password, token_bytes(_SCRAM_SALT_BYTES))) for mechanism in scram.NAMES
        )
    except AuthenticationFailed:
        return ()


def matches(user: UserRecord, password: str) -> bool:
    """Whether it is the user's password. An empty one is nobody's (as in RabbitMQ)."""
    if not password:
        return False
    digest = _DIGESTS.get(user.hashing_algorithm)
    if digest is not None:
        return _matches_salted(user.password_hash, password, digest)
    try:
        return _HASHER.verify(user.password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


def _matches_salted(password_hash: str, password: str, digest: str) -> bool:
    """RabbitMQ's hashes: in base64, four bytes of salt and the digest of salt and password."""
    try:
        salted = b64decode(password_hash, validate=True)
    except ValueError:
        return False
    salt, wanted = salted[:_SALT_BYTES], salted[_SALT_BYTES:]
    return compare_digest(new_digest(digest, salt + password.encode()).digest(), wanted)


@dataclass(frozen=True, slots=True)
class _Login:
    user: str
    password: str
    address: str
    is_wanted: Callable[[], bool]
    answer: Callable[[str], None]


class Authenticator:
    """`users` are those of the moment; `loopback_only` may not come from another machine: all know their passwords.

    A password that was right is remembered as long as it is the user's, as a hash under a key that only this process
    knows: a thousand clients that come back after a restart cannot wait for a thousand times argon2.

    `learn` is given the keys for SCRAM of a user who had none and showed the password, from another thread.
    """

    def __init__(
        self,
        users: Mapping[str, User],
        loopback_only: frozenset[str],
        learn: Callable[[UserRecord, tuple[str, ...]], None] | None = None,
    ) -> None:
        self._users = users
        self._loopback_only = loopback_only
        # What an unknown user's password is compared with, so that the answer takes as long as for a known one.
        self._nobody = UserRecord("", _hash_of_nothing())
        self._key = token_bytes(32)
        self._learn = learn
        self._remembered: dict[str, bytes] = {}
        # Those who wait are strangers, and may be many: what an executor keeps for each would be a sixth of their cost.
        self._waiting: SimpleQueue[_Login | None] = SimpleQueue()
        self._is_closed = False
        self._thread = Thread(target=self._run, name="flintmq-auth", daemon=True)
        self._thread.start()

    def check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        """Calls `answer` with why the login is refused, or "" when it is accepted, from this or another thread.

        Nothing is computed, and nobody answered, once `is_wanted` says that nobody waits any more.
        """
        remembered = self._remembered.get(user)
        known = self._users.get(user)
        if remembered and known and compare_digest(remembered, self._digest(known.record, password)):
            answer(self._verdict(user, True, address))
        else:
            self._waiting.put(_Login(user, password, address, is_wanted, answer))

    def _run(self) -> None:
        while self._serve():
            pass

    def _serve(self) -> bool:
        login = self._waiting.get()
        if login is None or self._is_closed:
            return False
        # One that goes wrong must not end the thread that all others wait for.
        try:
            if login.is_wanted():
                login.answer(self._verdict(login.user, self._is_right(login.user, login.password), login.address))
        except Exception:
            log.exception("internal error", user=login.user)
        return True

    def _is_right(self, user: str, password: str) -> bool:
        known = self._users.get(user)
        record = known.record if known else self._nobody
        right = matches(record, password)
        if record.hashing_algorithm != ALGORITHM and not right:
            # Imported hashes are quick to check, and who has one is nobody's business.
            matches(self._nobody, password)
        if known is not None and right:
            self._remembered[user] = self._digest(record, password)
            if self._learn is not None and not record.scram:
                self._learn(record, scram_keys(password))
        return right

    def _digest(self, user: UserRecord, password: str) -> bytes:
        """Of the hash, too: with another password, the one that was right before is not any more."""
        return blake2b(f"{user.password_hash} {password}".encode(), key=self._key).digest()

    def scram_keys(self, user: str, mechanism: str) -> scram.Keys:
        """Those of the user; for whoever has none, or is none, some that no password fits, the same each time."""
        known = self._users.get(user)
        for text in known.record.scram if known else ():
            keys = scram.parse_keys(text)
            if keys.mechanism == mechanism:
                return keys
        size = scram.key_bytes(mechanism)
        made = blake2b(f"{mechanism} {user}".encode(), key=self._key).digest()
        return scram.Keys(mechanism, made[:_SCRAM_SALT_BYTES], token_bytes(size), token_bytes(size), scram.ITERATIONS)

    def refusal(self, user: str, address: str) -> str:
        """Why a client that has proved to be this user may not come in; empty where it may."""
        return self._verdict(user, True, address)

    def _verdict(self, user: str, right: bool, address: str) -> str:
        if user not in self._users:
            return f"there is no user '{user}'"
        if not right:
            return f"wrong password for user '{user}'"
        if user in self._loopback_only and not _is_loopback(address):
            return f"user '{user}' may only log in from this machine"
        return ""

    def close(self) -> None:
        """Nobody is answered any more."""
        self._is_closed = True
        self._waiting.put(None)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
