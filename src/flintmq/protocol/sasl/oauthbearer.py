"""SASL OAUTHBEARER (RFC 7628): a token, among what else a request by HTTP would have in its headers."""

from typing import Final

from flintmq.base.errors import AuthenticationFailed

NAME: Final = "OAUTHBEARER"
# RFC 7628 §3.2.2: what a client is told of a token that is no good. It answers, and only then it is refused (§3.2.3).
REFUSAL: Final = b'{"status":"invalid_token"}'
# RFC 7628 §3.2.3: that answer.
UNDERSTOOD: Final = b"\x01"
_SEPARATOR: Final = "\x01"
_SCHEME: Final = "bearer "


def token(response: bytes) -> str:
    """The token of a client's response; raises AuthenticationFailed when the response is none of this mechanism."""
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
    """What a client sends."""
    return f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{_SEPARATOR}".encode()
