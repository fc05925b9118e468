"""Checks of passwords and tokens, outside the event loop. They take as long for unknown users as for known ones."""

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from hashlib import new as new_digest
from hmac import compare_digest
from secrets import token_bytes
from threading import Thread
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from flintmq.base.addresses import is_loopback
from flintmq.base.errors import AuthenticationFailed
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.password_hash import ARGON2ID, is_bearable
from flintmq.broker.access.user import User
from flintmq.broker.ports import UserRecord
from flintmq.protocol.sasl import scram
from flintmq.server import logs
from flintmq.server.backoff import Backoff
from flintmq.server.login_origins import LoginOrigins
from flintmq.server.login_queue import Login, LoginQueue
from flintmq.server.oauth.tokens import Tokens, UnknownKey

log = logs.get_logger()

# OWASP's parameters: 19 MiB, two passes, one lane. One thread checks, so many logins use one core and 19 MiB.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)

# RabbitMQ's hash algorithms, for imported users.
_DIGESTS: Final = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}
_SALT_BYTES: Final = 4
_SCRAM_SALT_BYTES: Final = 16
ALGORITHM: Final = ARGON2ID
QUICK_ALGORITHM: Final = "rabbit_password_hashing_sha256"


def hash_password(password: str) -> str:
    return _HASHER.hash(password)


def _hash_of_nothing() -> str:
    """Return a hash that no password has and that takes as long to check as others, without the 25 ms of making one."""
    salt, digest = (b64encode(token_bytes(size)).decode().rstrip("=") for size in (_HASHER.salt_len, _HASHER.hash_len))
    return f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}${salt}${digest}"


def hash_unless_known(user: UserRecord | None, password: str) -> tuple[str, str]:
    """Return a hash of the password and its algorithm; the user's present ones if they are of this password."""
    if user is not None and matches(user, password):
        return user.password_hash, user.hashing_algorithm
    return hash_password(password), ALGORITHM


def salted_hash_unless_known(user: UserRecord | None, password: str) -> tuple[str, str]:
    """Return a salted SHA-256 of the password and its algorithm, or those the user has, if they are of this password.

    The hash is quick to check, and quick to guess: it is for users of ephemeral brokers.
    """
    if user is not None and matches(user, password):
        return user.password_hash, user.hashing_algorithm
    salt = token_bytes(_SALT_BYTES)
    digest = new_digest(_DIGESTS[QUICK_ALGORITHM], salt + password.encode()).digest()
    return b64encode(salt + digest).decode(), QUICK_ALGORITHM


def scram_keys(password: str) -> tuple[str, ...]:
    """Return the keys for logins by SCRAM; none for a password that SCRAM does not allow."""
    try:
        return tuple(
            str(scram.derive_keys(mechanism, password, token_bytes(_SCRAM_SALT_BYTES))) for mechanism in scram.NAMES
        )
    except AuthenticationFailed:
        return ()


