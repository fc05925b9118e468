"""When certificates end, for those who ask in time."""

from dataclasses import dataclass
from pathlib import Path

from flintmq.base.errors import ConfigurationError


@dataclass(frozen=True)
class Expiry:
    """The end of a certificate, in Unix time and in words."""

    expires_ms: int
    expires_on: str


def expiries(file: Path) -> list[Expiry]:
    """Of each certificate in a PEM file. Raises ConfigurationError."""
    # It takes as long to load as the rest of a broker, and few ask.
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    try:
        found = load_pem_x509_certificates(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"tls.certificate {file} cannot be read: {error}") from error
    ends = [certificate.not_valid_after_utc for certificate in found]
    return [Expiry(int(end.timestamp() * 1000), end.isoformat(" ", "seconds")) for end in ends]
