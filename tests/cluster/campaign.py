"""`python -m tests.cluster.campaign [--asked] [--rounds N] [--faults WORDS] [--seed SEED] [--minutes M]`: none is lost.

Every kind of fault happens to three nodes and etcd, in random order. Pika, aio-pika and proton publish, and Spark
passes all of it on, exactly once. Every few faults, everything that was confirmed must be there.

The exit status is 0 if nothing was lost, came twice or without the flag, and the cluster came back each time. Times do
not change it, because a busy machine does: the table says which ones were asked, and which were missed.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Final

from rich.console import Console
from rich.table import Table

from prerequisites import ETCD_PACKAGE, JAVA_PACKAGE, has_java
from tests.cluster.faults import FAULTS, Fault, Outcome, await_confirms, undergo
from tests.cluster.ledger import Ledger
from tests.cluster.load import Load
from tests.cluster.nodes import NODES, Cluster
from tests.cluster.program import exit_with
from tests.cluster.with_others import AioPikaPublisher, ProtonPublisher
from tests.cluster.with_pika import KEPT, LIVE, PikaPublisher
from tests.cluster.with_spark import PIPED, SparkPipeline
from tests.etcd import EtcdProcess
from tests.stalling_disk import StallingDisks

PUBLISHERS: Final = (PikaPublisher.name, AioPikaPublisher.name, ProtonPublisher.name)
CANNOT_RUN: Final = 2
HANGS: Final = 3
# After so many faults, everything that was confirmed is looked for. Until then it is on queues, and each leader that
# begins has to recover them.
_FAULTS_UNTIL_DRAINED: Final = 6
# No more faults begin when the time is over. What takes so much longer than that hangs.
_GRACE_SECONDS: Final = 300
_END_SECONDS: Final = 180
# A publisher has pauses of its own, which are no time without confirms.
_PAUSE_SECONDS: Final = 0.05
# How many of a kind are shown.
_SHOWN: Final = 5


class TimeIsOver(Exception):
    """Something hangs."""


def planned(faults: list[Fault], rounds: int | None, chance: random.Random) -> list[Fault]:
    """What is to happen: each fault in each round, or without `rounds` as often as it says itself; in random order."""
    if rounds is not None:
        return [fault for _ in range(rounds) for fault in chance.sample(faults, len(faults))]
    every = [fault for fault in faults for _ in range(fault.times)]
    return chance.sample(every, len(every))


class Campaign:
    """`wrong` says what is; `outcomes` are those of all faults so far. If it `is_drained`, all messages were looked for
    that are confirmed. `directory` gets the data and the logs.
    """

    def __init__(self, directory: Path, plan: list[Fault], has_spark: bool, seconds: float) -> None:
        self.wrong: list[str] = []
        self.is_drained = True
        self.outcomes: dict[Fault, list[Outcome]] = defaultdict(list)
        self.pipeline: SparkPipeline | None = None
        self.ledger = Ledger(PUBLISHERS, [LIVE, KEPT], once=[PIPED] if has_spark else [])
        self._directory = directory
        self._plan = plan
        self._has_spark = has_spark
        self._began = time.monotonic()
        self._until = self._began + seconds

    def run(self) -> None:
        """Whatever fails is in `wrong` afterwards."""
        try:
            with ExitStack() as stack:
                self._run(stack)
        except Exception as error:  # noqa: BLE001 - the table is shown whatever has happened
            self.wrong.append(f"{type(error).__name__}: {error}")
        self.wrong += wrong_in(self.ledger, self.is_drained)

    def _run(self, stack: ExitStack) -> None:
        cluster = stack.enter_context(Cluster(self._directory, disks=StallingDisks(self._directory)))
        stack.callback(self._look_at_logs, cluster)
        if self._has_spark:
            self.pipeline = stack.enter_context(SparkPipeline(cluster, self._directory / "spark"))
            self._say("Spark has begun")
        ports = cluster.ports.values()
        others = (AioPikaPublisher(ports, self.ledger), ProtonPublisher(ports, self.ledger))
        load = stack.enter_context(Load(cluster, self.ledger, *others, pipeline=self.pipeline))
        for first in range(0, len(self._plan), _FAULTS_UNTIL_DRAINED):
            # Not after the last one: what is confirmed after the queues were drained would be taken for lost.
            self.is_drained = False
            load.go_on()
            await_confirms(self.ledger)
            for number, fault in enumerate(self._plan[first : first + _FAULTS_UNTIL_DRAINED], first + 1):
                if time.monotonic() > self._until:
                    break
                self._suffer(number, fault, cluster)
            load.drain()
            self.is_drained = True
            self._say(f"{len(self.ledger.confirmed):,} messages are confirmed, {len(self.ledger.lost):,} are not there")
            left = len(self._plan) - sum(map(len, self.outcomes.values()))
            if left and time.monotonic() > self._until:
                self.wrong.append(
                    f"{left} faults have not happened: the time was over, or one of them was not survived"
                )
                break

    def _suffer(self, number: int, fault: Fault, cluster: Cluster) -> None:
        try:
            outcome = undergo(fault, cluster, self.ledger)
        except AssertionError as error:
            # The cluster has not become what the fault needs, and neither would the next one find it.
            self.wrong.append(f"fault {number}, {fault.name}: {str(error) or 'no node leads'}")
            self._until = 0.0
            return
        self.outcomes[fault].append(outcome)
        self._say(f"{number} of {len(self._plan)}, {line_of(outcome)}")
        if not outcome.came_back:
            self.wrong.append(f"fault {number}, {fault.name}: not all came back")
        if self.pipeline is not None:
            self.pipeline.tend()

    def _look_at_logs(self, cluster: Cluster) -> None:
        cluster.write_logs()
        for node in NODES:
            faults = [line for line in cluster.log(node) if line["event"].startswith("internal error")]
            if faults:
                self.wrong.append(f"node {node} has said {len(faults)} times: {faults[0]}")

    def totals(self) -> str:
        ledger = self.ledger
        lost = f"{len(ledger.lost):,}" if self.is_drained else "not known"
        told = f"Confirmed: {len(ledger.confirmed):,}. Lost: {lost}."
        if self.pipeline is None:
            return told
        failures = self.pipeline.failures
        return (
            f"{told} Passed on by Spark: {len(ledger.delivered[PIPED]):,}, of these more than once: "
            f"{len(ledger.twice):,}. Its query was started again from its checkpoint {len(failures)} times, and its "
            f"process {max(self.pipeline.starts - 1, 0)} times." + "".join(f"\n  {each[:300]}" for each in failures)
        )

    def table(self) -> Table:
        return table_of({fault: self.outcomes[fault] for fault in FAULTS if fault in self.outcomes})

    def _say(self, text: str) -> None:
        minutes, seconds = divmod(round(time.monotonic() - self._began), 60)
        print(f"{minutes}:{seconds:02} {text}", flush=True)


def wrong_in(ledger: Ledger, is_drained: bool = True) -> Iterator[str]:
    """What has become of messages, and must not. Unless the queues are drained, messages may still be there."""
    found = {
        "confirmed and lost" if is_drained else "confirmed and not looked for": sorted(ledger.lost),
        "delivered again without the flag": ledger.unflagged,
        "out of order": ledger.out_of_order,
        "refused": ledger.refused,
        "passed on by Spark more than once": ledger.twice,
    }
    for what, names in found.items():
        if names:
            yield f"{len(names)} {what}: {', '.join(names[:_SHOWN])}"


def table_of(outcomes: dict[Fault, list[Outcome]]) -> Table:
    table = Table(title="The longest time in seconds: median / worst")
    confirms = (f"no confirms, {name}" for name in PUBLISHERS)
    for heading in ("", "times", "asked", *confirms, "no deliveries", "leader told"):
        table.add_column(heading)
    for fault, each in outcomes.items():
        told = [outcome.leader_told for outcome in each if outcome.leader_told is not None]
        pika, *others = ([outcome.without_confirms[name] for outcome in each] for name in PUBLISHERS)
        table.add_row(
            fault.name,
            str(len(each)),
            "{:g} / {:g}".format(*fault.limits) if fault.limits else "-",
            _spread(pika) + (" missed" if is_missed(fault, pika) else ""),
            *map(_spread, others),
            _spread([outcome.without_deliveries for outcome in each]),
            _spread(told),
        )
    return table


def is_missed(fault: Fault, times: list[float]) -> bool:
    """Whether these times are longer than what is asked."""
    if fault.limits is None:
        return False
    typical, worst = fault.limits
    return median(times) > typical + _PAUSE_SECONDS or max(times) > worst + _PAUSE_SECONDS


def line_of(outcome: Outcome) -> str:
    confirms = ", ".join(f"{name} {gap:.2f}" for name, gap in outcome.without_confirms.items())
    told = "not" if outcome.leader_told is None else f"{outcome.leader_told:.2f}"
    return (
        f"{outcome.fault.name}: without confirms {confirms}; deliveries {outcome.without_deliveries:.2f}; told {told}"
        + ("" if outcome.came_back else "; NOT ALL CAME BACK")
    )


def _spread(times: list[float]) -> str:
    return f"{median(times):.2f} / {max(times):.2f}" if times else "-"


def _cannot_run(has_spark: bool) -> str:
    """What is missing; empty if nothing is."""
    if not EtcdProcess.is_installed():
        return f"etcd is not installed: RUNLEVEL=1 apt-get install {ETCD_PACKAGE}"
    if shutil.which("cc") is None:
        return "there is no C compiler, which disks that stall need: apt-get install gcc libc6-dev"
    if has_spark and not has_java():
        return f"Java is not installed: apt-get install {JAVA_PACKAGE}, or give --without-spark"
    return ""


def _limit(campaign: Campaign, seconds: float) -> None:
    """Whatever hangs, this process ends, and has shown what it knows."""

    def hangs(_: int, __: FrameType | None) -> None:
        signal.signal(signal.SIGALRM, ends)
        signal.alarm(_END_SECONDS)
        raise TimeIsOver(f"something hangs, after {seconds / 60:.0f} minutes")

    def ends(_: int, __: FrameType | None) -> None:
        _show(campaign)
        print("the end of the campaign hangs")
        for tasks in Path("/proc/self/task").iterdir():
            for child in (tasks / "children").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
        sys.stdout.flush()
        os._exit(HANGS)

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(round(seconds))


def _show(campaign: Campaign) -> None:
    Console(width=170).print(campaign.table())
    print(campaign.totals())
    for each in campaign.wrong:
        print(f"WRONG: {each}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.campaign")
    parser.add_argument("--asked", action="store_true", help="all faults as often as a cluster has to stand them")
    parser.add_argument("--rounds", type=int, default=1, help="how often each fault happens, without --asked")
    parser.add_argument("--faults", default="", help="only those whose names have these words")
    parser.add_argument("--seed", default=str(time.time_ns()), help="of the order of the faults")
    parser.add_argument("--minutes", type=float, default=60.0, help="no fault begins after that")
    parser.add_argument("--without-spark", action="store_true", help="Spark passes nothing on")
    given = parser.parse_args(arguments)
    chosen = [fault for fault in FAULTS if given.faults in fault.name]
    if not chosen:
        parser.error(f"no fault has these words; there are: {', '.join(fault.name for fault in FAULTS)}")
    if lack := _cannot_run(not given.without_spark):
        print(lack)
        return CANNOT_RUN
    plan = planned(chosen, None if given.asked else given.rounds, random.Random(given.seed))
    directory = Path(tempfile.mkdtemp(prefix="flintmq-campaign-"))
    print(f"{len(plan)} faults, seed {given.seed}, in {directory}", flush=True)
    campaign = Campaign(directory, plan, not given.without_spark, given.minutes * 60)
    _limit(campaign, given.minutes * 60 + _GRACE_SECONDS)
    campaign.run()
    signal.alarm(0)
    _show(campaign)
    if campaign.wrong:
        print(f"It does not hold: {directory} has the data, a log of each node, and spark/driver.log")
        return 1
    shutil.rmtree(directory)
    print("Nothing is lost, and nothing came twice")
    return 0


if __name__ == "__main__":
    exit_with(lambda: main(sys.argv[1:]))
