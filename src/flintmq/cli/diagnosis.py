"""The checks of `flintmq doctor`, one per function. A finding that is not fine says what to do."""

import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import flintmq
from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.base.limits import RESERVED_DESCRIPTORS
from flintmq.base.plurals import counted
from flintmq.cli.finding import Finding, Verdict
from flintmq.cli.progress import size_in_words
from flintmq.server.addresses import Address, addresses
from flintmq.server.alarms import free_disk, memory_bytes, whole_memory
from flintmq.server.certificates import tls_of
from flintmq.server.config import Settings, TlsSettings
from flintmq.server.oauth.tokens import tokens_of

# With fewer files than this, one busy application may use up all connections.
_FEW_FILES: Final = 1_024 + RESERVED_DESCRIPTORS
# A broker without messages needs about this much memory.
_LITTLE_MEMORY_BYTES: Final = 256_000_000
# Automatic renewal replaces a certificate weeks before this.
_EXPIRES_SOON_DAYS: Final = 14
# Tolerated difference between the clock and the time of the newest file.
_CLOCK_SLACK_SECONDS: Final = 60
_LOCK: Final = "lock"
# The default data directories of `flintmq serve` and of `make run`.
_DEFAULT_DIRECTORIES: Final = ("flintmq-data", "data")
_LOCKS: Final = Path("/proc/locks")


def examine(settings: Settings, file: Path | None, variables: Sequence[str]) -> list[Finding]:
    """Check settings that are already loaded. `variables` are the environment variables that set some of them."""
    return [_settings(file, variables), *_look(settings)]


def _settings(file: Path | None, variables: Sequence[str]) -> Finding:
    source = f"from {file.absolute()}" if file else "defaults, without a file (set one with --config or FLINTMQ_CONFIG)"
    more = f"; from the environment: {', '.join(sorted(variables))}" if variables else ""
    return Finding("settings", "fine", f"{source}{more}; all keys and values are valid")


def _look(settings: Settings) -> Iterator[Finding]:
    for check in (_build, _data, _disk, _open_files, _memory, _ports, _tls, _tokens, _clock, _passwords, _cluster):
        yield from check(settings)


def _build(_settings: Settings) -> Iterator[Finding]:
    version = f"FlintMQ {flintmq.__version__}, Python {sys.version.split()[0]}"
    if flintmq.compiled:
        yield Finding("build", "fine", f"{version}, compiled")
    else:
        yield Finding(
            "build",
            "doubtful",
            f"{version}, interpreted, which is several times slower: install a C compiler, then FlintMQ again",
        )


def _data(settings: Settings) -> Iterator[Finding]:
    from flintmq.app import offline

    directory = settings.storage.directory.absolute()
    there = _nearest(directory)
    if directory.exists() and not directory.is_dir():
        yield Finding("data", "wrong", f"{directory} is not a directory: set another one as storage.directory")
    elif not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("data", "wrong", f"this user cannot write to {there}: change its owner, or run as its owner")
    elif not directory.exists():
        yield _new_data(directory)
    elif holder := _holder(directory):
        yield Finding("data", "fine", f"{directory} is in use by a running broker (process {holder})")
    elif offline.has_lost_definitions(directory):
        text = f"{directory} has messages but no definitions.sqlite: run `flintmq storage verify {directory}`"
        yield Finding("data", "wrong", text)
    else:
        yield Finding("data", "fine", f"{directory} exists; no broker is using it")


def _new_data(directory: Path) -> Finding:
    from flintmq.app import offline

    # `flintmq serve` and `make run` use different directories. A user who mixes them finds an empty broker, which looks
    # like one that has lost everything.
    for name in _DEFAULT_DIRECTORIES:
        other = Path(name).absolute()
        if offline.has_data(other):
            text = (
                f"{directory} will be created, but {other} has messages of another broker (--data {name} serves them)"
            )
            return Finding("data", "doubtful", text)
    return Finding("data", "fine", f"{directory} will be created")


def _nearest(path: Path) -> Path:
    """The path itself or, if it does not exist, the nearest existing directory above it."""
    found = path.absolute()
    while not found.exists():
        found = found.parent
    return found


def _holder(directory: Path) -> str:
    """The process ID of the broker that uses the directory; empty if there is none, or if it cannot be found out.

    The check does not take the lock: a broker that starts at that moment would take `doctor` for another broker.
    """
    try:
        lock = (directory / _LOCK).stat()
        held = [line.split() for line in _LOCKS.read_text().splitlines()]
        if not any(line[1] == "FLOCK" and line[5].rpartition(":")[2] == str(lock.st_ino) for line in held):
            return ""
        return (directory / _LOCK).read_text().strip() or "unknown"
    except OSError:
        return ""


def _disk(settings: Settings) -> Iterator[Finding]:
    place = _nearest(settings.storage.directory)
    free = free_disk(place)
    least = settings.alarms.disk_free_min_bytes
    text = f"{size_in_words(free)} free at {place}; publishers wait below {size_in_words(least)}"
    if free < least:
        yield Finding("disk", "wrong", f"{text}: free some space, or lower alarms.disk_free_min_bytes")
    elif free < least + 2 * settings.storage.segment_bytes:
        yield Finding("disk", "doubtful", f"{text}: this limit is near")
    else:
        yield Finding("disk", "fine", text)


