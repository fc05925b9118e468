"""Reception: the broker's side of clients that the other ends of links have accepted."""

import asyncio
import json
from collections.abc import Callable
from typing import Final, Protocol, cast, final

from flintmq.base.errors import ConnectionLost
from flintmq.server.peer import Peer
from flintmq.server.relay.link import Channel, Link
from flintmq.server.relay.transport import Receiver, RelayedTransport

# The listeners of the HTTP API, by their names in `server/addresses.py`.
_HTTP: Final = ("http", "https")
# The most bytes that the HTTP API gets at once.
_HTTP_READ_MAX_BYTES: Final = 64 * 1024


class HttpProtocol(Protocol):
    """A connection of the HTTP API: methods of `asyncio.Protocol`, and what else is told of its client."""

    def connection_made(self, transport: asyncio.Transport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def secured(self) -> None:
        """The client speaks TLS, which ends elsewhere."""


@final
class Reception:
    """Makes a peer for each client that the other end of a link has accepted. `protocol` makes peers for AMQP."""

    def __init__(self, protocol: Callable[[], Peer]) -> None:
        self.http: Callable[[], HttpProtocol] | None = None
        """Makes the protocols of connections of the HTTP API; None while there is no API."""
        self.is_closed = False
        """Whether no more clients are received."""
        self._protocol = protocol

    def receive(self, link: Link, number: int, payload: bytes) -> Channel | None:
        """Return the broker's end of a new channel, or None to refuse its client. For `accept` of a link."""
        if self.is_closed:
            return None
        opened = json.loads(payload)
        peername, sockname = _address(opened["peer"]), _address(opened["local"])
        if opened["listener"] in _HTTP:
            return None if self.http is None else _begin_http(self.http(), link, number, peername, sockname)
        peer = self._protocol()
        transport = RelayedTransport(link, number, peer, peername, sockname)
        peer.relayed_by(transport)
        return transport


def _begin_http(protocol: HttpProtocol, link: Link, number: int, peername: object, sockname: object) -> Channel:
    # Without the socket, uvicorn knows addresses of two parts only, and those of IPv6 have four.
    peername, sockname = (each[:2] if isinstance(each, tuple) else each for each in (peername, sockname))
    receiver = _HttpReceiver(protocol)
    receiver.transport = transport = RelayedTransport(link, number, receiver, peername, sockname)
    protocol.connection_made(cast(asyncio.Transport, transport))
    # The API has limits of its own before a login, and its clients need no turn for each piece of a request.
    transport.widen()
    return transport


@final
class _HttpReceiver(Receiver):
    """Gives what comes from a relayed socket to a connection of the HTTP API."""

    def __init__(self, protocol: HttpProtocol) -> None:
        self.transport: RelayedTransport | None = None
        self._protocol = protocol

    def read_max(self) -> int:
        return _HTTP_READ_MAX_BYTES

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def secured(self, certificate: bytes) -> None:
        self._protocol.secured()

    def refused(self, error: ConnectionLost) -> None:
        if self.transport is not None:
            self.transport.close()


def _address(found: object) -> object:
    """Return an address as `get_extra_info` does: JSON has lists for tuples."""
    return tuple(found) if isinstance(found, list) else found
