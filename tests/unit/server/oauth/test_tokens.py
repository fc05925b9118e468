"""Tokens: which are good, whose they are, and what is made of their scopes."""

import json
import time
from base64 import urlsafe_b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from flintmq.base.errors import AuthenticationFailed
from flintmq.server.config import OAuthSettings
from flintmq.server.oauth.keys import Keys
from flintmq.server.oauth.tokens import Tokens, UnknownKey
from tests.tokens import Issuer

SETTINGS = OAuthSettings(jwks="in the test", resource_server_id="flintmq")


@pytest.fixture
def file(issuer: Issuer, tmp_path: Path) -> Path:
    return issuer.publish(tmp_path / "jwks.json")


def _tokens(file: Path, settings: OAuthSettings = SETTINGS) -> Tokens:
    return Tokens(settings, Keys(str(file)))


def test_a_good_token(issuer: Issuer, file: Path) -> None:
    """It says who comes, until when, with which tags and rights."""
    before = time.time()
    bearer = _tokens(file).bearer(issuer.token("read:*/q", "tag:administrator"))
    assert bearer.user.name == "anna"
    assert bearer.user.is_administrator
    assert bearer.scopes.allows("read", "/", "q")
    assert 3_598 <= bearer.expires_ms / 1_000 - before <= 3_601


@pytest.mark.parametrize(
    "claims",
    [
        {"seconds": -1},
        {"exp": None},
        {"exp": "2999-01-01"},
        {"exp": True},
        {"exp": -1},
        {"exp": 1e300},
        {"exp": 0.5},
        {"nbf": 4_000_000_000},
        {"nbf": "soon"},
        {"aud": "another"},
        {"aud": None},
        {"iss": "https://elsewhere.example"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"sub": ["anna"]},
        {"scope": "flintmq.read:*/* " * 2_000},
        {"filling": "x" * 20_000},
    ],
    ids=str,
)
def test_tokens_that_are_refused(issuer: Issuer, file: Path, claims: dict[str, Any]) -> None:
    """For what they lack or say; numbers with a fraction are numbers, too. The reason does not quote them."""
    token = issuer.token("read:*/*", **{"iss": "https://issuer.example", **claims})
    with pytest.raises(AuthenticationFailed) as refused:
        _tokens(file, replace(SETTINGS, issuer="https://issuer.example")).bearer(token)
    assert token[:20] not in str(refused.value)


def _part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


CLAIMS = _part({"sub": "anna", "aud": "flintmq", "exp": 2**32, "scope": "flintmq.tag:administrator"})


@pytest.mark.parametrize(
    "token",
    [
        "",
        "eyJ",
        "..",
        "a.b.c",
        f"{_part({'alg': 'none', 'kid': 'key-1'})}.{CLAIMS}.",
        f"{_part({'alg': 'RS256', 'kid': 'key-1'})}.{CLAIMS}.",
        f"{_part({'alg': 'RS256', 'kid': ['key-1']})}.{CLAIMS}.AAAA",
        f"{_part({'alg': ['RS256']})}.{CLAIMS}.AAAA",
        f"{_part([])}.{CLAIMS}.AAAA",
        "[" * 8_000 + "." + CLAIMS + ".AAAA",
        urlsafe_b64encode(b"[" * 8_000).decode() + f".{CLAIMS}.AAAA",
        "\udc80.b.c",
        "eyJ\x00.b.c",
    ],
)
def test_what_is_no_token(file: Path, token: str) -> None:
    """Whatever it is made of, it is refused, and nothing else happens."""
    with pytest.raises(AuthenticationFailed):
        _tokens(file).bearer(token)


