"""`python -m tests.cluster.upgrade --from COMMIT [--to PYTHON]`: nodes get another build, one by one; nothing is lost.

The nodes run the build of a commit, which is made in a directory of its own; or, where `--from` is an interpreter, the
one that is installed for it. The followers are stopped and started with the other build first, then another node is
made the leader, and the old one follows, as docs/cluster.md says. Pika, aio-pika and proton publish meanwhile.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from prerequisites import ETCD_PACKAGE
from tests.cluster.campaign import CANNOT_RUN, PUBLISHERS, line_of, table_of, wrong_in
from tests.cluster.faults import Fault, Outcome, await_confirms, undergo
from tests.cluster.ledger import Ledger
from tests.cluster.load import Load
from tests.cluster.nodes import Cluster
from tests.cluster.program import exit_with
from tests.cluster.with_others import AioPikaPublisher, ProtonPublisher
from tests.cluster.with_pika import KEPT, LIVE
from tests.etcd import EtcdProcess
from tests.servers import command, environment
from tests.waiting import wait_until

_ROOT: Final = Path(__file__).parents[2]
_BUILD_SECONDS: Final = 1800.0
_COMMAND_SECONDS: Final = 120.0
# Of each node: how long publishers may have to wait for confirms.
_LIMITS: Final = (1.0, 1.0)


def build(commit: str, directory: Path) -> str:
    """Install FlintMQ of this commit, compiled, and return its interpreter. Raises CalledProcessError."""
    run = partial(subprocess.run, check=True, timeout=_BUILD_SECONDS, text=True)
    sources, python = directory / "sources", str(directory / "venv" / "bin" / "python")
    found = run(["git", "-C", str(_ROOT), "rev-parse", "--verify", f"{commit}^{{commit}}"], stdout=subprocess.PIPE)
    commit = found.stdout.strip()
    run(["git", "clone", "--quiet", "--no-checkout", str(_ROOT), str(sources)])
    run(["git", "-C", str(sources), "checkout", "--quiet", commit])
    run([sys.executable, "-m", "venv", str(directory / "venv")])
    variables = {"FLINTMQ_BUILD": "compiled", **os.environ, "PYTHONPATH": ""}
    run([python, "-m", "pip", "install", "--quiet", f"{sources}[cluster]"], env=variables)
    return python


def upgrade(cluster: Cluster, node: str, python: str) -> None:
    """Let the node run what is installed for this interpreter, and wait until it is in sync."""
    process = cluster.nodes[node]
    process.stop()
    process.python = python
    cluster.launch(node)
    _flintmq(cluster, python, "cluster", "wait-in-sync", node, "--timeout", str(round(_COMMAND_SECONDS / 2)))


def hand_over(cluster: Cluster, heir: str, python: str) -> None:
    _flintmq(cluster, python, "cluster", "transfer-leadership", heir)
    wait_until(lambda: cluster.leader() == heir)


def steps(cluster: Cluster, python: str) -> Iterator[Fault]:
    """What happens to the nodes, followers first."""
    leader, (first, second) = cluster.leader(), cluster.followers()

    @contextmanager
    def follower(node: str, _: Cluster) -> Iterator[None]:
        upgrade(cluster, node, python)
        yield

    @contextmanager
    def old_leader(_: Cluster) -> Iterator[None]:
        hand_over(cluster, first, python)
        upgrade(cluster, leader, python)
        yield

    for node in (first, second):
        yield Fault(f"follower {node} upgraded", partial(follower, node), 0, 1, _LIMITS)
    yield Fault(f"leader {leader} upgraded, {first} leads", old_leader, 0, 1, _LIMITS)


def rolled(directory: Path, old: str, new: str) -> tuple[dict[Fault, list[Outcome]], list[str]]:
    """Upgrade a cluster with the data in `directory`. Returns how long clients waited, and what went wrong."""
    ledger = Ledger(PUBLISHERS, [LIVE, KEPT])
    outcomes: dict[Fault, list[Outcome]] = {}
    wrong = []
    try:
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(directory, python=old))
            stack.callback(cluster.write_logs)
            print(f"three nodes run, and {_leader(cluster)} leads", flush=True)
            ports = cluster.ports.values()
            others = (AioPikaPublisher(ports, ledger), ProtonPublisher(ports, ledger))
            load = stack.enter_context(Load(cluster, ledger, *others))
            await_confirms(ledger)
            for step in steps(cluster, new):
                outcome = undergo(step, cluster, ledger)
                outcomes[step] = [outcome]
                print(line_of(outcome), flush=True)
                if not outcome.came_back:
                    wrong.append(f"{step.name}: not all came back")
            load.drain()
            print(f"{_leader(cluster)} leads, and {len(ledger.confirmed):,} messages are confirmed", flush=True)
    except (AssertionError, subprocess.SubprocessError, OSError, TimeoutError) as error:
        wrong.append(f"{type(error).__name__}: {error}")
    return outcomes, wrong + list(wrong_in(ledger))


def _leader(cluster: Cluster) -> str:
    leader = cluster.leader()
    node = cluster.nodes[leader]
    return f"{leader}, {node.wait_for_log('FlintMQ')['build']} ({node.python}),"


def _flintmq(cluster: Cluster, python: str, *arguments: str) -> None:
    """Run a command as who operates the cluster does."""
    done = subprocess.run(  # noqa: S603 - our own command
        command(*arguments, python=python),
        env=environment(**cluster.settings("a")),
        timeout=_COMMAND_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"flintmq {' '.join(arguments)}: {done.stdout}{done.stderr}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.upgrade")
    parser.add_argument("--from", dest="old", required=True, help="a commit, or the interpreter of a build")
    parser.add_argument("--to", dest="new", default=sys.executable, help="the interpreter of the other build")
    given = parser.parse_args(arguments)
    if not EtcdProcess.is_installed():
        print(f"etcd is not installed: RUNLEVEL=1 apt-get install {ETCD_PACKAGE}")
        return CANNOT_RUN
    directory = Path(tempfile.mkdtemp(prefix="flintmq-upgrade-"))
    stack = ExitStack()
    stack.callback(shutil.rmtree, directory)
    with stack:
        old = given.old
        if not Path(old).exists():
            print(f"{old} is compiled and installed in {directory}: a few minutes", flush=True)
            try:
                old = build(old, directory)
            except subprocess.SubprocessError as error:
                print(f"{given.old} is not an interpreter, and cannot be built: {error}")
                return CANNOT_RUN
        outcomes, wrong = rolled(directory / "cluster", old, given.new)
        Console(width=170).print(table_of(outcomes))
        for each in wrong:
            print(f"WRONG: {each}")
        if wrong:
            stack.pop_all()
            print(f"It does not hold: {directory / 'cluster'} has the data, and a log of each node")
            return 1
    print("Nothing is lost")
    return 0


if __name__ == "__main__":
    exit_with(lambda: main(sys.argv[1:]))
