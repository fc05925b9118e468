"""Hashes of passwords that come from elsewhere: what kinds there are, and what one may cost whoever checks it.

A hash by argon2 says itself how much memory and time its check takes, and anybody who knows the user's name may have it
checked: one that asks for gigabytes would keep everybody from logging in.
"""

import re
from base64 import b64decode
from typing import Final

from flintmq.base.errors import ConfigurationError
from flintmq.base.limits import (
    PASSWORD_HASH_LANES_MAX,
    PASSWORD_HASH_MAX_CHARACTERS,
    PASSWORD_HASH_MEMORY_MAX_KIB,
    PASSWORD_HASH_PASSES_MAX,
)

ARGON2ID: Final = "argon2id"
ALGORITHMS: Final = (
    ARGON2ID,
    "rabbit_password_hashing_sha256",
    "rabbit_password_hashing_sha512",
    "rabbit_password_hashing_md5",
)

# How passwords are hashed where an export does not say so: RabbitMQ's default since 3.6.
DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"
# By the bytes of salt and digest.
_BY_SIZE: Final = {
    4 + 16: "rabbit_password_hashing_md5",
    4 + 32: "rabbit_password_hashing_sha256",
    4 + 64: "rabbit_password_hashing_sha512",
}

# The PHC string format: parameters, salt and digest; these have no padding.
_ARGON2ID_HASH: Final = re.compile(
    r"\$argon2id\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,9}),p=([0-9]{1,9})\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{16,}"
)


def algorithm_of(password_hash: str) -> str:
    """The algorithm of a hash that came without saying it: by its length, that of four bytes of salt and a digest.

    Exports before RabbitMQ 3.6.1 do not say it, and before 3.6 it was MD5. One of another length is taken for SHA-256.
    """
    try:
        size = len(b64decode(password_hash, validate=True))
    except ValueError:
        size = 0
    return _BY_SIZE.get(size, DEFAULT_ALGORITHM)


def check_password_hash(algorithm: str, password_hash: str) -> None:
    """Raises ConfigurationError for what no password can be checked with, or only dearly. An empty one is nobody's."""
    if algorithm not in ALGORITHMS:
        raise ConfigurationError(f"hashing_algorithm '{algorithm}' is unknown: there are {', '.join(ALGORITHMS)}")
    if not password_hash:
        return
    if algorithm == ARGON2ID:
        if not is_bearable(password_hash):
            raise ConfigurationError(
                "the password_hash is none of argon2id in version 19 with at most "
                f"m={PASSWORD_HASH_MEMORY_MAX_KIB}, t={PASSWORD_HASH_PASSES_MAX}, p={PASSWORD_HASH_LANES_MAX}"
            )
        return
    try:
        b64decode(password_hash, validate=True)
    except ValueError as error:
        raise ConfigurationError("the password_hash is not Base64") from error
    if len(password_hash) > PASSWORD_HASH_MAX_CHARACTERS:
        raise ConfigurationError(f"the password_hash is longer than {PASSWORD_HASH_MAX_CHARACTERS} characters")


def is_bearable(password_hash: str) -> bool:
    """Whether it is a hash by argon2id whose check takes no more than anybody who tries to log in may take."""
    if len(password_hash) > PASSWORD_HASH_MAX_CHARACTERS:
        return False
    found = _ARGON2ID_HASH.fullmatch(password_hash)
    if found is None:
        return False
    memory, passes, lanes = (int(number) for number in found.groups())
    return (
        memory <= PASSWORD_HASH_MEMORY_MAX_KIB
        and 1 <= passes <= PASSWORD_HASH_PASSES_MAX
        and 1 <= lanes <= PASSWORD_HASH_LANES_MAX
    )
