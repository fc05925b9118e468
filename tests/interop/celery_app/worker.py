"""A Celery worker as its users run it: a process with a pool of processes or threads, stopped or killed at will."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

ROOT: Final = Path(__file__).parents[3]
READY_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0


class WorkerProcess:
    """A context in which a worker serves `queues`. `variables` say where: INTEROP_BROKER and so on."""

    def __init__(self, pool: str, variables: dict[str, str], queues: str = "tasks", concurrency: int = 2) -> None:
        self._command = [sys.executable, "-m", "celery", "-A", "tests.interop.celery_app.app", "worker"]
        self._command += [f"--pool={pool}", f"--concurrency={concurrency}", f"--queues={queues}", "--loglevel=INFO"]
        self._command += [f"--hostname={pool}-{queues}@%h"]
        self._environment = os.environ | variables
        self._said: list[str] = []
        self._heard = threading.Condition()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def start(self) -> None:
        """Start, and return once it consumes."""
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            self._command,
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A group of its own: killed with the processes of its pool.
            start_new_session=True,
        )
        self._said = []
        threading.Thread(target=self._listen, args=(self._process, self._said), daemon=True).start()
        self.wait_for(" ready.")

    def stop(self, finish: Callable[[], object] | None = None) -> None:
        """SIGTERM: it finishes what runs, and takes no more. What runs may wait for `finish`."""
        assert self._process is not None
        self._process.terminate()
        if finish is not None:
            self.wait_for("Warm shutdown")
            finish()
        assert self._process.wait(STOP_SECONDS) == 0, "\n".join(self._said[-40:])

    def kill(self) -> None:
        """SIGKILL for it and its pool: nothing is finished, nothing acknowledged."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STOP_SECONDS)

    def wait_for(self, text: str) -> None:
        """Return once it has said this."""
        deadline = time.monotonic() + READY_SECONDS
        with self._heard:
            while not any(text in line for line in self._said):
                assert self._process is not None
                said = "\n".join(self._said[-40:])
                assert self._process.poll() is None, f"the worker ended:\n{said}"
                assert time.monotonic() < deadline, f"the worker did not say {text!r}:\n{said}"
                self._heard.wait(0.2)

    def _listen(self, process: "subprocess.Popen[str]", said: list[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with self._heard:
                    said.append(line.rstrip("\n"))
                    self._heard.notify_all()
