"""The I/O workers of a broker: they are started, started again when they end, and stopped with the broker."""

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, cast, final

import flintmq
from flintmq.base.errors import FlintError
from flintmq.base.limits import LINK_READ_FIRST_SECONDS
from flintmq.server import logs
from flintmq.server.amqp import AmqpServer
from flintmq.server.relay import notes
from flintmq.server.relay.frames import NOTE
from flintmq.server.relay.link import Link
from flintmq.server.relay.notes import Certificates, Listening, Order, Report

# What a worker runs. It finds the package where the broker has found it, and nothing in its working directory.
_PROGRAM: Final = "import sys; sys.path.append(sys.argv[1]); from flintmq.server.relay.worker import main; main()"
_PACKAGES: Final = str(Path(flintmq.__file__).parents[1])
# The buffer of a link in the kernel, in each direction: what several busy clients send in a turn.
_KERNEL_BYTES: Final = 4 * 1024 * 1024
# linux/socket.h: beyond the limit of the system, which root may exceed.
_SO_SNDBUFFORCE: Final = 32
# Starting takes a fifth of a second; a busy machine may take long.
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 5.0
# The wait before a worker is started again: it doubles with each that ends soon.
_FIRST_PAUSE_SECONDS: Final = 0.1
_PAUSE_MAX_SECONDS: Final = 10.0
_SOON_SECONDS: Final = 60.0

log = logs.get_logger()


def io_workers(setting: int | str) -> int:
    """Return the number of I/O workers of a setting: "auto" leaves one processor to the broker."""
    return max(len(os.sched_getaffinity(0)) - 1, 0) if setting == "auto" else int(setting)


@final
class _Worker:
    """One of the workers: its process, and the link to it."""

    def __init__(self, number: int, process: "subprocess.Popen[bytes]", link: Link, started: float) -> None:
        self.number = number
        self.process = process
        self.link = link
        self.started = started
        # Why it did not start: empty once it accepts clients.
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()


