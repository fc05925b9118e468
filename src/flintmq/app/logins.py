"""The login policy of the settings, and what logins add to the definitions."""

from dataclasses import replace
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.broker.broker import Broker
from flintmq.broker.ports import UserRecord
from flintmq.gateway.gateway import LoginPolicy
from flintmq.gateway.login import MECHANISMS
from flintmq.protocol.sasl import scram
from flintmq.server.auth import ALGORITHM, Learned
from flintmq.server.config import Settings

# The name of the secret that determines what unauthenticated peers are told about users that do not exist.
LOGIN_SECRET: Final = "login"  # noqa: S105 - its name
# The name under which the known origins of logins are stored.
ORIGINS_SECRET: Final = "places"  # noqa: S105 - its name
# Everybody knows the password of these users, so they can log in only from this machine (as in RabbitMQ).
LOOPBACK_USERS: Final = frozenset({"guest"})


def login_policy(settings: Settings) -> LoginPolicy:
    """Return the login policy of the settings. Raises ConfigurationError if they are wrong."""
    mechanisms = tuple(settings.auth.mechanisms.upper().split())
    for name in mechanisms:
        if name not in MECHANISMS:
            raise ConfigurationError(f"auth.mechanisms: '{name}' is unknown; known are {', '.join(MECHANISMS)}")
    if not mechanisms:
        raise ConfigurationError(
            f"auth.mechanisms is empty, so no client could log in; known are {', '.join(MECHANISMS)}"
        )
    return LoginPolicy(
        mechanisms,
        settings.auth.anonymous_user,
        takes_tokens=settings.oauth.takes_tokens,
        allows_clear_text=settings.auth.allow_clear_text,
    )


def has_scram(policy: LoginPolicy) -> bool:
    return any(name in scram.NAMES for name in policy.mechanisms)


def keep_learned(broker: Broker, record: UserRecord, learned: Learned) -> None:
    """Store the hash and keys that were made of a user's password, unless the user was changed meanwhile."""
    user = broker.users.get(record.name)
    if user is None or user.record is not record or broker.storage.failure:
        return
    if learned.password_hash:
        record = replace(record, password_hash=learned.password_hash, hashing_algorithm=ALGORITHM)
    if learned.scram:
        record = replace(record, scram=learned.scram)
    if record is not user.record:
        broker.put_user(record)


def keep_origins(broker: Broker, origins: bytes) -> None:
    """Store the known origins after a login from a new one."""
    if not broker.storage.failure:
        broker.put_secret(ORIGINS_SECRET, origins)
