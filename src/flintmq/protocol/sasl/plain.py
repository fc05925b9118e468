"""SASL PLAIN (RFC 4616): authorization id, user and password, separated by zero octets."""

from flintmq.base.errors import AuthenticationFailed

NAME = "PLAIN"


def credentials(response: bytes) -> tuple[str, str]:
    """Return user and password of a PLAIN response. Raises AuthenticationFailed if the response is malformed."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise AuthenticationFailed("PLAIN: the response is not authzid NUL user NUL password")
    try:
        return parts[1].decode(), parts[2].decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("PLAIN: user and password have to be UTF-8") from None


def response(user: str, password: str) -> bytes:
    """Return the response that a client sends to log in as `user`, without an authorization id."""
    return b"\0" + user.encode() + b"\0" + password.encode()