def test_a_public_key_is_no_shared_one(issuer: Issuer, file: Path) -> None:
    """Everybody has the public key: what signed with it as if it were a secret is nobody's."""
    public = issuer.keys["key-1"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header, claims = _part({"alg": "HS256", "kid": "key-1", "typ": "JWT"}), CLAIMS
    signed = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(
        f"{header}.{claims}".encode(), public
    )
    token = f"{header}.{claims}.{urlsafe_b64encode(signed).decode().rstrip('=')}"
    for algorithms in (SETTINGS.algorithms, f"HS256 {SETTINGS.algorithms}"):
        with pytest.raises(AuthenticationFailed):
            _tokens(file, replace(SETTINGS, algorithms=algorithms)).bearer(token)


def test_a_key_of_that_name_from_somebody_else(issuer: Issuer, file: Path) -> None:
    """A name proves nothing, the signature does."""
    with pytest.raises(AuthenticationFailed, match="InvalidSignatureError"):
        _tokens(file).bearer(Issuer().token("read:*/*"))


def test_a_key_that_is_not_there(issuer: Issuer, file: Path) -> None:
    """Said apart, for it may be there in a moment."""
    newer = Issuer()
    newer.add_key("key-2")
    with pytest.raises(UnknownKey):
        _tokens(file).bearer(newer.token("read:*/*", key_id="key-2"))


def test_any_algorithm_of_the_keys_kind(issuer: Issuer, file: Path) -> None:
    """A key that names none is used with the token's, if the settings name that."""
    for algorithm in ("RS256", "PS512"):
        assert _tokens(file).bearer(issuer.token(algorithm=algorithm)).user.name == "anna"
    with pytest.raises(AuthenticationFailed):
        _tokens(file, replace(SETTINGS, algorithms="RS256")).bearer(issuer.token(algorithm="PS512"))


@pytest.mark.parametrize(
    ("settings", "claims", "allowed"),
    [
        ({}, {"scope": "flintmq.read:*/q other.read:*/r read:*/s"}, "q"),
        ({}, {"scope": ["flintmq.read:*/q", 7, "flintmq.read:*/r flintmq.read:*/s"]}, "qrs"),
        ({}, {"scope": {"flintmq.read:*/q": True}}, ""),
        ({"scope_prefix": ""}, {"scope": "read:*/q flintmq.read:*/r"}, "q"),
        ({"scope_prefix": "api://"}, {"scope": "api://read:*/q"}, "q"),
        ({"scope_aliases": {"dev": "flintmq.read:*/q flintmq.read:*/r"}}, {"scope": "dev"}, "qr"),
        ({"scope_aliases": {"dev": "read:*/q"}}, {"scope": "dev"}, ""),
        ({"additional_scopes": "roles"}, {"roles": ["flintmq.read:*/r"], "scope": "flintmq.read:*/q"}, "qr"),
    ],
)
def test_scopes(issuer: Issuer, file: Path, settings: dict[str, Any], claims: dict[str, Any], allowed: str) -> None:
    """Those count that are meant for us, by the prefix, wherever the settings say they stand."""
    scopes = _tokens(file, replace(SETTINGS, **settings)).bearer(issuer.token(**claims)).scopes
    assert "".join(name for name in "qrs" if scopes.allows("read", "/", name)) == allowed


def test_whose_it_is(issuer: Issuer, file: Path) -> None:
    """The first of the claims that the settings prefer, if it is there, or else what every token has."""
    tokens = _tokens(file, replace(SETTINGS, username_claims="preferred_username email"))
    assert tokens.bearer(issuer.token()).user.name == "anna"
    assert tokens.bearer(issuer.token(sub=None, client_id="service")).user.name == "service"
    assert tokens.bearer(issuer.token(email="a@b.example")).user.name == "a@b.example"
    assert tokens.bearer(issuer.token(email="a@b.example", preferred_username="ann")).user.name == "ann"


def test_an_audience_that_nobody_checks(issuer: Issuer, file: Path) -> None:
    """Where the settings say so."""
    assert _tokens(file, replace(SETTINGS, verify_aud=False)).bearer(issuer.token(aud="another")).user.name == "anna"
