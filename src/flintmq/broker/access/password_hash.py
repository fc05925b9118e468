"""Imported password hashes: the accepted algorithms, and the highest accepted cost of a check.

An argon2 hash states how much memory and time its check takes, and anybody who knows the user's name can cause that
check. A hash that asks for gigabytes would block every login.
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

# RabbitMQ's default since 3.6, for exports that do not name the algorithm.
DEFAULT_ALGORITHM: Final = "rabbit_password_hashing_sha256"
# The algorithm by the number of bytes of salt and digest.
_BY_SIZE: Final = {
    4 + 16: "rabbit_password_hashing_md5",
    4 + 32: "rabbit_password_hashing_sha256",
    4 + 64: "rabbit_password_hashing_sha512",
}

# The PHC string format: parameters, salt and digest. Salt and digest have no padding.
_ARGON2ID_HASH: Final = re.compile(
    r"\$argon2id\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,9}),p=([0-9]{1,9})\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{16,}"
)


def algorithm_of(password_hash: str) -> str:
    """Return the algorithm of a hash that came without its name: the hash's length tells, with a salt of four bytes.

    Exports before RabbitMQ 3.6.1 do not name the algorithm, and it was MD5 before 3.6. A hash of any other length
    counts as SHA-256.
    """
    try:
        size = len(b64decode(password_hash, validate=True))
    except ValueError:
        size = 0
    return _BY_SIZE.get(size, DEFAULT_ALGORITHM)


def check_password_hash(algorithm: str, password_hash: str) -> None:
    """Raises ConfigurationError if no password can be checked with this hash, or only at too high a cost.

    No password matches an empty hash.
    """
    if algorithm not in ALGORITHMS:
        raise ConfigurationError(
            f"hashing_algorithm '{algorithm}' is unknown; known algorithms: {', '.join(ALGORITHMS)}"
        )
    if not password_hash:
        return
    if algorithm == ARGON2ID:
        if not is_bearable(password_hash):
            raise ConfigurationError(
                "the password_hash must be an argon2id hash of version 19 with at most "
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
    """Whether this is an argon2id hash whose check stays within the memory and time allowed for a login."""
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
