"""Certificates: those of the server, loaded again when their files change, and the user names in those of clients.

A connection begins with a context that has only the versions, ciphers and client authorities. The context with the
certificate is chosen when the client has said which name it wants (SNI), so that the next client gets a renewed
certificate from every listener.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from flintmq.base.errors import ConfigurationError
from flintmq.base.limits import PEM_MAX_BYTES
from flintmq.server.config import CertificateSettings, TlsSettings
from flintmq.server.logs import get_logger

log = get_logger()

# The result of `getpeercert`: names of all kinds, deeply nested.
Certificate = Mapping[str, Any] | None

# For TLS 1.2: ephemeral keys, and ciphers that authenticate. TLS 1.3 has no others.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
_VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
# The names of `getpeercert` for the kinds of alternative names.
_KINDS: Final = {"dns": "DNS", "uri": "URI", "email": "email", "ip": "IP Address"}

# The interval at which certificate files are checked. Replaced certificates are usually valid for some more days.
_LOOK_SECONDS: Final = 5.0
# Numbers of a file, of which at least one differs after a change.
Stamp = tuple[int, int, int]
# Returns the content of a file, or raises OSError.
_Read = Callable[[Path], bytes]


@dataclass(frozen=True)
class _Loaded:
    """Contexts made from settings and files: by the names that clients ask for, and one for all others."""

    settings: TlsSettings
    others: tuple[CertificateSettings, ...]
    # The contents of the files.
    pems: Mapping[Path, bytes]
    # The stamps of the files before they were read.
    stamps: Mapping[Path, Stamp | None]
    default: ssl.SSLContext
    by_name: Mapping[str, ssl.SSLContext]


@dataclass(frozen=True)
class Expiry:
    """The end of a certificate, as Unix time and as text."""

    expires_ms: int
    expires_on: str


@final
class Tls:
    """The TLS context of a server, and the place of a client's name in its certificate.

    `context` is the context of all listeners, and stays the same object. `read` returns the content of a file. Raises
    ConfigurationError if a file cannot be used.
    """

    def __init__(
        self, settings: TlsSettings, others: tuple[CertificateSettings, ...] = (), read: _Read = Path.read_bytes
    ) -> None:
        self.loaded = _load(settings, others, read)
        # Called, from any thread, after other settings or files came into use.
        self.on_update: Callable[[], None] | None = None
        self._refused: Mapping[Path, Stamp | None] = {}
        self.context: ssl.SSLContext = _context(settings, self.loaded.pems.__getitem__)
        self.context.sni_callback = self._choose
        self._update_context()

    @property
    def is_required(self) -> bool:
        """Whether clients must present a certificate, so that clients on other machines must use TLS."""
        return self.loaded.settings.verify == "required"

    @property
    def files(self) -> list[Path]:
        """The files with the server's certificates."""
        settings = self.loaded.settings
        return [file for file in (settings.certificate, *(each.certificate for each in self.loaded.others)) if file]

    def become(self, other: "Tls") -> None:
        """Use the settings and files of `other` from now on."""
        self.loaded = other.loaded
        self._update_context()
        if self.on_update is not None:
            self.on_update()

    def reload_if_changed(self) -> None:
        """Load all files again if one has changed. An error is logged once, and the present ones stay in use."""
        before = self.loaded
        stamps = {file: stamp(file) for file in before.stamps}
        if stamps in (before.stamps, self._refused):
            return
        try:
            self.loaded = _load(before.settings, before.others, Path.read_bytes)
        except ConfigurationError as error:
            self._refused = stamps
            log.warning("certificates stay as they were", reason=str(error))
            return
        self._update_context()
        if self.on_update is not None:
            self.on_update()
        log.info("certificates loaded", certificate=str(before.settings.certificate), others=len(before.others))

    def _update_context(self) -> None:
        """Set up the first context, which OpenSSL uses until the client's name has chosen another."""
        settings = self.loaded.settings
        assert settings.certificate is not None
        context = self.context
        context.minimum_version = _VERSIONS[settings.minimum_version]
        context.verify_mode = self.loaded.default.verify_mode
        # No client sees this certificate, but OpenSSL needs one to know which ciphers can be used.
        load_pair(context, settings.certificate, settings.key, "tls.", self.loaded.pems.__getitem__)

    def _choose(self, tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """Choose the context for the name that the client asks for; for an unknown name, the default one."""
        wanted = (name or "").lower().rstrip(".")
        loaded = self.loaded
        by_name = loaded.by_name
        tls.context = by_name.get(wanted) or by_name.get(f"*.{wanted.partition('.')[2]}") or loaded.default

    def identity(self, certificate: Certificate) -> str:
        """Return the client's name in its certificate, as `getpeercert` gives it; empty if it has none."""
        settings = self.loaded.settings
        if not certificate or settings.verify == "none":
            return ""
        if settings.login_from == "common_name":
            return _common_name(certificate)
        kind = _KINDS[settings.login_san_type]
        names = [str(value) for name, value in certificate.get("subjectAltName", ()) if name == kind]
        return names[settings.login_san_index] if settings.login_san_index < len(names) else ""


async def watch(tls: Tls) -> None:
    """Reload certificates whose files have changed, so that renewing them needs no signal. Never returns."""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        try:
            await asyncio.to_thread(tls.reload_if_changed)
        except Exception:
            # The task must go on, or the certificates would expire and the log would not tell why.
            log.exception("certificates not checked")


def tls_of(settings: TlsSettings, others: tuple[CertificateSettings, ...] = ()) -> Tls | None:
    """Return the TLS of these settings, or None without a certificate.

    Raises ConfigurationError if a file cannot be used, or settings do not fit together.
    """
    if settings.certificate is not None:
        return Tls(settings, others)
    for name in ("key", "ca"):
        if getattr(settings, name) is not None:
            raise ConfigurationError(f"tls.{name} has no effect without tls.certificate")
    if others:
        raise ConfigurationError("[[certificates]] need a tls.certificate, for clients that send no server name")
    return None


def _load(settings: TlsSettings, others: tuple[CertificateSettings, ...], read: _Read) -> _Loaded:
    """Load all certificates of these settings. Raises ConfigurationError if a file cannot be used."""
    assert settings.certificate is not None
    files = [settings.certificate, settings.key, settings.ca]
    for other in others:
        files += [other.certificate, other.key]
    stamps = {file: stamp(file) for file in files if file is not None}
    pems: dict[Path, bytes] = {}

    def read_once(file: Path) -> bytes:
        if file not in pems:
            pems[file] = read(file)
        return pems[file]

    default = _context(settings, read_once)
    load_pair(default, settings.certificate, settings.key, "tls.", read_once)
    by_name: dict[str, ssl.SSLContext] = {}
    for at, other in enumerate(others):
        context = _context(settings, read_once)
        load_pair(context, other.certificate, other.key, f"certificates[{at}].", read_once)
        for name in other.names:
            by_name[name.lower().rstrip(".")] = context
    size = sum(map(len, pems.values()))
    if size > PEM_MAX_BYTES:
        raise ConfigurationError(
            f"the files of [tls] and [[certificates]] have {size} bytes; {PEM_MAX_BYTES} is the most"
        )
    return _Loaded(settings, others, pems, stamps, default, by_name)


def _context(settings: TlsSettings, read: _Read) -> ssl.SSLContext:
    """Return a context without a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.minimum_version]
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
    if settings.verify == "none":
        return context
    if settings.ca is None:
        raise ConfigurationError(
            f'tls.verify is "{settings.verify}": tls.ca must name the authority of clients\' certificates'
        )
    load_authority(context, settings.ca, "tls.ca", read)
    context.verify_mode = ssl.CERT_REQUIRED if settings.verify == "required" else ssl.CERT_OPTIONAL
    return context


def _common_name(certificate: Mapping[str, Any]) -> str:
    """Return the common name of a certificate; empty if it has none, or several, because they could contradict."""
    names = [str(value) for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    return names[0] if len(names) == 1 else ""


def load_authority(context: ssl.SSLContext, ca: Path, setting: str, read: _Read = Path.read_bytes) -> None:
    """Trust the authorities in a PEM file. Raises ConfigurationError, which names the `setting`."""
    try:
        with _file_with(read(ca)) as file:
            context.load_verify_locations(file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{setting} {ca} cannot be used: {error}") from error


def load_pair(
    context: ssl.SSLContext, certificate: Path, key: Path | None, section: str, read: _Read = Path.read_bytes
) -> None:
    """Present a certificate, whose key is in a file of its own or in the same one.

    Raises ConfigurationError, which names the settings: `section` is what precedes "certificate" and "key".
    """
    try:
        with _file_with(read(certificate)) as chain, _file_with(read(key or certificate)) as private:
            # OpenSSL would ask on the terminal for the password of a key that has one.
            context.load_cert_chain(chain, private, password="")
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{section}certificate {certificate} and {section}key {key or 'in it'} cannot be used: {error}"
        ) from error


@contextmanager
def _file_with(content: bytes) -> Iterator[str]:
    """Return the name of a file with this content, as OpenSSL reads certificates and keys from files only.

    It is in memory, and only processes of this user can open it.
    """
    with os.fdopen(os.memfd_create("flintmq-pem"), "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def stamp(file: Path) -> Stamp | None:
    """Return numbers of a file, of which at least one differs after a change; None if there is no such file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def expiries(file: Path) -> list[Expiry]:
    """Return the end of each certificate in a PEM file. Raises ConfigurationError if the file cannot be read."""
    # Imported here, because it takes as long to load as the rest of a broker and is seldom needed.
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    try:
        found = load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"tls.certificate {file} cannot be read: {error}") from error
    ends = [certificate.not_valid_after_utc for certificate in found]
    return [Expiry(int(end.timestamp() * 1000), end.isoformat(" ", "seconds")) for end in ends]
