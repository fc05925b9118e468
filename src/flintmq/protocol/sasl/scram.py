"""SASL SCRAM (RFC 5802, RFC 7677): the client keeps the password, and the server stores keys derived from it.

The library scramp does both sides of the exchange, without channel binding; nonces are arguments. scramp is imported
when it is first used: the import takes a tenth of a second, which would delay the start of a broker.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, final

from flintmq.base.errors import AuthenticationFailed, ConfigurationError
from flintmq.base.limits import SCRAM_MESSAGE_MAX_BYTES

SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
NAMES: Final = (SHA_512, SHA_256)
_KEY_BYTES: Final = {SHA_256: 32, SHA_512: 64}
_DIGESTS: Final = {SHA_256: "sha256", SHA_512: "sha512"}
# RFC 7677 §4 requires at least 4,096 iterations and recommends 15,000.
ITERATIONS: Final = 15_000


def key_bytes(mechanism: str) -> int:
    return _KEY_BYTES[mechanism]


@final
class Keys:
    """The keys of a password that a server stores for one mechanism. Nobody can log in elsewhere with them."""

    def __init__(self, mechanism: str, salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> None:
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations

    def __str__(self) -> str:
        """Return `MECHANISM$ITERATIONS:SALT$STORED_KEY:SERVER_KEY` with base64 values, as PostgreSQL writes keys."""
        return (
            f"{self.mechanism}${self.iterations}:{_text(self.salt)}${_text(self.stored_key)}:{_text(self.server_key)}"
        )


def parse_keys(text: str) -> Keys:
    """Return the keys that `str(keys)` wrote. Raises ConfigurationError if the text is malformed."""
    try:
        mechanism, salted, keys = text.split("$")
        iterations, salt = salted.split(":")
        stored_key, server_key = keys.split(":")
        return Keys(mechanism, b64decode(salt), b64decode(stored_key), b64decode(server_key), int(iterations))
    except ValueError:
        raise ConfigurationError("the keys of a user for SCRAM are not MECHANISM$N:SALT$KEY:KEY") from None


def derive_keys(mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS) -> Keys:
    """Derive the keys of a password; the time that it takes grows with `iterations`.

    Raises AuthenticationFailed if SCRAM does not allow the password.
    """
    import scramp  # noqa: PLC0415

    try:
        _, stored_key, server_key, _ = scramp.ScramMechanism(mechanism).make_auth_info(
            password, iteration_count=iterations, salt=salt
        )
    except scramp.ScramException as error:
        raise AuthenticationFailed(f"{mechanism}: {error}") from None
    return Keys(mechanism, salt, stored_key, server_key, iterations)


def fits(keys: Keys, password: str) -> bool:
    """Return whether the keys fit this password (RFC 5802 §3); False for one that is not ASCII.

    Keys are derived from what SASLprep makes of a password. So an ASCII password also fits the keys of one that is
    prepared as it: full-width letters become ASCII letters. RFC 4616 §2 asks for this preparation in PLAIN, too. An
    ASCII password needs none, and so scramp is not needed, whose import takes longer than many checks.
    """
    if not password.isascii():
        return False
    digest = _DIGESTS[keys.mechanism]
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), keys.salt, keys.iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return hmac.compare_digest(hashlib.new(digest, client_key).digest(), keys.stored_key)


@final
class ServerExchange:
    """The server's side of one login. `nonce` must be unique.

    `keys_of(user, mechanism)` must return keys for any name, also of a user that does not exist: otherwise clients
    could find out which users exist.
    """

    def __init__(self, mechanism: str, keys_of: Callable[[str, str], Keys], nonce: str) -> None:
        import scramp  # noqa: PLC0415

        self.mechanism = mechanism
        self.user: str = ""
        self._keys_of = keys_of
        self._server = scramp.ScramMechanism(mechanism).make_server(self._look_up, s_nonce=nonce)
        self._was_challenged = False

    def _look_up(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self.user = user
        keys = self._keys_of(user, self.mechanism)
        return keys.salt, keys.stored_key, keys.server_key, keys.iterations

    @property
    def is_complete(self) -> bool:
        """Whether the challenge was sent, so that the next response is the last."""
        return self._was_challenged

    def challenge(self, response: bytes) -> bytes:
        """Return the challenge for the client's first message. Raises AuthenticationFailed if that is malformed."""
        import scramp  # noqa: PLC0415

        self._check_length(response)
        try:
            self._server.set_client_first(response.decode())
            self._was_challenged = True
            first: str = self._server.get_server_first()
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise AuthenticationFailed(f"{self.mechanism}: {error}") from None
        return first.encode()

    def finish(self, response: bytes) -> bytes:
        """Check the client's proof, and return the server's. Raises AuthenticationFailed if the proof is wrong."""
        import scramp  # noqa: PLC0415

        self._check_length(response)
        try:
            self._server.set_client_final(response.decode())
            final_message: str = self._server.get_server_final()
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise AuthenticationFailed(f"{self.mechanism}: {error}") from None
        return final_message.encode()

    def _check_length(self, response: bytes) -> None:
        if len(response) > SCRAM_MESSAGE_MAX_BYTES:
            raise AuthenticationFailed(
                f"{self.mechanism}: a message of {len(response)} bytes: it may have {SCRAM_MESSAGE_MAX_BYTES}"
            )


@final
class ClientExchange:
    """The client's side of one login: send `first`, then `answer` to the challenge, then `check` the server's proof.

    `answer` raises AuthenticationFailed if the challenge is malformed, `check` if the server does not have the keys.
    """

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        import scramp  # noqa: PLC0415

        self.mechanism = mechanism
        self._client = scramp.ScramClient([mechanism], user, password, c_nonce=nonce)

    def first(self) -> bytes:
        message: str = self._client.get_client_first()
        return message.encode()

    def answer(self, challenge: bytes) -> bytes:
        import scramp  # noqa: PLC0415

        try:
            self._client.set_server_first(challenge.decode())
            message: str = self._client.get_client_final()
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise AuthenticationFailed(f"{self.mechanism}: {error}") from None
        return message.encode()

    def check(self, last: bytes) -> None:
        import scramp  # noqa: PLC0415

        try:
            self._client.set_server_final(last.decode())
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise AuthenticationFailed(f"{self.mechanism}: {error}") from None


def _text(data: bytes) -> str:
    return b64encode(data).decode()