def matches(user: UserRecord, password: str) -> bool:
    """Return whether it is the user's password. An empty password is never right (as in RabbitMQ)."""
    if not password:
        return False
    digest = _DIGESTS.get(user.hashing_algorithm)
    if digest is not None:
        return _matches_salted(user.password_hash, password, digest)
    if not is_bearable(user.password_hash):
        return False
    try:
        return _HASHER.verify(user.password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


def _matches_salted(password_hash: str, password: str, digest: str) -> bool:
    """Check RabbitMQ's kind of hash: base64 of four bytes of salt, and the digest of salt and password."""
    try:
        salted = b64decode(password_hash, validate=True)
    except ValueError:
        return False
    salt, wanted = salted[:_SALT_BYTES], salted[_SALT_BYTES:]
    return compare_digest(new_digest(digest, salt + password.encode()).digest(), wanted)


@dataclass(frozen=True, slots=True)
class Learned:
    """The results of a right password: an argon2 hash to replace one of another kind, and keys for SCRAM.

    Each is empty if the user has it already.
    """

    password_hash: str = ""
    scram: tuple[str, ...] = ()


Learn = Callable[[UserRecord, Learned], None]


class Authenticator:
    """Checks logins by password, SCRAM and token.

    `users` are the present users. Those of `loopback_only` can log in only from this machine, because everybody knows
    their passwords. A right password is remembered, as a hash under a key that only this process knows, until the user
    gets another one: a thousand clients that reconnect would otherwise wait for a thousand argon2 hashes.

    `learn` is called from another thread after a right password: with keys for SCRAM if `learns_scram`, and with an
    argon2 hash if `rehashes` and the present one is of another kind. `secret` determines what unauthenticated peers are
    told about users that do not exist. It stays the same over restarts, because a change would show which users do not
    exist. `origins` are those from which users have logged in before: there, wrong passwords of others do not delay
    them.
    """

    def __init__(
        self,
        users: Mapping[str, User],
        loopback_only: frozenset[str],
        learn: Learn | None = None,
        *,
        learns_scram: bool = True,
        rehashes: bool = True,
        secret: bytes = b"",
        tokens: Tokens | None = None,
        origins: LoginOrigins | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._loopback_only = loopback_only
        # The record of unknown users, so that their answers take as long as those of known ones.
        self._nobody = UserRecord("", _hash_of_nothing())
        self._key = token_bytes(32)
        self._secret = secret or token_bytes(32)
        self._learn = learn
        self._learns_scram = learns_scram
        self._rehashes = rehashes
        self._tokens = tokens
        self._backoff = Backoff(clock)
        self._origins = origins or LoginOrigins(self._secret)
        self._remembered: dict[str, bytes] = {}
        self._waiting = LoginQueue(self._backoff, self._origins.of, self._users.__contains__, self._refuse, clock)
        self._is_closed = False
        self._thread = Thread(target=self._run, name="flintmq-auth", daemon=True)
        self._thread.start()

    def check(
        self, user: str, password: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str], None]
    ) -> None:
        """Check a password, and call `answer` with the reason of the refusal, or "", from this or another thread.

        Nothing is computed or answered once `is_wanted` returns False, because the client is gone.
        """
        if self._remembers(user, password):
            answer(self._accepted(user, address))
        else:
            self._waiting.put(Login(user, password, address, is_wanted, answer))

    def _remembers(self, user: str, password: str) -> bool:
        remembered = self._remembered.get(user)
        known = self._users.get(user)
        if not remembered or known is None:
            return False
        return compare_digest(remembered, self._digest(known.record, password))

    def check_token(
        self, token: str, address: str, is_wanted: Callable[[], bool], answer: Callable[[str, Bearer | None], None]
    ) -> None:
        """Check a token. `answer` gets the reason of the refusal, or "" and the bearer, from any thread."""
        self._waiting.put(Login("", token, address, is_wanted, None, answer))

    def check_proof(
        self,
        user: str,
        proof: Callable[[], str],
        address: str,
        is_wanted: Callable[[], bool],
        answer: Callable[[str], None],
    ) -> None:
        """Check the proof of a SCRAM client, and call `answer` with the reason of the refusal, or "", from any thread.

        `proof` returns why the proof is wrong, or "". It is called once, from this or another thread.
        """
        login = Login(user, "", address, is_wanted, answer, proof=proof)
        origin = self._origins.of(user, address)
        if self._backoff.free_at(origin) == 0:
            self._backoff.take(origin)
            self._decide(login)
        else:
            self._waiting.put(login)

    def failed(self, user: str, address: str) -> None:
        """Count a wrong login as this user from this address."""
        self._backoff.failed(self._origins.of(user, address))

    def _run(self) -> None:
        while self._serve():
            pass

    def _serve(self) -> bool:
        login = self._waiting.next()
        if login is None or self._is_closed:
            return False
        # An error in one login must not end the thread that all other logins wait for.
        try:
            if login.is_wanted():
                self._decide(login)
        except Exception:
            log.exception("internal error", user=login.user)
        return True

    def _refuse(self, login: Login, why: str) -> None:
        try:
            if login.is_wanted():
                login.answer(why)
        except Exception:
            log.exception("internal error", user=login.user)

    def _decide(self, login: Login) -> None:
        if login.is_by_token:
            self._decide_token(login)
            return
        if login.proof is not None:
            wrong = login.proof()
        elif self._is_right(login.user, login.secret):
            wrong = ""
        else:
            wrong = self._verdict(login.user, False, login.address)
        if wrong:
            self.failed(login.user, login.address)
        why = wrong or self._accepted(login.user, login.address)
        if why:
            self._waiting.refuse(login, why)
        else:
            login.answer("")

    def _decide_token(self, login: Login) -> None:
        tokens = self._tokens
        if tokens is None:
            login.answer("tokens are not accepted: set oauth.issuer or oauth.jwks")
            return
        try:
            bearer = tokens.bearer(login.secret)
        except UnknownKey as error:
            if login.is_second_try:
                login.answer(error.text)
            else:
                tokens.keys.refresh(lambda: self._waiting.put(login.again()))
            return
        except AuthenticationFailed as error:
            login.answer(error.text)
            return
        why = self._origin_refusal(bearer.user.name, login.address)
        login.answer(why, None if why else bearer)

    def _is_right(self, user: str, password: str) -> bool:
        if self._remembers(user, password):
            # Another login has shown it while this one waited.
            return True
        known = self._users.get(user)
        record = known.record if known else self._nobody
        if record.hashing_algorithm == ALGORITHM:
            # A hash that is not checked takes no time, which must not show who has one.
            checked = record if is_bearable(record.password_hash) else self._nobody
            right = self._fits_keys(user, password) or matches(checked, password)
        else:
            right = matches(record, password)
            if not right:
                # Imported hashes are quick to check. The time of the answer must not show who has one.
                self._fits_keys(user, password)
                matches(self._nobody, password)
        if known is not None and right:
            self._remembered[user] = self._digest(record, password)
            self._teach(record, password)
        return right

    def _fits_keys(self, user: str, password: str) -> bool:
        """Return whether the user has keys for SCRAM that are of this password.

        They take a fifth of the time of an argon2 hash, for which all clients would wait after a start. They are stored
        beside the hash, so who can read the stored data guesses with them anyway. For a user without keys, keys that no
        password fits are checked, so that the time of the answer does not show who has keys.
        """
        # An empty password is never right.
        return bool(password) and self._learns_scram and scram.fits(self.scram_keys(user, scram.SHA_256), password)

    def _teach(self, record: UserRecord, password: str) -> None:
        """Create the hash and keys that the user should have and lacks: that needs the password, which is known now."""
        if self._learn is None:
            return
        is_foreign = self._rehashes and record.hashing_algorithm != ALGORITHM
        wants_keys = self._learns_scram and not record.scram
        if is_foreign or wants_keys:
            learned = Learned(hash_password(password) if is_foreign else "", scram_keys(password) if wants_keys else ())
            self._learn(record, learned)

    def _digest(self, user: UserRecord, password: str) -> bytes:
        """Return a digest of hash and password, which becomes wrong when the user gets a new password."""
        return blake2b(f"{user.password_hash} {password}".encode(), key=self._key).digest()

    def scram_keys(self, user: str, mechanism: str) -> scram.Keys:
        """Return the user's keys. For a user without keys, or an unknown one, they are keys that no password fits, with
        the same salt each time.
        """
        known = self._users.get(user)
        for text in known.record.scram if known else ():
            keys = scram.parse_keys(text)
            if keys.mechanism == mechanism:
                return keys
        size = scram.key_bytes(mechanism)
        made = blake2b(f"{mechanism} {user}".encode(), key=self._secret).digest()
        return scram.Keys(mechanism, made[:_SCRAM_SALT_BYTES], token_bytes(size), token_bytes(size), scram.ITERATIONS)

    def refusal(self, user: str, address: str) -> str:
        """Return why a client that has proved to be this user is refused; empty if it is accepted."""
        return self._accepted(user, address)

    def _accepted(self, user: str, address: str) -> str:
        """Return the reason to refuse a client that has proved to be this user, or "", and then remember its origin."""
        why = self._verdict(user, True, address)
        if not why:
            self._origins.seen(user, address)
        return why

    def _verdict(self, user: str, right: bool, address: str) -> str:
        if user not in self._users:
            return f"there is no user '{user}'"
        if not right:
            return f"wrong password for user '{user}'"
        return self._origin_refusal(user, address)

    def _origin_refusal(self, user: str, address: str) -> str:
        if user in self._loopback_only and not is_loopback(address):
            return f"user '{user}' may only log in from this machine"
        return ""

    def close(self) -> None:
        """Answer no more logins, because the event loop that gets the answers may end."""
        self._is_closed = True
        self._waiting.put(None)
        self._thread.join()
