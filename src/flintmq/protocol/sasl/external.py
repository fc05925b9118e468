"""SASL EXTERNAL (RFC 4422 appendix A): the TLS certificate of the client proves its identity."""

from flintmq.base.errors import AuthenticationFailed

NAME = "EXTERNAL"


def identity(response: bytes) -> str:
    """Return the identity that the client wants to act as; empty for the identity of its certificate.

    Raises AuthenticationFailed if the response is not UTF-8.
    """
    try:
        return response.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("EXTERNAL: an identity has to be UTF-8") from None
