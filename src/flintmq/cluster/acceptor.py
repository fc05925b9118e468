"""Accepts connections from other nodes, of which anybody can open some: until one is authenticated, it is bounded."""

import socket
import threading
import time
from collections.abc import Callable
from typing import Final, final

from flintmq.base.addresses import network
from flintmq.base.limits import CLUSTER_UNAUTHENTICATED_MAX
from flintmq.cluster.ports import Link, LinkError, Refusal
from flintmq.server import logs

log = logs.get_logger()

# After an error that is none of a connection, such as too many open files.
_RETRY_SECONDS: Final = 1.0
# A node that is not accepted tries again and again: the log says so once in this time for each address, and for so many
# addresses.
_WARN_SECONDS: Final = 60.0
_WARNED_MAX: Final = 100


@final
class Acceptor:
    """Accepts connections at `bound`, has `link` make one of each, and `serve` on a thread of its own until it returns.

    Each connection has to be authenticated before it is served. If too many wait for that, the one that has waited
    longest is closed: a node of the cluster needs only some milliseconds.
    """

    def __init__(
        self, bound: socket.socket, link: Callable[[socket.socket], Link], serve: Callable[[Link], None]
    ) -> None:
        self._bound = bound
        self._link = link
        self._serve = serve
        # In the order in which they came.
        self._unauthenticated: dict[Link, None] = {}
        self._changed = threading.Condition()
        self._warned: dict[str, float] = {}
        self._is_closed = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._accept, name="flintmq-cluster", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, address = self._bound.accept()
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if self._is_closed.is_set():
                    return
                log.warning("no node can be accepted", reason=error.strerror or str(error))
                self._is_closed.wait(_RETRY_SECONDS)
                continue
            try:
                link = self._link(connection)
            except OSError:
                # It has ended already.
                continue
            self._make_room(link)
            thread = threading.Thread(
                target=self._welcome, args=(link, address[0]), name="flintmq-follower", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                log.warning("no node can be accepted", reason=str(error))
                self._leave(link)
                link.close()

    def _make_room(self, link: Link) -> None:
        with self._changed:
            if len(self._unauthenticated) >= CLUSTER_UNAUTHENTICATED_MAX:
                next(iter(self._unauthenticated)).close()
            while len(self._unauthenticated) >= CLUSTER_UNAUTHENTICATED_MAX:
                self._changed.wait()
            self._unauthenticated[link] = None

    def _welcome(self, link: Link, address: str) -> None:
        try:
            link.authenticate()
        except LinkError as error:
            if isinstance(error, Refusal):
                self._warn(address, str(error))
            link.close()
            return
        finally:
            self._leave(link)
        self._serve(link)

    def _leave(self, link: Link) -> None:
        with self._changed:
            del self._unauthenticated[link]
            self._changed.notify()

    def _warn(self, address: str, reason: str) -> None:
        now = time.monotonic()
        with self._changed:
            self._warned = {each: at for each, at in self._warned.items() if now - at < _WARN_SECONDS}
            if network(address) in self._warned or len(self._warned) >= _WARNED_MAX:
                return
            self._warned[network(address)] = now
        log.warning("node refused", address=address, reason=reason)

    def close(self) -> None:
        """Accept nothing more, and close what is not authenticated yet."""
        self._is_closed.set()
        with self._changed:
            for link in self._unauthenticated:
                link.close()
