"""What every example needs: a broker of its own, a directory that goes afterwards, flights, and the command."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import nycdata
from rich.console import Console
from rich.table import Table

import flintmq.client as fc

HERE = Path(__file__).parent
START_SECONDS = 60
STOP_SECONDS = 20


class Stage:
    """`channel` is one to the broker, with confirms; pipelines find it by the variable FLINTMQ_URL."""

    def __init__(self, directory: Path, url: str, channel: fc.Channel) -> None:
        self.directory = directory
        self.channel = channel
        # As wide wherever it runs, so that what is printed can be compared.
        self.console = Console(width=100, highlight=False)
        self._environment = {**os.environ, "FLINTMQ_URL": url}

    def stream(self, name: str) -> None:
        self.channel.declare_queue(name, arguments={"x-queue-type": "stream"})

    def queue_of(self, exchange: str, routing_key: str = "#") -> str:
        """An exchange, and a queue of what comes to it."""
        self.channel.declare_exchange(exchange, type="topic")
        queue = f"{exchange}.all"
        self.channel.declare_queue(queue)
        self.channel.bind(queue, exchange, routing_key)
        return queue

    def publish_flights(self, queue: str, count: int) -> list[nycdata.Row]:
        """The first flights of 2013, as JSON."""
        flights = nycdata.rows("flights", count)
        self.publish(queue, flights)
        return flights

    def publish(self, queue: str, rows: Iterable[nycdata.Row], expiration: str | None = None) -> None:
        properties = fc.encode_properties(
            fc.Properties(content_type="application/json", delivery_mode=2, expiration=expiration)
        )
        self.channel.publish_batch([("", queue, json.dumps(row).encode(), properties) for row in rows])

    def run(self, file: str, *arguments: str) -> None:
        """`flintmq pipeline run`: the definition is copied, since its lake and its checkpoints stand beside it."""
        shutil.copy(HERE / file, self.directory)
        command = [sys.executable, "-m", "flintmq.cli", "pipeline", "run", str(self.directory / file), "--json"]
        done = subprocess.run(
            [*command, "--available-now", *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.returncode)
        for flow in json.loads(done.stdout)["flows"]:
            self.console.print(f"{flow['name']}: {flow['state']}, {flow['rows']:,} rows")

    def taken(self, queue: str) -> list[nycdata.Row]:
        """All messages of a queue, decoded."""
        found: list[nycdata.Row] = []
        while (message := self.channel.get(queue, no_ack=True)) is not None:
            found.append(json.loads(message.body))
        return found

    def table(self, title: str, rows: Iterable[tuple[object, ...]], *headings: str) -> None:
        table = Table(title=title, title_justify="left")
        for place, heading in enumerate(headings):
            table.add_column(heading, justify="right" if place else "left")
        for row in rows:
            table.add_row(*map(_shown, row))
        self.console.print(table)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@contextmanager
def stage() -> Iterator[Stage]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flintmq-example-")))
        url = stack.enter_context(_broker(directory))
        # Nobody answers heartbeats while a pipeline runs.
        connection = stack.enter_context(fc.connect(f"{url}?heartbeat=0"))
        yield Stage(directory, url, stack.enter_context(connection.channel(confirms=True)))


@contextmanager
def _broker(directory: Path) -> Iterator[str]:
    """The installed FlintMQ, on a free port. Gives its URL."""
    command = [sys.executable, "-m", "flintmq.cli", "serve", "--port", "0", "--log-format", "json"]
    # Settings of another broker, if there are some, are not for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLINTMQ_")}
    # Its pages would be on a port that another broker may have.
    environment["FLINTMQ_MANAGEMENT_ENABLED"] = "false"
    log = directory / "broker.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--data", str(directory / "broker")],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield _url(process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _url(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        for line in log.read_text().rpartition("\n")[0].splitlines():
            said = json.loads(line)
            if said["event"] == "listening":
                return str(said["amqp"]).replace("amqp://", "amqp://guest:guest@") + "/%2f"
        time.sleep(0.05)
    raise SystemExit(f"the broker did not start:\n{log.read_text()}")
