"""Checks of the settings of a cluster: what must be set together, and what would let strangers in."""

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from flintmq.base.addresses import is_loopback
from flintmq.base.errors import ConfigurationError

if TYPE_CHECKING:
    from flintmq.server.config import ClusterSettings

# Whoever can reach a node may try secrets one after the other, and whoever it connects to may do so without it.
SECRET_MIN_CHARACTERS: Final = 16
_PORT_MAX: Final = 65_535


def check_cluster(settings: "ClusterSettings") -> None:
    """Raises ConfigurationError if settings of a cluster are wrong, or do not fit together."""
    _check_names(settings)
    _check_secret(settings)
    _check_certificates(settings)
    _check_etcd(settings)


def _check_names(settings: "ClusterSettings") -> None:
    for key, name in {"cluster.name": settings.name, "cluster.node": settings.node}.items():
        if "/" in name:
            raise ConfigurationError(f"{key} {name!r} has a slash, which separates names in etcd: choose another name")


def _check_secret(settings: "ClusterSettings") -> None:
    secret = settings.secret
    if secret and not secret.isprintable():
        raise ConfigurationError(
            "cluster.secret has characters that cannot be printed, such as a line end: remove them"
        )
    if secret and len(secret) < SECRET_MIN_CHARACTERS:
        raise ConfigurationError(
            f"cluster.secret has {len(secret)} characters: choose one of at least {SECRET_MIN_CHARACTERS}, such as "
            "`openssl rand -base64 24` prints"
        )
    hosts = {"cluster.host": settings.host}
    if settings.address:
        hosts["cluster.address"] = _host_of(settings.address)
    elif _is_every_address(settings.host):
        raise ConfigurationError(
            f"cluster.host {settings.host} stands for all addresses of this machine: set cluster.address to the one at "
            "which other nodes reach it (host:port)"
        )
    for key, host in hosts.items():
        if not secret and host != "localhost" and not is_loopback(host):
            raise ConfigurationError(
                f"{key} {host} is not a loopback address: set cluster.secret, of at least {SECRET_MIN_CHARACTERS} "
                "characters, to the same text on all nodes"
            )


def _host_of(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) <= _PORT_MAX) or _is_every_address(host):
        raise ConfigurationError(
            f"cluster.address {address!r} is not an address at which other nodes can reach this one, such as "
            "node-1.example.org:5670"
        )
    return host.removeprefix("[").removesuffix("]")


def _is_every_address(host: str) -> bool:
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")).is_unspecified
    except ValueError:
        return False


def _check_certificates(settings: "ClusterSettings") -> None:
    if settings.certificate is not None and settings.ca is None:
        raise ConfigurationError(
            "cluster.ca: name the file with the authority that has signed the certificates of all nodes, "
            "because cluster.certificate is set"
        )
    for name in ("key", "ca"):
        if getattr(settings, name) is not None and settings.certificate is None:
            raise ConfigurationError(f"cluster.{name} has no effect without cluster.certificate")


def _check_etcd(settings: "ClusterSettings") -> None:
    schemes = {_scheme_of(url) for url in settings.etcd.split()}
    if not schemes:
        raise ConfigurationError("cluster.etcd: name at least one URL, such as http://127.0.0.1:2379")
    for name in ("etcd_ca", "etcd_certificate"):
        if getattr(settings, name) is not None and "http" in schemes:
            raise ConfigurationError(f"cluster.{name} has no effect with http: write https:// URLs in cluster.etcd")
    if settings.etcd_key is not None and settings.etcd_certificate is None:
        raise ConfigurationError("cluster.etcd_key has no effect without cluster.etcd_certificate")
    if settings.etcd_user and not settings.etcd_password:
        raise ConfigurationError(f"cluster.etcd_password: set the password of {settings.etcd_user!r} in etcd")
    if settings.etcd_password and not settings.etcd_user:
        raise ConfigurationError("cluster.etcd_user: name the user in etcd whose password cluster.etcd_password is")


def _scheme_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError(f"cluster.etcd {url!r} is not a URL: {error}") from error
    if "@" in parts.netloc:
        # It may have a password, which is not to be shown.
        raise ConfigurationError(
            "cluster.etcd has a URL with a user: set cluster.etcd_user and cluster.etcd_password instead"
        )
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(
            f"cluster.etcd {url!r} is not a URL: it begins with http:// or https://, and has a host"
        )
    return parts.scheme
