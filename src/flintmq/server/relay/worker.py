"""An I/O worker: a process that accepts clients, does their TLS, and relays their bytes over a link to the broker.

It ends when the link does. Signals that stop or reload a broker may reach all processes of a terminal or a service, and
are the broker's alone.
"""

import asyncio
import ctypes
import gc
import os
import signal
import socket
import sys
from typing import Final, cast, final

import uvloop

from flintmq.base.errors import FlintError
from flintmq.server import logs
from flintmq.server.acceptor import Acceptor
from flintmq.server.certificates import Tls
from flintmq.server.relay import notes
from flintmq.server.relay.client import Clients
from flintmq.server.relay.frames import NOTE
from flintmq.server.relay.link import Link, refuse
from flintmq.server.relay.notes import Order, Report

# linux/prctl.h: the signal for the end of the parent, and the name of the process.
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_NAME: Final = b"flintmq-io"
# Objects of connections have cycles, and those of messages have none.
_GC_THRESHOLDS: Final = (20_000, 20, 100)

log = logs.get_logger()


@final
class Worker:
    """The worker of this process. `run` returns when the link has ended."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tls: Tls | None = None
        self._acceptors: list[Acceptor] = []
        self._ended = asyncio.Event()
        self.link = Link(self._loop, self._wake, refuse, self._on_note, self._on_lost)
        self.link.on_room = self._go_on
        self._clients = Clients(self._loop, self.link, lambda: self._tls)
        logs.send_to("info", lambda line: self._report(Report(line=dict(line))))

    async def run(self, link: socket.socket) -> None:
        await self._loop.create_unix_connection(lambda: cast(asyncio.Protocol, self.link), sock=link)
        await self._ended.wait()

    def _wake(self) -> None:
        self._loop.call_soon(self.link.flush)

    def _report(self, report: Report) -> None:
        self.link.send(NOTE, 0, notes.encode(report))

    def _on_note(self, _link: Link, payload: bytes) -> None:
        try:
            self._obey(notes.order(payload))
        except FlintError as error:
            if self._acceptors:
                log.warning("certificates stay as they were", reason=str(error))
            else:
                self._report(Report(failure=str(error)))

    def _obey(self, order: Order) -> None:
        """Do what the broker says. Raises FlintError if that is not possible."""
        if order.certificates is not None:
            given = order.certificates
            tls = Tls(given.settings, given.others, lambda file: given.pems[str(file)])
            if self._tls is None:
                self._tls = tls
            else:
                self._tls.become(tls)
        for is_secure in (False, True):
            found = [socket.socket(fileno=each.descriptor) for each in order.accept if each.is_secure is is_secure]
            if found:
                acceptor = Acceptor(self._clients.of("amqp/ssl" if is_secure else "amqp"), self.link.room)
                acceptor.accept_from(found)
                self._acceptors.append(acceptor)
        if order.accept:
            gc.collect()
            gc.freeze()
            gc.set_threshold(*_GC_THRESHOLDS)
            self._report(Report())
        if order.is_end:
            for acceptor in self._acceptors:
                acceptor.close()

    def _go_on(self) -> None:
        for acceptor in self._acceptors:
            acceptor.go_on()

    def _on_lost(self, _link: Link, _reason: str) -> None:
        # Clients learn of it by the end of their sockets, which the system closes with the process.
        self._ended.set()
        os._exit(0)


def _end_with(parent: int) -> None:
    """Let the system kill this process when its parent ends, however that happens."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NAME, _NAME, 0, 0, 0)
    if os.getppid() != parent:
        # It ended before.
        sys.exit(0)


async def _work(link: socket.socket) -> None:
    await Worker().run(link)


def main() -> None:
    """Run a worker. The last two arguments are the descriptor of the link and the process id of the broker."""
    descriptor, parent = int(sys.argv[-2]), int(sys.argv[-1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _end_with(parent)
    uvloop.run(_work(socket.socket(fileno=descriptor)))