@final
class IoWorkers:
    """`count` processes that accept clients of `server`, from the sockets in `listening`.

    `listening` has the listening sockets, each with whether its clients begin with TLS. They stay open while the broker
    runs, so that clients wait when no worker is there for a moment.
    """

    def __init__(self, count: int, server: AmqpServer, listening: list[tuple[socket.socket, bool]]) -> None:
        self._count = count
        self._server = server
        self._listening = listening
        self._loop = asyncio.get_running_loop()
        self._workers: dict[Link, _Worker] = {}
        self._pauses = [_FIRST_PAUSE_SECONDS] * count
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepts = True
        server.schedule.read_first_seconds = LINK_READ_FIRST_SECONDS
        if server.tls is not None:
            server.tls.on_update = self._certificates_changed

    async def start(self) -> None:
        """Start all workers, and return when they accept clients. Raises FlintError if one does not."""
        started = [await self._spawn(number) for number in range(self._count)]
        for worker in started:
            await self._wait_for(worker)
        log.info("I/O workers accept clients", workers=self._count)

    async def _spawn(self, number: int) -> _Worker:
        """Start a worker. Raises FlintError if the system does not let us."""
        try:
            link, process = await self._launch()
        except OSError as error:
            raise FlintError(
                f"I/O worker {number} cannot be started: {error}; server.io_workers = 0 needs none"
            ) from error
        worker = _Worker(number, process, link, self._loop.time())
        self._workers[link] = worker
        self._server.connections.links.append(link)
        accept = tuple(Listening(each.fileno(), is_secure) for each, is_secure in self._listening)
        self._tell(link, Order(accept, self._certificates()))
        return worker

    async def _launch(self) -> "tuple[Link, subprocess.Popen[bytes]]":
        """Start a process that has the other end of a link. Raises OSError if the system does not let us."""
        ours, theirs = socket.socketpair()
        server = self._server
        link = Link(self._loop, server.schedule.request, server.reception.receive, self._on_note, self._on_lost)
        try:
            for each in (ours, theirs):
                _enlarge(each)
            ours.setblocking(False)
            # First the link: a process without one would not learn that it has to end. A shield, because event loops
            # and the socket would both close the descriptor if this was cancelled.
            await asyncio.shield(self._loop.create_unix_connection(lambda: cast(asyncio.Protocol, link), sock=ours))
            inherited = [theirs.fileno(), *(each.fileno() for each, _ in self._listening)]
            arguments = [_PACKAGES, str(theirs.fileno()), str(os.getpid())]
            # By this thread, which lives as long as the broker: the system kills the worker when its thread ends.
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program, which runs on
                [sys.executable, "-P", "-c", _PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=inherited,
            )
        except OSError:
            link.abort()
            raise
        finally:
            theirs.close()
        return link, process

    async def _wait_for(self, worker: _Worker) -> None:
        """Wait until a worker accepts clients. Raises FlintError if it does not."""
        failure = f"not ready within {_START_SECONDS:g} s"
        with suppress(TimeoutError):
            failure = await asyncio.wait_for(asyncio.shield(worker.ready), _START_SECONDS)
        if failure:
            worker.process.kill()
            raise FlintError(
                f"I/O worker {worker.number} did not start: {failure}; with server.io_workers = 0 the broker needs none"
            )

    def _certificates(self) -> Certificates | None:
        tls = self._server.tls
        if tls is None:
            return None
        loaded = tls.loaded
        return Certificates(
            loaded.settings, loaded.others, {str(file): content for file, content in loaded.pems.items()}
        )

    def _tell(self, link: Link, order: Order) -> None:
        link.send(NOTE, 0, notes.encode(order))
        link.flush()

    def _certificates_changed(self) -> None:
        """Let all workers use the certificates that the broker has loaded. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._tell_all, Order(certificates=self._certificates()))

    def _tell_all(self, order: Order) -> None:
        for link in self._workers:
            self._tell(link, order)

    # -- what workers say ---------------------------------------------------------------------------------------

    def _on_note(self, link: Link, payload: bytes) -> None:
        report = notes.report(payload)
        worker = self._workers[link]
        if report.line:
            _log_line(worker.number, report)
        elif not worker.ready.done():
            worker.ready.set_result(report.failure)

    def _on_lost(self, link: Link, reason: str) -> None:
        worker = self._workers.pop(link, None)
        if worker is None:
            # Its process was not started.
            return
        self._server.connections.links.remove(link)
        if not worker.ready.done():
            worker.ready.set_result(reason)
        if self._accepts:
            self._server.gateway.tick.churn.io_workers_ended += 1
            task = self._loop.create_task(self._replace(worker, reason))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _replace(self, worker: _Worker, reason: str) -> None:
        """Start another worker in the place of one that has ended."""
        number = worker.number
        lived = self._loop.time() - worker.started
        status = await self._reap(worker)
        log.warning("I/O worker ended", worker=number, pid=worker.process.pid, status=status, reason=reason)
        if lived > _SOON_SECONDS:
            self._pauses[number] = _FIRST_PAUSE_SECONDS
        another: _Worker | None = None
        while another is None:
            pause = self._pauses[number]
            self._pauses[number] = min(2 * pause, _PAUSE_MAX_SECONDS)
            await asyncio.sleep(pause)
            try:
                another = await self._spawn(number)
            except FlintError as error:
                log.warning("I/O worker not started", worker=number, reason=str(error))
        try:
            # If it ends before, its own replacement follows.
            await self._wait_for(another)
        except FlintError as error:
            log.warning("I/O worker not started", worker=number, reason=str(error))
            return
        log.info("I/O worker started again", worker=number, pid=another.process.pid)

    async def _reap(self, worker: _Worker) -> int:
        """Wait for the end of a process that has lost its link, and return its exit status."""
        worker.process.kill()
        return await self._loop.run_in_executor(None, worker.process.wait)

    # -- the end ------------------------------------------------------------------------------------------------

    def accept_no_more(self) -> None:
        """Accept no more clients; those that are connected stay."""
        self._accepts = False
        for task in self._tasks:
            task.cancel()
        self._tell_all(Order(is_end=True))
        for each, _ in self._listening:
            each.close()

    async def close(self) -> None:
        """End all workers, once everything that was sent is on its way."""
        self.accept_no_more()
        workers = list(self._workers.values())
        for worker in workers:
            worker.link.close()
        deadline = self._loop.time() + _STOP_SECONDS
        for worker in workers:
            left = max(deadline - self._loop.time(), 0.0)
            try:
                await self._loop.run_in_executor(None, worker.process.wait, left)
            except subprocess.TimeoutExpired:
                log.warning("I/O worker killed", worker=worker.number, pid=worker.process.pid)
                await self._reap(worker)


def _log_line(number: int, report: Report) -> None:
    """Write a line of a worker's log."""
    line = dict(report.line)
    event, level = str(line.pop("event", "")), str(line.pop("level", "info"))
    write = log.error if level in ("error", "critical") else log.warning if level == "warning" else log.info
    write(event, worker=number, **{name: value for name, value in line.items() if name != "worker"})


def _enlarge(each: socket.socket) -> None:
    try:
        each.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _KERNEL_BYTES)
    except OSError:
        # As much as the system allows.
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)
