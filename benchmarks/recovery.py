"""How long a broker that was killed takes to accept clients again, with a million messages in its journal."""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks import generator
from benchmarks.brokers import BrokerError, FlintMQ, free_port

_DATA: Final = Path(__file__).resolve().parent.parent / ".bench-data" / "recovery"
_START_SECONDS: Final = 120.0


class Victim:
    """A broker on one data directory, started and killed again."""

    def __init__(self) -> None:
        self.port = free_port()
        self._log = _DATA / "output.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> tuple[float, float, int]:
        """Seconds until it accepts; of these, seconds it took to recover; and how many messages that brought."""
        started = time.monotonic()
        broker = FlintMQ()
        with self._log.open("w") as output:
            self._process = subprocess.Popen(
                [*broker.command(), "--log-format", "json"],
                env=os.environ | broker.environment(_DATA, self.port),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        while True:
            lines = [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]
            events = {line["event"]: line for line in lines}
            if "listening" in events:
                # The first start finds nothing, and says so in other words.
                recovered = events.get("recovered", {"seconds": 0.0, "messages": 0})
                return time.monotonic() - started, recovered["seconds"], recovered["messages"]
            if self._process.poll() is not None or time.monotonic() - started > _START_SECONDS:
                raise BrokerError(f"it did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.005)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


def _publish(victim: Victim, queue: str, count: int, consumers: int) -> None:
    load = ("--keep", "--queue", queue, "--count", str(count), "--consumers", str(consumers), "--size", "16")
    generator.run(victim.port, *load, "--persistent", "--confirm", "1000")


def _kill(victim: Victim, messages: int, runs: int) -> tuple[list[float], list[float]]:
    """Seconds until it accepts again after each kill, and messages recovered a second."""
    accepting = []
    rates = []
    for _ in range(runs):
        victim.kill()
        seconds, recovery, found = victim.start()
        if found < messages:
            raise BrokerError(f"{found} of {messages} messages are there")
        accepting.append(seconds)
        rates.append(found / recovery)
    return accepting, rates


def main() -> int:
    parser = argparse.ArgumentParser(prog="recovery", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="persistent, of 16 bytes (1000000)")
    parser.add_argument("--runs", type=int, default=5, help="of which the median counts (5)")
    parser.add_argument("--passing", type=int, default=2_500_000, help="published and consumed behind them (2500000)")
    options = parser.parse_args()
    generator.build()
    shutil.rmtree(_DATA, ignore_errors=True)
    _DATA.mkdir(parents=True)
    victim = Victim()
    try:
        empty, _, _ = victim.start()
        _publish(victim, "recovered", options.messages, 0)
        accepting, rates = _kill(victim, options.messages, options.runs)
        _publish(victim, "passing", options.passing, 1)
        behind_dead, _ = _kill(victim, options.messages, options.runs)
    finally:
        victim.kill()
        shutil.rmtree(_DATA, ignore_errors=True)
    again = statistics.median(accepting)
    rate = statistics.median(rates)
    print(f"started with nothing: {empty:.2f} s")
    print(f"killed with {options.messages:,} messages: {again:.2f} s (worst {max(accepting):.2f} s), 1 s at most")
    print(f"and {options.passing:,} behind them that were consumed: {statistics.median(behind_dead):.2f} s")
    print(f"recovered messages: {rate:,.0f} a second, 1,000,000 at least")
    return 0 if again <= 1 and rate >= 1_000_000 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokerError as error:
        sys.exit(f"bench: {error}")
