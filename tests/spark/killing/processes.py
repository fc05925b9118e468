"""A driver and what it started, as processes: how each kind is found, and killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

EXECUTOR: Final = "CoarseGrainedExecutorBackend"
# A JVM that has lost its driver, and a Python that has lost its JVM, end by themselves.
GONE_SECONDS: Final = 30.0


class SparkProcess:
    """A driver, with its JVM and executors: `python -m` with these arguments, in a session of its own."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def code(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        """All of it: as if its machine had lost its power."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def close(self) -> None:
        """When this returns, nothing of it writes any more."""
        self.kill()
        self._process.wait()
        deadline = time.monotonic() + GONE_SECONDS
        while self._members("") and time.monotonic() < deadline:
            time.sleep(0.05)
        _kill(self._members(""))
        self._log.close()

    def _members(self, *words: str) -> list[int]:
        """The processes of this driver's session, by what stands in their commands."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                    command = (entry / "cmdline").read_text()
                except (OSError, ValueError):
                    continue
                if session == self._process.pid and command and (not words or any(word in command for word in words)):
                    found.append(int(entry.name))
        return sorted(found)


class Driver(SparkProcess):
    """Runs a job of tests/spark/killing/driver.py."""

    def __init__(self, job: str, directory: Path, options: dict[str, str]) -> None:
        self._running = directory / "running"
        self._running.unlink(missing_ok=True)
        command = ("tests.spark.killing.driver", job, str(directory), json.dumps(options))
        super().__init__(directory / "driver.log", *command)

    @property
    def has_begun(self) -> bool:
        """Its query has."""
        return self._running.exists()

    def kill_jvm(self) -> bool:
        """The driver's heart: executors outlive it for a moment."""
        return _kill(self._members("spark-submit", "PythonGatewayServer") or self._members("SparkSubmit"))

    def kill_executor(self, number: int) -> bool:
        """False when there is none just now."""
        found = self._members(EXECUTOR)
        return _kill(found[number % len(found) :][:1]) if found else False

    def kill_worker(self, number: int) -> bool:
        """A Python of an executor, which reads."""
        found = self._members("pyspark.daemon")
        return _kill(found[number % len(found) :][:1]) if found else False


def _kill(found: list[int]) -> bool:
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return bool(found)
