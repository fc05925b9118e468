"""SASL SCRAM (RFC 5802, RFC 7677): the password stays with the client, the server keeps keys made of it.

Both halves are scramp's, without channel binding; nonces come in as arguments. It is imported when it is needed: that
takes a tenth of a second, which a broker that starts has better use for.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, final

from flintmq.base.errors import AuthenticationFailed, ConfigurationError
from flintmq.base.limits import SCRAM_MESSAGE_MAX_BYTES

SHA_256: Final = "SCRAM-SHA-256"
SHA_512: Final = "SCRAM-SHA-512"
NAMES: Final = (SHA_512, SHA_256)
_KEY_BYTES: Final = {SHA_256: 32, SHA_512: 64}
# RFC 7677 §4 asks for 4,096 at least, and recommends 15,000.
ITERATIONS: Final = 15_000


def key_bytes(mechanism: str) -> int:
    return _KEY_BYTES[mechanism]


@final
class Keys:
    """What a server keeps of a password for one of the mechanisms, and cannot log in with elsewhere."""

    def __init__(self, mechanism: str, salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> None:
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations

    def __str__(self) -> str:
        """As PostgreSQL writes them, with the iterations before the salt."""
        return (
            f"{self.mechanism}${self.iterations}:{_text(self.salt)}${_text(self.stored_key)}:{_text(self.server_key)}"
        )


def parse_keys(text: str) -> Keys:
    """What `str` of keys gave. Raises ConfigurationError."""
    try:
        mechanism, salted, keys = text.split("$")
        iterations, salt = salted.split(":")
        stored_key, server_key = keys.split(":")
        return Keys(mechanism, b64decode(salt), b64decode(stored_key), b64decode(server_key), int(iterations))
    except ValueError:
        raise ConfigurationError("the keys of a user for SCRAM are not MECHANISM$N:SALT$KEY:KEY") from None


def derive_keys(mechanism: str, password: str, salt: bytes, iterations: int = ITERATIONS) -> Keys:
    """Takes as long as the iterations ask for. Raises AuthenticationFailed for a password that SCRAM cannot have."""
    import scramp  # noqa: PLC0415

    try:
        _, stored_key, server_key, _ = scramp.ScramMechanism(mechanism).make_auth_info(
            password, iteration_count=iterations, salt=salt
        )
    except scramp.ScramException as error:
        raise AuthenticationFailed(f"{mechanism}: {error}") from None
    return Keys(mechanism, salt, stored_key, server_key, iterations)


@final
class ServerExchange:
    """One login. `keys_of` has keys for any name, or strangers could tell who is a user; `nonce` is used once."""

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
        """Whether the next response is the last."""
        return self._was_challenged

    def challenge(self, response: bytes) -> bytes:
        """The answer to the client's first message. Raises AuthenticationFailed."""
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
        """Check the proof; returns ours. Raises AuthenticationFailed."""
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
    """The other half. `check` raises AuthenticationFailed where the server did not know the password's keys."""

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
