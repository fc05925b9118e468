"""`python -m tests.cluster`: three nodes and etcd; the leader is killed, hangs and is cut off, and nothing is lost."""

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.cluster.faults import LEADER_CUT_OFF, LEADER_HUNG, LEADER_KILLED, Outcome, await_confirms, undergo
from tests.cluster.ledger import Ledger
from tests.cluster.load import Load
from tests.cluster.nodes import Cluster
from tests.cluster.program import exit_with
from tests.cluster.with_pika import KEPT, LIVE, PikaPublisher
from tests.etcd import EtcdProcess

FAULTS: Final = (LEADER_KILLED, LEADER_HUNG, LEADER_CUT_OFF)
NOT_INSTALLED: Final = 2


def main() -> int:
    console = Console()
    if not EtcdProcess.is_installed():
        # Debian's package starts a server of its own, unless it is told that this is no time for it.
        console.print(
            "etcd is not installed. On Debian and Ubuntu: RUNLEVEL=1 apt-get install etcd-server", soft_wrap=True
        )
        return NOT_INSTALLED
    began = time.monotonic()
    stack = ExitStack()
    directory = Path(tempfile.mkdtemp(prefix="flintmq-cluster-"))
    stack.callback(shutil.rmtree, directory)
    with stack, Cluster(directory) as cluster:
        leader = cluster.leader()
        build = cluster.nodes[leader].wait_for_log("FlintMQ")["build"]
        console.print(f"Three nodes run, {build}, and node {leader} leads", soft_wrap=True)
        ledger = Ledger([PikaPublisher.name], [LIVE, KEPT])
        with Load(cluster, ledger) as load:
            await_confirms(ledger)
            outcomes = []
            for fault in FAULTS:
                with console.status(fault.name):
                    outcomes.append(undergo(fault, cluster, ledger))
            with console.status("the rest is consumed"):
                load.drain()
        is_good = not ledger.lost and not ledger.unflagged and all(outcome.came_back for outcome in outcomes)
        if not is_good:
            cluster.write_logs()
            stack.pop_all()
    console.print(_table(outcomes))
    console.print(_totals(ledger), highlight=False, soft_wrap=True)
    verdict = "[green]Nothing is lost[/]" if is_good else f"[bold red]It does not hold[/]: {directory} has the logs"
    console.print(f"{verdict}, after {time.monotonic() - began:.0f} s.", soft_wrap=True)
    return 0 if is_good else 1


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(title="The longest time, in seconds")
    table.add_column("fault")
    for heading in ("no confirms", "no deliveries", "leader told its clients after"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        confirms = (
            f"{max(outcome.without_confirms.values()):.2f}" if outcome.came_back else "[bold red]none came back[/]"
        )
        told = "-" if outcome.leader_told is None else f"{outcome.leader_told:.2f}"
        table.add_row(outcome.fault.name, confirms, f"{outcome.without_deliveries:.2f}", told)
    return table


def _totals(ledger: Ledger) -> str:
    return (
        f"Confirmed: {len(ledger.confirmed):,}. Delivered: {len(ledger.delivered[LIVE]):,}. "
        f"Lost: {len(ledger.lost):,}. Delivered again without the flag: {len(ledger.unflagged):,}."
    )


if __name__ == "__main__":
    exit_with(main)
