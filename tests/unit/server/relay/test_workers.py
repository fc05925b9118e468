"""Workers are started until there are as many as there should be, whatever the system refuses meanwhile."""

import asyncio
import errno
import os
import socket
import subprocess
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flintmq.broker.counters.churn import Churn
from flintmq.server.amqp import AmqpServer
from flintmq.server.relay import workers
from flintmq.server.relay.workers import IoWorkers
from tests.waiting import WAIT_SECONDS


class Process:
    """A worker's process, which holds its end of the link until it is killed."""

    def __init__(self, _arguments: list[str], *, pass_fds: list[int], **_: object) -> None:
        self.pid = 4711
        self.end: int | None = os.dup(pass_fds[0])
        # A hung process does not end with its link; waiting for it takes time of this clock.
        self.is_hung = False
        self.clock = Clock()

    def kill(self) -> None:
        self.is_hung = False
        if self.end is not None:
            os.close(self.end)
            self.end = None

    def wait(self, timeout: float | None = None) -> int:
        if self.is_hung:
            assert timeout is not None
            self.clock.now += timeout
            raise subprocess.TimeoutExpired([], timeout)
        assert self.end is None
        return -9


class Clock:
    """A time that passes only while something waits for a hung process."""

    def __init__(self) -> None:
        self.now = 0.0


class Failing:
    """A call to the system that fails a number of times before it does what it should."""

    def __init__(self, times: int, call: Callable[..., Any]) -> None:
        self.left = times
        self._call = call

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - those of the call
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._call(*arguments, **named)


class Log:
    """The events of the log, and their facts."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **facts: object) -> None:
        self.lines.append((event, facts))

    warning = info

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.lines]


@pytest.fixture(autouse=True)
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", Process)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()
    monkeypatch.setattr(workers, "log", log)
    return log


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for, of which none takes any time."""
    asked: list[float] = []
    sleep = asyncio.sleep

    async def at_once(seconds: float) -> None:
        asked.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", at_once)
    return asked


class Broker:
    """What workers need of one."""

    def __init__(self) -> None:
        self.schedule = SimpleNamespace(read_first_seconds=0.0, request=lambda: None)
        self.connections = SimpleNamespace(links=[])
        self.reception = SimpleNamespace(receive=lambda *_: None)
        self.tls = None
        self.churn = Churn()
        self.gateway = SimpleNamespace(tick=SimpleNamespace(churn=self.churn))

    def workers(self, count: int = 1) -> IoWorkers:
        return IoWorkers(count, cast(AmqpServer, self), [])


def run(work: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        await asyncio.wait_for(work, WAIT_SECONDS)

    asyncio.run(in_time())


async def replaced(io: IoWorkers, before: workers._Worker) -> workers._Worker:
    """Let a worker end, and return the one that takes its place."""
    before.process.kill()
    while before.link in io._workers or not io._workers:
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    (another,) = io._workers.values()
    another.ready.set_result("")
    await asyncio.gather(*io._tasks)
    return another


@pytest.fixture(params=["socketpair", "connect", "Popen"])
def fail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let one of the calls that starting a worker takes fail so many times."""

    def fail(times: int) -> None:
        loop = asyncio.get_running_loop()
        where, name = {
            "socketpair": (socket, "socketpair"),
            "connect": (loop, "create_unix_connection"),
            "Popen": (subprocess, "Popen"),
        }[request.param]
        monkeypatch.setattr(where, name, Failing(times, getattr(where, name)))

    return fail


@pytest.mark.usefixtures("pauses")
def test_what_fails_for_a_while(fail: Callable[[int], None], log: Log) -> None:
    """A worker is replaced as soon as the system has what that takes, and nothing is left of the attempts before."""

    async def replace() -> None:
        broker = Broker()
        io = broker.workers()
        before = await io._spawn(0)
        fail(3)
        another = await replaced(io, before)
        assert broker.connections.links == [another.link]
        assert broker.churn.io_workers_ended == 1
        assert log.events.count("I/O worker not started") == 3
        assert log.events[-1] == "I/O worker started again"
        another.process.kill()

    run(replace())


def test_pauses_grow(fail: Callable[[int], None], pauses: list[float], log: Log) -> None:
    """Between attempts up to ten seconds, also for a worker that had lived for long; its end is told once."""

    async def replace() -> None:
        io = Broker().workers()
        before = await io._spawn(0)
        before.started -= 1000.0
        fail(9)
        (await replaced(io, before)).process.kill()
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]
        assert log.events.count("I/O worker ended") == 1

    run(replace())


def test_hung_workers_are_waited_for_together(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, the broker stops after the time for one of them."""

    async def stop() -> None:
        io = Broker().workers()
        clock = Clock()
        processes = [cast(Process, (await io._spawn(number)).process) for number in range(5)]
        for process in processes:
            process.is_hung, process.clock = True, clock
        monkeypatch.setattr(io._loop, "time", lambda: clock.now)
        await io.close()
        assert clock.now == workers._STOP_SECONDS
        assert all(process.end is None for process in processes)
        assert log.events.count("I/O worker killed") == 5

    run(stop())


@pytest.mark.usefixtures("log", "pauses")
def test_a_stop_while_a_worker_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not started any more, so that nothing has to wait for its end."""

    async def stop() -> None:
        io = Broker().workers()
        before = await io._spawn(0)
        loop = asyncio.get_running_loop()
        connect = loop.create_unix_connection
        begun = asyncio.Event()
        started: list[object] = []

        async def begin(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - those of the call
            begun.set()
            return await connect(*arguments, **named)

        monkeypatch.setattr(loop, "create_unix_connection", begin)
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: started.append(None))
        before.process.kill()
        await begun.wait()
        await io.close()
        assert not io._workers
        assert not started

    run(stop())
