"""Hashes of passwords that somebody brings: what they may be, and what they may cost."""

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.broker.access.password_hash import ALGORITHMS, check_password_hash, is_bearable

SALT, DIGEST = "c2FsdHNhbHRzYWx0c2FsdA", "ZGlnZXN0ZGlnZXN0ZGlnZXN0ZGlnZXN0ZGlnZXN0ZGk"


def argon2id(parameters: str) -> str:
    return f"$argon2id$v=19${parameters}${SALT}${DIGEST}"


@pytest.mark.parametrize("parameters", ["m=19456,t=2,p=1", "m=65536,t=3,p=4", "m=65536,t=8,p=4", "m=8,t=1,p=1"])
def test_the_usual_parameters_of_argon2id(parameters: str) -> None:
    """What libraries and guidelines recommend is taken."""
    check_password_hash("argon2id", argon2id(parameters))


@pytest.mark.parametrize(
    "password_hash",
    [
        argon2id("m=4194304,t=2,p=1"),
        argon2id("m=65537,t=2,p=1"),
        argon2id("m=19456,t=9,p=1"),
        argon2id("m=19456,t=50000,p=1"),
        argon2id("m=19456,t=2,p=5"),
        argon2id("m=19456,t=0,p=1"),
        argon2id("m=" + "9" * 5_000 + ",t=2,p=1"),
        argon2id("m=19456,t=2,p=1") + "A" * 512,
        argon2id("m=19456,t=2,p=1") + "\n",
        argon2id("m=19456,t=2,p=1").replace("argon2id", "argon2i"),
        "AQIDBGLVFrh2ih6mwQu+GYq7xsOL3avS17D1WstelZkKyn/W",
        "x",
    ],
)
def test_what_nobody_can_be_made_to_check(password_hash: str) -> None:
    """Memory, passes and lanes have bounds, and what is no such hash is refused when it comes, not at a login."""
    assert not is_bearable(password_hash)
    with pytest.raises(ConfigurationError, match="must be an argon2id hash"):
        check_password_hash("argon2id", password_hash)


def test_rabbitmqs_hashes() -> None:
    """They are Base64 of bounded length."""
    check_password_hash("rabbit_password_hashing_sha256", "AQIDBGLVFrh2ih6mwQu+GYq7xsOL3avS17D1WstelZkKyn/W")
    with pytest.raises(ConfigurationError, match="not Base64"):
        check_password_hash("rabbit_password_hashing_sha256", "not!a!hash")
    with pytest.raises(ConfigurationError, match="not Base64"):
        check_password_hash("rabbit_password_hashing_sha256", "ä")
    with pytest.raises(ConfigurationError, match="longer than 512"):
        check_password_hash("rabbit_password_hashing_md5", "A" * 516)


def test_no_hash_is_of_any_algorithm() -> None:
    """Whoever has an empty one does not log in by password; an unknown algorithm is none."""
    for algorithm in ALGORITHMS:
        check_password_hash(algorithm, "")
    with pytest.raises(ConfigurationError, match="hashing_algorithm 'rot13' is unknown"):
        check_password_hash("rot13", "")
