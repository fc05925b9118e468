"""Flights, from a publisher through Spark and back, and proof that none was lost or doubled. See README.md."""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import checks
import dataset
import pandas as pd
from listener import Listener
from pipeline import Pipeline, messages_read, spark_in
from publisher import Publisher
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from server import Server

import flintmq.client

EXCHANGE = "flights"
STREAM = "flights.log"
STATISTICS_EXCHANGE = "flights.statistics"
STATISTICS_QUEUE = "flights.statistics.latest"

# Longer than any step takes, on a slow machine too.
STALL_SECONDS = 60
# The capture is stopped, and started again, when it has come this far.
RESTART_AT = 1 / 3


class Demo:
    """Everything that was started ends with `stack`, whatever happens."""

    def __init__(self, console: Console, stack: ExitStack, flights: pd.DataFrame) -> None:
        self._console = console
        self._stack = stack
        self._flights = flights
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="flintmq-flights-")))

    def run(self) -> bool:
        """True when everything was as it should be."""
        say = self._console.print
        server = self._stack.enter_context(Server(self.directory))
        say(f"FlintMQ runs, {server.build}")
        self._declare(server.url)
        with self._console.status("Spark starts"):
            pipeline = self._start_pipeline(server.url)
        listener = Listener(server.url, STATISTICS_QUEUE)
        self._stack.callback(listener.stop)
        listener.start()
        with self._console.status("the queries start"):
            queries = Queries(pipeline)
            queries.wait_until_started()
        publisher = Publisher(server.url, EXCHANGE, dataset.events(self._flights))
        self._stack.callback(publisher.stop)
        publisher.start()
        self._follow(queries, publisher, listener)
        queries.stop()
        return self._judge(pipeline, publisher, listener)

    def _declare(self, url: str) -> None:
        """A stream that keeps every event, and a queue for what comes back."""
        with flintmq.client.connect(url) as connection, connection.channel() as channel:
            channel.declare_exchange(EXCHANGE, type="topic")
            channel.declare_queue(STREAM, arguments={"x-queue-type": "stream"})
            channel.bind(STREAM, EXCHANGE, "#")
            channel.declare_exchange(STATISTICS_EXCHANGE, type="topic")
            channel.declare_queue(STATISTICS_QUEUE)
            channel.bind(STATISTICS_QUEUE, STATISTICS_EXCHANGE, "#")

    def _start_pipeline(self, url: str) -> Pipeline:
        spark = self._stack.enter_context(spark_in(self.directory))
        url_file = self.directory / "url"
        url_file.touch(mode=0o600)
        url_file.write_text(url)
        return Pipeline(spark, url_file, self.directory, dataset.spark_schema(self._flights))

    def _follow(self, queries: "Queries", publisher: Publisher, listener: Listener) -> None:
        """Show how far everybody is, until everybody is done, or nothing moves any more."""
        count = len(self._flights)
        with _progress(self._console) as progress:
            published = Bar(progress, "published and confirmed", count, lambda: publisher.confirmed)
            captured = Bar(progress, "captured in the lake", count, queries.captured)
            received = Bar(progress, "in the statistics that came back", count, lambda: listener.flights)
            bars = [published, captured, received]
            while not all(bar.is_full for bar in bars):
                for bar in bars:
                    bar.update()
                queries.check()
                for failure in (publisher.failure, listener.failure):
                    if failure:
                        raise SystemExit(failure)
                if not queries.restarted and captured.value >= RESTART_AT * count:
                    queries.restart_capture()
                    progress.print(f"  the capture was stopped behind event {captured.value:,}, and started again")
                if time.monotonic() - max(bar.moved for bar in bars) > STALL_SECONDS:
                    progress.print(f"  [bold red]nothing has moved for {STALL_SECONDS} s[/]")
                    return
                time.sleep(0.2)

    def _judge(self, pipeline: Pipeline, publisher: Publisher, listener: Listener) -> bool:
        count = len(self._flights)
        expected = dataset.expected_statistics(self._flights)
        self._console.print(_table(listener))
        with self._console.status("checking"):
            findings = [
                checks.Check(
                    "every event was confirmed", publisher.confirmed == count, f"{publisher.confirmed:,} of {count:,}"
                ),
                *checks.check_lake(pipeline.captured().toArrow(), self._flights),
                *checks.check_statistics(listener.latest, expected),
            ]
        for check in findings:
            mark = "[green]yes[/]" if check.holds else "[bold red]NO [/]"
            self._console.print(f"  {mark}  {check.claim} [dim]({check.finding})[/]", highlight=False)
        return all(check.holds for check in findings)


class Queries:
    """The two queries on the stream. The capture is stopped once, and has to go on where it was."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.restarted = False
        self._pipeline = pipeline
        self._statistics = pipeline.statistics(STREAM, STATISTICS_EXCHANGE)
        self._capture = pipeline.capture(STREAM)

    def wait_until_started(self) -> None:
        while "Initializing" in self._statistics.status["message"] + self._capture.status["message"]:
            self.check()
            time.sleep(0.1)

    def captured(self) -> int:
        return messages_read(self._capture)

    def check(self) -> None:
        """Raises what ended one of them."""
        messages_read(self._statistics)
        messages_read(self._capture)

    def restart_capture(self) -> None:
        self._capture.stop()
        self._capture = self._pipeline.capture(STREAM)
        self.restarted = True

    def stop(self) -> None:
        self._capture.stop()
        self._statistics.stop()


class Bar:
    """`moved` is when its value changed last."""

    def __init__(self, progress: Progress, name: str, total: int, value: Callable[[], int]) -> None:
        self.value = 0
        self.moved = time.monotonic()
        self._progress = progress
        self._total = total
        self._value = value
        self._task: TaskID = progress.add_task(name, total=total)

    @property
    def is_full(self) -> bool:
        return self.value >= self._total

    def update(self) -> None:
        value = self._value()
        # A query that was started again has nothing to say before its first micro-batch.
        if value > self.value:
            self.value = value
            self.moved = time.monotonic()
            self._progress.update(self._task, completed=value)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("  {task.description:<33}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def _table(listener: Listener) -> Table:
    airlines = dataset.load_airlines()
    table = Table(title=f"Mean delays in minutes, from the last of {listener.received} messages received")
    table.add_column("carrier", no_wrap=True, max_width=22)
    for heading in ("flights", "cancelled", "departure", "arrival", "late"):
        table.add_column(heading, justify="right", no_wrap=True)
    for carrier, figures in sorted(listener.latest.items(), key=lambda item: -item[1]["flights"]):
        table.add_row(
            airlines.get(carrier, carrier),
            f"{figures['flights']:,}",
            f"{figures['cancelled']:,}",
            f"{figures['departure_delay']:.1f}",
            f"{figures['arrival_delay']:.1f}",
            f"{figures['late']:.1%}",
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flights", type=int, metavar="N", help="only the first N flights")
    arguments = parser.parse_args()
    # Being told to end is no reason to leave processes and files behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()
    console = Console()
    flights = dataset.load_flights().head(arguments.flights or dataset.FLIGHTS)
    with ExitStack() as stack:
        good = Demo(console, stack, flights).run()
    verdict = "[green]All of it holds" if good else "[bold red]It does not hold"
    console.print(f"{verdict}[/], after {time.monotonic() - started:.0f} s.")
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
