"""The keys that sign tokens: a JWK set (RFC 7517) in a file or at a URL. The URL is in the settings, or the issuer
names it.

The keys are read again when they are old, and when a token names an unknown key, because issuers can change keys at any
time. A separate thread reads them, so that other logins do not wait for the issuer's web server.
"""

import json
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, final

from flintmq.base.errors import ConfigurationError
from flintmq.server.logs import get_logger
from flintmq.server.oauth.discovery import document_url, keys_url
from flintmq.server.oauth.url_opener import check_trusted, opener

if TYPE_CHECKING:
    from jwt import PyJWK

log = get_logger()

# The age at which the keys of a URL are read again. Issuers rarely withdraw keys, and a token with a new key causes a
# refresh.
_URL_MAX_AGE_SECONDS: Final = 3_600.0
_FILE_MAX_AGE_SECONDS: Final = 10.0
# The least time between two refreshes. Anybody can make tokens with unknown keys, which must not load the web server.
_REFRESH_INTERVAL_SECONDS: Final = 30.0
_FETCH_SECONDS: Final = 5.0
# The largest number of logins that wait for keys. Further logins are checked with the present keys.
_WAITING_MAX: Final = 1_024
# The largest key set. A key has one or two KiB, and an issuer has a few of them.
_SET_MAX_BYTES: Final = 1024 * 1024
_KEYS_MAX: Final = 256

# The algorithms by type of key (RFC 7518 §6.1), for keys that do not name their algorithm.
_ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
    "oct": ("HS256", "HS384", "HS512"),
}


@final
class Keys:
    """The keys at `source`, a path or a URL. If it is empty, each refresh first asks the `issuer` for the URL.

    `ca` is a file with the authority that signs the certificates of the servers. Raises ConfigurationError if the
    source cannot be trusted, or is a file that cannot be read.
    """

    def __init__(
        self,
        source: str,
        ca: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        issuer: str = "",
    ) -> None:
        self._issuer = "" if source else issuer
        self._source = source or document_url(issuer)
        self._clock = clock
        self._lock = Lock()
        self._is_url = "://" in self._source
        self._keys: dict[str, Mapping[str, Any]] = {}
        self._jwks: dict[tuple[str, str], PyJWK] = {}
        self._read_at = -_URL_MAX_AGE_SECONDS
        self._waiting: list[Callable[[], None]] | None = None
        if self._is_url:
            check_trusted("oauth.jwks", self._source)
            self._opener = opener(ca)
        else:
            # An error in a file is reported at the start, not at the first login.
            self.read()

    def find(self, key_id: str, algorithm: str) -> "PyJWK | None":
        """Return the key with this id for this algorithm, or None. An empty id stands for the only key of the set."""
        if self._clock() - self._read_at > (_URL_MAX_AGE_SECONDS if self._is_url else _FILE_MAX_AGE_SECONDS):
            self.refresh(lambda: None)
        keys = self._keys
        if not key_id and len(keys) == 1:
            (key_id,) = keys
        key = keys.get(key_id)
        if key is None or algorithm not in _algorithms(key):
            return None
        jwk = self._jwks.get((key_id, algorithm))
        if jwk is None:
            from jwt import PyJWK  # noqa: PLC0415 - takes a tenth of a second, and only tokens need it

            jwk = PyJWK(dict(key), algorithm)
            self._jwks[key_id, algorithm] = jwk
        return jwk

    def refresh(self, then: Callable[[], None]) -> None:
        """Read the source again if it was not read just now. Call `then` afterwards, from this or another thread."""
        with self._lock:
            is_due = self._clock() - self._read_at > min(_REFRESH_INTERVAL_SECONDS, self._interval)
            is_running = self._waiting is not None
            if self._waiting is not None and len(self._waiting) < _WAITING_MAX:
                self._waiting.append(then)
                return
            if is_due and not is_running:
                self._waiting = [then]
        if is_due and not is_running:
            Thread(target=self._refresh, name="flintmq-keys", daemon=True).start()
        else:
            then()

    @property
    def _interval(self) -> float:
        return _REFRESH_INTERVAL_SECONDS if self._is_url else 1.0

    def read(self) -> None:
        """Read the source now. Raises ConfigurationError if it cannot be read, or is not a key set."""
        url = self._source
        if self._issuer:
            url = keys_url(self._issuer, self._fetch(url))
        self._take(url, self._fetch(url) if self._is_url else self._read_file())

    def _refresh(self) -> None:
        try:
            self.read()
        except ConfigurationError as error:
            # The present keys stay valid: logins must not fail because the issuer is unavailable for a while.
            log.warning("keys of tokens not refreshed", source=self._source, reason=str(error))
        except Exception:
            # Even after an unexpected answer, the waiting logins must continue, and the next refresh must be possible.
            log.exception("internal error", source=self._source)
        finally:
            with self._lock:
                self._read_at = self._clock()
                waiting, self._waiting = self._waiting or [], None
            for then in waiting:
                then()

    def _read_file(self) -> bytes:
        try:
            return Path(self._source).read_bytes()
        except OSError as error:
            raise ConfigurationError(f"oauth.jwks {self._source} cannot be read: {error.strerror}") from error

    def _fetch(self, url: str) -> bytes:
        try:
            with self._opener.open(url, timeout=_FETCH_SECONDS) as answer:
                text: bytes = answer.read(_SET_MAX_BYTES + 1)
        except (OSError, HTTPException) as error:
            raise ConfigurationError(f"{url} cannot be fetched: {error}") from error
        if len(text) > _SET_MAX_BYTES:
            raise ConfigurationError(f"{url} is longer than {_SET_MAX_BYTES} bytes")
        return text

    def _take(self, source: str, text: bytes) -> None:
        place = f"oauth.jwks {source}" if source == self._source else source
        try:
            entries = json.loads(text)["keys"]
            keys = {str(entry.get("kid", "")): entry for entry in entries if entry.get("use", "sig") == "sig"}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigurationError(f'{place} is not a JWK set: {{"keys": [...]}} was expected') from error
        if len(keys) > _KEYS_MAX:
            raise ConfigurationError(f"{place} has more than {_KEYS_MAX} keys")
        if keys != self._keys:
            log.info("keys of tokens", source=source, keys=sorted(keys))
        self._keys, self._jwks = keys, {}
        self._read_at = self._clock()


def _algorithms(key: Mapping[str, Any]) -> tuple[str, ...]:
    own = key.get("alg")
    known = _ALGORITHMS.get(key.get("kty", ""), ())
    return known if own is None else tuple(name for name in known if name == own)
