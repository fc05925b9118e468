"""SASL OAUTHBEARER (RFC 7628): a login with a bearer token, sent as key-value pairs like HTTP headers."""

from typing import Final

from flintmq.base.errors import AuthenticationFailed

NAME: Final = "OAUTHBEARER"
# The server's challenge after an invalid token (RFC 7628 §3.2.2). The client answers, then login is refused (§3.2.3).
REFUSAL: Final = b'{"status":"invalid_token"}'
# The client's answer to that challenge (RFC 7628 §3.2.3).
UNDERSTOOD: Final = b"\x01"
_SEPARATOR: Final = "\x01"
_SCHEME: Final = "bearer "


def token(response: bytes) -> str:
    """Return the token in a client's response. Raises AuthenticationFailed if the response is malformed."""
    try:
        header, *pairs = response.decode("ascii").split(_SEPARATOR)
    except UnicodeDecodeError:
        raise AuthenticationFailed("OAUTHBEARER: the response has to be ASCII") from None
    if not header.startswith(("n,", "y,")) or pairs[-2:] != ["", ""]:
        raise AuthenticationFailed("OAUTHBEARER: the response is not a GS2 header and pairs of keys and values")
    for pair in pairs[:-2]:
        key, _, value = pair.partition("=")
        if key == "auth" and value[: len(_SCHEME)].lower() == _SCHEME:
            return value[len(_SCHEME) :].strip()
    raise AuthenticationFailed("OAUTHBEARER: there is no auth=Bearer TOKEN in the response")


def response(token: str) -> bytes:
    """Return the response that a client sends to log in with `token`."""
    return f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{_SEPARATOR}".encode()
