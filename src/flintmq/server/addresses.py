"""The addresses on which a broker listens, according to its settings, and a check that it can."""

import asyncio
import errno
import socket
from dataclasses import dataclass
from itertools import combinations

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.server.acceptor import listening_sockets
from flintmq.server.config import Settings


@dataclass(frozen=True)
class Address:
    """An address to listen on. `what` is the protocol; `port_setting` and `host_setting` name the settings of it."""

    what: str
    host: str
    port: int
    port_setting: str
    host_setting: str

    def try_out(self) -> None:
        """Check that the broker can listen here, without accepting clients. Raises FlintError if it cannot."""
        try:
            # The options are those of the listener: all addresses of a name, even if old connections linger on them.
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in dict.fromkeys(found):
                _bind(family, kind, protocol, address)
        except OSError as error:
            raise self.refused(error) from error

    async def listen(self) -> list[socket.socket]:
        """Return sockets that listen here. Raises FlintError if the system does not allow that."""
        try:
            return await listening_sockets(asyncio.get_running_loop(), self.host, self.port)
        except OSError as error:
            raise self.refused(error) from error

    def refused(self, error: OSError) -> FlintError:
        if error.errno == errno.EADDRINUSE:
            advice = (
                "another program listens there, perhaps a broker (ss -ltnp tells). Stop it, or choose another port "
                f"with {self.port_setting}"
            )
        elif error.errno == errno.EACCES:
            advice = f"this user may not listen on such a port. Choose one above 1023 with {self.port_setting}"
        else:
            advice = f"choose an address of this machine with {self.host_setting}"
        return FlintError(
            f"cannot listen on {self.host}:{self.port} ({error.strerror or error}) for {self.what}: {advice}"
        )


def _bind(family: int, kind: int, protocol: int, address: object) -> None:
    try:
        probe = socket.socket(family, kind, protocol)
    except OSError:
        # A name can have an IPv6 address although the system has no IPv6. That address is left out.
        return
    with probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind(address)  # type: ignore[arg-type] # as the system gave it


def addresses(settings: Settings) -> dict[str, Address]:
    """Return the addresses by their names in the HTTP API. Raises ConfigurationError if two of them are equal."""
    listen, management, tls = settings.listen, settings.management, settings.tls
    is_secured = tls.certificate is not None
    host_setting = "listen.host (--host)"
    found = {"amqp": Address("AMQP", listen.host, listen.port, "listen.port (--port)", host_setting)}
    if is_secured:
        found["amqp/ssl"] = Address("AMQP by TLS", listen.host, tls.port, "tls.port", host_setting)
    if management.enabled:
        found["http"] = Address("HTTP", management.host, management.port, "management.port", "management.host")
        if is_secured:
            found["https"] = Address(
                "HTTPS", management.host, management.tls_port, "management.tls_port", "management.host"
            )
    for one, other in combinations(found.values(), 2):
        if one.port and (one.host, one.port) == (other.host, other.port):
            raise ConfigurationError(
                f"{one.what} and {other.what} are both to listen on {one.host}:{one.port}: choose another port with "
                f"{one.port_setting} or {other.port_setting}"
            )
    return found