def _open_files(_settings: Settings) -> Iterator[Finding]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    left = most - RESERVED_DESCRIPTORS
    if most == resource.RLIM_INFINITY:
        yield Finding("open files", "fine", "no limit")
    elif left <= 0:
        yield Finding(
            "open files", "wrong", f"{most}, but the storage alone needs {RESERVED_DESCRIPTORS}: raise ulimit -n"
        )
    elif most < _FEW_FILES:
        yield Finding("open files", "doubtful", f"{most:,}, enough for {counted(left, 'connection')}: raise ulimit -n")
    else:
        yield Finding("open files", "fine", f"{most:,}, enough for {counted(left, 'connection')}")


def _memory(settings: Settings) -> Iterator[Finding]:
    whole = whole_memory()
    high = memory_bytes(settings.alarms.memory_high_watermark)
    text = f"{size_in_words(whole)}; publishers wait above {size_in_words(high)}"
    if high > whole:
        yield Finding("memory", "wrong", f"{text}, more than this machine has: lower alarms.memory_high_watermark")
    elif high < _LITTLE_MEMORY_BYTES:
        yield Finding("memory", "doubtful", f"{text}: this is little")
    else:
        yield Finding("memory", "fine", text)


def _ports(settings: Settings) -> Iterator[Finding]:
    holder = _holder(settings.storage.directory)
    try:
        found = [*addresses(settings).values(), *_replication(settings)]
    except ConfigurationError as error:
        yield Finding("port", "wrong", str(error))
        return
    for address in found:
        where = f"{address.what} on {address.host}:{address.port}"
        try:
            address.try_out()
        except FlintError as error:
            if holder:
                yield Finding("port", "fine", f"{where} is in use, most likely by the running broker")
            else:
                yield Finding("port", "wrong", str(error))
        else:
            yield Finding("port", "fine", f"{where} is free")


def _replication(settings: Settings) -> Iterator[Address]:
    """The address for other nodes of the cluster."""
    given = settings.cluster
    if given.name:
        yield Address("other nodes", given.host, given.port, "cluster.port", "cluster.host")


def _tls(settings: Settings) -> Iterator[Finding]:
    try:
        tls = tls_of(settings.tls, settings.certificates)
    except ConfigurationError as error:
        yield Finding("TLS", "wrong", str(error))
        return
    if tls is None:
        verdict: Verdict = "fine" if _is_local(settings.listen.host) else "doubtful"
        yield Finding("TLS", verdict, f"off; connections to {settings.listen.host} are not encrypted")
    else:
        yield _expiry(settings.tls)


def _is_local(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def _expiry(settings: TlsSettings) -> Finding:
    assert settings.certificate is not None
    left = _days_left(settings.certificate)
    text = f"{settings.certificate} is valid for {counted(round(left), 'day')}"
    if left < 0:
        return Finding("TLS", "wrong", f"{settings.certificate} expired {counted(round(-left), 'day')} ago: renew it")
    return Finding("TLS", "doubtful" if left < _EXPIRES_SOON_DAYS else "fine", text)


def _days_left(certificate: Path) -> float:
    from cryptography import x509

    found = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
    return (found.not_valid_after_utc - datetime.now(UTC)).total_seconds() / 86_400


def _tokens(settings: Settings) -> Iterator[Finding]:
    try:
        tokens = tokens_of(settings.oauth)
    except ConfigurationError as error:
        yield Finding("tokens", "wrong", str(error))
        return
    if tokens is None:
        return
    try:
        tokens.keys.read()
    except ConfigurationError as error:
        # The broker starts without the keys and fetches them later; until then, it refuses tokens.
        yield Finding("tokens", "doubtful", str(error))
    else:
        yield Finding("tokens", "fine", f"the keys of {settings.oauth.jwks or settings.oauth.issuer} can be read")


def _clock(settings: Settings) -> Iterator[Finding]:
    """Expiry, retention and offsets by time depend on the clock."""
    newest = _newest(settings.storage.directory)
    behind = newest - time.time()
    if behind > _CLOCK_SLACK_SECONDS:
        text = f"{behind:.0f} s behind the newest file of the data: set the clock, or messages expire late"
        yield Finding("clock", "wrong", text)
    else:
        yield Finding("clock", "fine", datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))


def _newest(directory: Path) -> float:
    found = 0.0
    try:
        for path in directory.rglob("*"):
            found = max(found, path.lstat().st_mtime)
    except OSError:
        # A running broker removes files meanwhile, and this user may lack permission for some.
        return found
    return found


def _passwords(settings: Settings) -> Iterator[Finding]:
    default = settings.default_user
    if default.name == default.password == "guest" and not settings.users and not _is_local(settings.listen.host):
        text = "the only user is guest, who may log in only from this machine: set [[users]] or [default_user]"
        yield Finding("users", "doubtful", text)


def _cluster(settings: Settings) -> Iterator[Finding]:
    if not settings.cluster.name:
        return
    try:
        from flintmq.cli.cluster_diagnosis import examine_cluster
    except ConfigurationError as error:
        # The client of etcd is not installed.
        yield Finding("cluster", "wrong", str(error))
        return
    yield from examine_cluster(settings.cluster, settings.storage.directory.absolute())
