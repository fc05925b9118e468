"""JSON web tokens (RFC 7519): their validity, their user, and the rights that their scopes grant.

Scopes and claims mean the same as in RabbitMQ's OAuth 2 plugin. In addition, a token must say when it expires, as
access tokens must (RFC 9068 §2.2), and algorithms with shared keys are possible only if the settings name them.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, final

from flintmq.base.errors import AuthenticationFailed, ConfigurationError
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.scopes import Scopes
from flintmq.server.config import OAuthSettings

if TYPE_CHECKING:
    from flintmq.server.oauth.keys import Keys

# Longer than any login can contain: a frame of 8 KiB, or the head of an HTTP request.
_TOKEN_MAX_CHARACTERS: Final = 16_384
_SCOPES_MAX: Final = 1_024
# The claims with the user name that RabbitMQ uses, after those in the settings.
_NAME_CLAIMS: Final = ("sub", "client_id")
# The largest Unix time whose milliseconds fit 63 bits, and a float without loss.
_TIME_MAX_SECONDS: Final = 2**40


class UnknownKey(AuthenticationFailed):
    """The key that a token names is unknown. A refresh of the issuer's keys may find it."""


@final
class Tokens:
    """Checks tokens. `wall_clock` returns Unix time in seconds."""

    def __init__(self, settings: OAuthSettings, keys: "Keys", wall_clock: Callable[[], float] = time.time) -> None:
        self.keys = keys
        self._settings = settings
        self._clock = wall_clock
        self._algorithms = frozenset(settings.algorithms.split())
        self._prefix = settings.scope_prefix
        if self._prefix is None:
            self._prefix = f"{settings.resource_server_id}."

    def bearer(self, token: str) -> Bearer:
        """Return the bearer of a token.

        Raises AuthenticationFailed if the token is invalid, and UnknownKey if its key is unknown.
        """
        claims = self._claims(token)
        expires = _seconds(claims.get("exp"), "exp")
        if expires <= self._clock():
            raise AuthenticationFailed("the token has expired")
        if "nbf" in claims and _seconds(claims["nbf"], "nbf") > self._clock():
            raise AuthenticationFailed("the token is not valid yet")
        return Bearer(self._name(claims), Scopes(self._scopes(claims)), int(expires * 1000))

    def _claims(self, token: str) -> Mapping[str, Any]:
        import jwt  # noqa: PLC0415 - takes a tenth of a second, and only tokens need it

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
                raise UnknownKey("the token is signed with a key that its issuer does not publish")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=settings.resource_server_id if settings.verify_aud else None,
                issuer=settings.issuer or None,
                # The caller checks times, by the broker's clock, and accepts any kind of number.
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
            # Some of these error texts quote the token, so only the type of the error is reported.
            raise AuthenticationFailed(f"the token is not valid: {type(error).__name__}") from None
        return claims

    def _name(self, claims: Mapping[str, Any]) -> str:
        for claim in (*self._settings.username_claims.split(), *_NAME_CLAIMS):
            name = claims.get(claim)
            if isinstance(name, str) and name:
                return name
        raise AuthenticationFailed("the token has no claim with a user name")

    def _scopes(self, claims: Mapping[str, Any]) -> Iterator[str]:
        """Yield the scopes for this broker, without their prefix."""
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
    """Return the `Tokens` of these settings, or None if no tokens are accepted. Raises ConfigurationError if the
    settings are wrong.
    """
    if not settings.takes_tokens:
        return None
    if settings.resource_server_id == "":
        named = "oauth.jwks" if settings.jwks else "oauth.issuer"
        raise ConfigurationError(f"{named} needs oauth.resource_server_id, to refuse tokens for other services")
    # The import takes a tenth of the processor time of a start, and 4 MB: it brings the HTTP client of Python.
    from flintmq.server.oauth.keys import Keys  # noqa: PLC0415

    return Tokens(settings, Keys(settings.jwks, settings.jwks_ca, issuer=settings.issuer))


def _seconds(value: object, claim: str) -> float:
    """Return the Unix time of a claim. Raises AuthenticationFailed if it is not a number, or is out of range."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise AuthenticationFailed(f"the token's {claim} is not a number")
    if not math.isfinite(value) or not 0 <= value <= _TIME_MAX_SECONDS:
        raise AuthenticationFailed(f"the token's {claim} is not a valid time")
    return float(value)


def _texts(value: object) -> list[str]:
    """Return the scopes of a claim: a text with spaces between them (RFC 8693 §4.2), or a list of texts."""
    if isinstance(value, str):
        return value.split()
    if isinstance(value, list):
        return [word for text in value if isinstance(text, str) for word in text.split()]
    return []
