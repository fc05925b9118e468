"""JSON web tokens (RFC 7519): whether one is good, whose it is, and what its scopes grant.

The meaning of scopes and claims is that of RabbitMQ's OAuth 2 plugin. Stricter than that, a token has to say when it
expires, as access tokens have to (RFC 9068 §2.2), and algorithms with shared keys have to be asked for.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, final

from flintmq.base.errors import AuthenticationFailed, ConfigurationError
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.scopes import Scopes
from flintmq.server.config import OAuthSettings
from flintmq.server.oauth.keys import Keys

# More than any login has room for: a frame of 8 KiB, or the head of a request.
_TOKEN_MAX_CHARACTERS: Final = 16_384
_SCOPES_MAX: Final = 1_024
# RabbitMQ's, after those that the settings prefer.
_NAME_CLAIMS: Final = ("sub", "client_id")
# What Unix time in ms may be, in 63 bits and in floats without a loss.
_TIME_MAX_SECONDS: Final = 2**40


class UnknownKey(AuthenticationFailed):
    """Nobody knows the key that a token names; an issuer's newest may be known in a moment."""


@final
class Tokens:
    """`wall_clock` tells Unix time in seconds."""

    def __init__(self, settings: OAuthSettings, keys: Keys, wall_clock: Callable[[], float] = time.time) -> None:
        self.keys = keys
        self._settings = settings
        self._clock = wall_clock
        self._algorithms = frozenset(settings.algorithms.split())
        self._prefix = settings.scope_prefix
        if self._prefix is None:
            self._prefix = f"{settings.resource_server_id}."

    def bearer(self, token: str) -> Bearer:
        """Who comes with the token. Raises AuthenticationFailed, and UnknownKey."""
        claims = self._claims(token)
        expires = _seconds(claims.get("exp"), "exp")
        if expires <= self._clock():
            raise AuthenticationFailed("the token has expired")
        if "nbf" in claims and _seconds(claims["nbf"], "nbf") > self._clock():
            raise AuthenticationFailed("the token is not valid yet")
        return Bearer(self._name(claims), Scopes(self._scopes(claims)), int(expires * 1000))

    def _claims(self, token: str) -> Mapping[str, Any]:
        import jwt  # noqa: PLC0415 - takes a tenth of a second, which is nobody's who has no tokens

        if len(token) > _TOKEN_MAX_CHARACTERS:
            raise AuthenticationFailed(f"the token has more than {_TOKEN_MAX_CHARACTERS} characters")
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid", "")
            if algorithm not in self._algorithms:
                raise AuthenticationFailed("the token is signed by an algorithm that oauth.algorithms does not name")
            key = self.keys.find(key_id, algorithm)
            if key is None:
                raise UnknownKey("the token is signed with a key that is not among its issuer's")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=settings.resource_server_id if settings.verify_aud else None,
                issuer=settings.issuer or None,
                # Times are checked by the caller, by our own clock, whatever kinds of numbers they are.
                options={
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": settings.verify_aud,
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            # Some of these texts quote the token.
            raise AuthenticationFailed(f"the token is not valid: {type(error).__name__}") from None
        return claims

    def _name(self, claims: Mapping[str, Any]) -> str:
        for claim in (*self._settings.username_claims.split(), *_NAME_CLAIMS):
            name = claims.get(claim)
            if isinstance(name, str) and name:
                return name
        raise AuthenticationFailed("the token does not say whose it is")

    def _scopes(self, claims: Mapping[str, Any]) -> Iterator[str]:
        """Those that are meant for us, without the prefix that says so."""
        aliases, prefix = self._settings.scope_aliases, self._prefix or ""
        count = 0
        for claim in ("scope", *self._settings.additional_scopes.split()):
            for scope in _texts(claims.get(claim)):
                for meant in aliases[scope].split() if scope in aliases else (scope,):
                    count += 1
                    if count > _SCOPES_MAX:
                        raise AuthenticationFailed(f"the token has more than {_SCOPES_MAX} scopes")
                    if meant.startswith(prefix):
                        yield meant[len(prefix) :]


def tokens_of(settings: OAuthSettings) -> Tokens | None:
    """None where nobody's tokens count. Raises ConfigurationError."""
    if not settings.takes_tokens:
        return None
    if settings.resource_server_id == "":
        named = "oauth.jwks" if settings.jwks else "oauth.issuer"
        raise ConfigurationError(f"{named} needs oauth.resource_server_id: tokens for others must not count here")
    return Tokens(settings, Keys(settings.jwks, settings.jwks_ca, issuer=settings.issuer))


def _seconds(value: object, claim: str) -> float:
    """Unix time. What is no number is no time, and never one that does not come."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AuthenticationFailed(f"the token's {claim} is no number")
    if not math.isfinite(value) or not 0 <= value <= _TIME_MAX_SECONDS:
        raise AuthenticationFailed(f"the token's {claim} is no time")
    return float(value)


def _texts(value: object) -> list[str]:
    """A claim of scopes: a text with spaces between (RFC 8693 §4.2), or a list of texts."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [word for text in value if isinstance(text, str) for word in text.split()]
    return []
