"""A broker for the time of the demo: the installed FlintMQ, on a free port, with its data in the demo's directory."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

START_SECONDS = 60
STOP_SECONDS = 20


class Server:
    """Runs within a `with` block. `url` is how to reach it."""

    def __init__(self, directory: Path) -> None:
        self.url = ""
        self._directory = directory
        self._log = directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "flintmq.cli", "serve", "--port", "0", "--log-format", "json"]
        # Settings of another broker, if there are some, are not for this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FLINTMQ_")}
        # Its pages would be on a port that another broker may have.
        environment["FLINTMQ_MANAGEMENT_ENABLED"] = "false"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--data", str(self._directory / "broker")],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is the demo's: it ends the broker last.
                start_new_session=True,
            )
        try:
            self.url = self._wait_until_it_listens(self._process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def build(self) -> str:
        """Compiled or interpreted, as it says itself."""
        return next((str(line["build"]) for line in self._lines() if "build" in line), "")

    def _wait_until_it_listens(self, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            for line in self._lines():
                if line["event"] == "listening":
                    return str(line["amqp"]).replace("amqp://", "amqp://guest:guest@") + "/%2f"
            time.sleep(0.05)
        raise SystemExit(f"the broker did not start:\n{self._log.read_text()}")

    def _lines(self) -> list[dict[str, object]]:
        whole = self._log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

    def _stop(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
