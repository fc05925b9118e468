"""A broker as its users run it: a process of its own, reached over sockets, killed and started again at will."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.waiting import WAIT_SECONDS

# Generous: a machine that builds and tests at once may be slow, and only a failure waits for it.
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0

# With TEST_IO_WORKERS=1 in the environment, brokers have one I/O worker, so that any suite can run through it.
_IO_WORKERS: Final = os.environ.get("TEST_IO_WORKERS")

# Where the HTTP API listens: brokers of several tests run at once.
_FREE_PORTS: Final = {"FLINTMQ_MANAGEMENT_PORT": "0", "FLINTMQ_MANAGEMENT_TLS_PORT": "0"}

# One line of the log: "event", "level", and the facts of the event.
LogLine = dict[str, Any]


def command(*arguments: str, python: str = sys.executable) -> list[str]:
    """`flintmq` with these arguments, as installed (or found) for this interpreter: the one that runs the tests."""
    return [python, "-m", "flintmq.cli", *arguments]


# Below those that the system gives to whoever asks for any. Processes of tests have numbers that follow each other, and
# each begins with a hundred ports of its own.
_PORTS: Final = range(20_000, 30_000)
_PORT_NUMBERS: Final = itertools.count(os.getpid() * 100)


def free_port() -> int:
    """A port that no other call in this process returns: neither another test nor the system takes it meanwhile."""
    for number in itertools.islice(_PORT_NUMBERS, len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", _PORTS[number % len(_PORTS)]))
            return _PORTS[number % len(_PORTS)]
    raise AssertionError("no port is free")


def environment(**settings: str) -> dict[str, str]:
    """This process's environment without settings of a broker that happen to be in it, and with these."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith("FLINTMQ_")}
    return {**rest, **_FREE_PORTS, **settings}


class BrokerProcess:
    """`flintmq serve` on a free port, another one at each start, unless FLINTMQ_LISTEN_PORT is one to come back on.

    `arguments` are further flags; `settings` are variables, FLINTMQ_... and all; `wrapper` is a command to run it by.
    `python` is the interpreter for which FlintMQ is installed; it may be another one at the next start.
    """

    def __init__(self, data: Path, *arguments: str, wrapper: tuple[str, ...] = (), **settings: str) -> None:
        self.data = data
        self.port = 0
        self.python = sys.executable
        port = settings.pop("FLINTMQ_LISTEN_PORT", "0")
        self._wrapper = wrapper
        self._arguments = ("serve", "--data", str(data), "--log-format", "json", *arguments, "--port", port)
        if _IO_WORKERS is not None:
            settings.setdefault("FLINTMQ_SERVER_IO_WORKERS", _IO_WORKERS)
        self._environment = environment(**settings)
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._log: list[LogLine] = []
        self._logged = threading.Condition()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # Nobody else would end it, and it may have a port that others need.
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- life ---------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start the process without waiting for it. The log of an earlier one is forgotten."""
        assert not self.is_running, "the broker runs already"
        self._log = []
        # Where the interpreter that runs the tests finds packages, another one does not look.
        other = {} if self.python == sys.executable else {"PYTHONPATH": ""}
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [*self._wrapper, *command(*self._arguments, python=self.python)],
            env={**self._environment, **other},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read_log, args=(self._process, self._log), daemon=True)
        self._reader.start()

    def start(self) -> None:
        """Start, and return once it listens."""
        self.launch()
        line = self.wait_for_log("listening", timeout=START_SECONDS)
        self.port = int(line["amqp"].rpartition(":")[2])

    def kill(self) -> None:
        """SIGKILL: no chance to end anything in order."""
        self.process.kill()
        self.ended()

    def stand_still(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after at least so long: as a machine does that is suspended or moved."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self.process.terminate()
        return self.ended()

    def restart(self) -> None:
        """Stop in order, and start again: on another port, unless it has one to come back on."""
        self.stop()
        self.start()

    def close(self) -> None:
        """End the process if it still runs, however it feels about it."""
        if self.is_running:
            self.process.send_signal(signal.SIGCONT)
            self.kill()

    def ended(self) -> int:
        """Its exit code, as soon as it has one; no fault of its own may stand in its log."""
        code = self.process.wait(STOP_SECONDS)
        assert self._reader is not None
        self._reader.join(STOP_SECONDS)
        assert not self.faults, self.faults
        return code

    @property
    def process(self) -> "subprocess.Popen[str]":
        assert self._process is not None, "the broker was not started"
        return self._process

    @property
    def workers(self) -> list[int]:
        """The process ids of its I/O workers."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            # A thread may end meanwhile.
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (task / "children").read_text().split())
        return found

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2f"

    @property
    def tls_port(self) -> int:
        """The listener for TLS; waits for it."""
        line = self.wait_for_log("listening", matches=lambda line: "amqps" in line)
        return int(line["amqps"].rpartition(":")[2])

    @property
    def http_port(self) -> int:
        """Where the HTTP API is, which listens a little later than the broker; waits for it."""
        line = self.wait_for_log("listening", matches=lambda line: "http" in line)
        return int(line["http"].rpartition(":")[2])

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    # -- what it says -------------------------------------------------------------------------------------------

    @property
    def log(self) -> list[LogLine]:
        with self._logged:
            return list(self._log)

    @property
    def faults(self) -> list[LogLine]:
        """Exceptions that nobody expected: whatever clients send, there are none."""
        return [line for line in self.log if line["event"].startswith("internal error")]

    @property
    def complaints(self) -> list[LogLine]:
        """Warnings and errors. Stalls of its event loop are none: they say how busy the machine is."""
        quiet = ("debug", "info")
        return [line for line in self.log if line.get("level") not in quiet and line["event"] != "event loop stalled"]

    def wait_for_log(
        self,
        event: str,
        timeout: float = WAIT_SECONDS,
        matches: Callable[[LogLine], bool] | None = None,
        **facts: object,
    ) -> LogLine:
        """The first line of this event that has these facts; waits until there is one."""
        deadline = time.monotonic() + timeout
        with self._logged:
            while True:
                for line in self._log:
                    if line["event"] == event and facts.items() <= line.items() and (not matches or matches(line)):
                        return line
                left = deadline - time.monotonic()
                ended = self._reader is not None and not self._reader.is_alive()
                if left <= 0 or ended:
                    said = "\n".join(map(str, self._log[-40:]))
                    why = "the broker ended" if ended else f"not within {timeout:g} s"
                    raise AssertionError(f"no log line {event!r} with {facts}: {why}. It said:\n{said}")
                self._logged.wait(min(left, 0.5))

    def _read_log(self, process: "subprocess.Popen[str]", log: list[LogLine]) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for text in lines:
                try:
                    line = json.loads(text)
                except ValueError:
                    line = {"event": text.rstrip("\n")}
                with self._logged:
                    log.append(line)
                    self._logged.notify_all()
