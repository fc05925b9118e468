"""Notes between the broker and its I/O workers, or other nodes, as JSON on channel 0 of their link."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from flintmq import __version__
from flintmq.base.errors import FlintError
from flintmq.server.config import CertificateSettings, TlsSettings

# The note of another node of the cluster: it can answer fetches of streams.
ANSWERS_FETCHES: Final = b'{"answers": "fetches"}'


@dataclass(frozen=True)
class Listening:
    """A listening socket that the worker inherits. `is_secure`: its clients begin with TLS."""

    descriptor: int
    is_secure: bool


@dataclass(frozen=True)
class Certificates:
    """The TLS of all listeners, and the contents of the files by their names.

    A worker gets what the broker has loaded, and reads no file: otherwise they could have different certificates, and a
    worker could not be replaced while a file is half written.
    """

    settings: TlsSettings
    others: tuple[CertificateSettings, ...]
    pems: dict[str, bytes]


@dataclass(frozen=True)
class Order:
    """What the broker tells a worker: to `accept` clients, to load `certificates`, or to accept no more clients.

    `version` is that of the broker.
    """

    accept: tuple[Listening, ...] = ()
    certificates: Certificates | None = None
    is_end: bool = False
    version: str = __version__


@dataclass(frozen=True)
class _Head:
    """What can be read in an order of any version."""

    version: str = "unknown"


@dataclass(frozen=True)
class Report:
    """What a worker tells the broker: a line for the log, or whether it accepts clients; `failure` is why it cannot."""

    failure: str = ""
    line: dict[str, Any] = field(default_factory=dict)


def _path(wanted: type, value: object) -> object:
    assert wanted is Path
    return Path(str(value))


_HEADS: Final = msgspec.json.Decoder(_Head)
_ORDERS: Final = msgspec.json.Decoder(Order, dec_hook=_path)
_REPORTS: Final = msgspec.json.Decoder(Report)


def encode(note: Order | Report) -> bytes:
    """Return a note as JSON. Paths become text, and so does everything in a line of the log that JSON does not know."""
    return msgspec.json.encode(note, enc_hook=str)


def order(payload: bytes) -> Order:
    """Read an order. Raises FlintError if the broker has another version: the package was replaced while it runs."""
    version = _HEADS.decode(payload).version
    if version != __version__:
        raise FlintError(f"version {__version__} is installed, and the broker is version {version}: restart the broker")
    return _ORDERS.decode(payload)


def report(payload: bytes) -> Report:
    return _REPORTS.decode(payload)
