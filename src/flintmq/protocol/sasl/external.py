"""SASL EXTERNAL (RFC 4422 appendix A): who the client is was proved below, by its certificate."""

from flintmq.base.errors import AuthenticationFailed

NAME = "EXTERNAL"


def identity(response: bytes) -> str:
    """Who the client wishes to act as; empty where that is whoever it was proved to be. Raises AuthenticationFailed."""
    try:
        return response.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("EXTERNAL: an identity has to be UTF-8") from None
