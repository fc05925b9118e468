"""`flintmq cluster` and `flintmq doctor` on a real etcd, in which a test writes what nodes would."""

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from typer.testing import CliRunner

from flintmq.base.errors import FlintError
from flintmq.cli.diagnosis import examine
from flintmq.cli.main import app, exit_code
from flintmq.cluster.coordinator import CoordinatorError, Member
from flintmq.cluster.credentials import Credentials
from flintmq.cluster.etcd import Etcd
from flintmq.cluster.machine import RealDirectory, RealMachine
from flintmq.cluster.ports import Link
from flintmq.cluster.state import NodeState
from flintmq.server.config import ClusterSettings, ListenSettings, ManagementSettings, Settings, StorageSettings
from tests.commands import run_here
from tests.etcd import EtcdProcess
from tests.servers import environment, free_port
from tests.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.skipif(
    not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed"
)
T = TypeVar("T")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    with EtcdProcess(tmp_path_factory.mktemp("etcd")) as running:
        yield running


class Written:
    """A cluster as etcd knows it, of a test's own. `settings` are the variables for commands."""

    def __init__(self, server: EtcdProcess, name: str) -> None:
        self.name = name
        self.endpoint = server.url
        self.settings = {"FLINTMQ_CLUSTER_NAME": name, "FLINTMQ_CLUSTER_ETCD": server.url}

    def ask(self, work: Callable[[Etcd], Awaitable[T]]) -> T:
        async def run() -> T:
            etcd = Etcd([self.endpoint], self.name)
            try:
                return await work(etcd)
            finally:
                await etcd.close()

        return asyncio.run(run())

    def join(self, node: str, address: str = "", *, runs: bool = True) -> None:
        async def join(etcd: Etcd) -> None:
            await etcd.put_member(Member(node, node, address or f"{node}.example:5670", "1.0"), True)
            if runs:
                await etcd.announce(node, await etcd.grant(600))

        self.ask(join)

    def lead(self, node: str, in_sync: str, following: str | None = None, *, tells: bool = True) -> int:
        """Let a node lead, in place of another one; all nodes in sync follow it, or these. Returns the term.

        One of an earlier version does not tell who follows.
        """

        async def lead(etcd: Etcd) -> int:
            term = await etcd.elect(await etcd.view(), node, await etcd.grant(600))
            view = await etcd.view()
            assert await etcd.write_in_sync(term, view.in_sync_revision, frozenset(in_sync))
            if tells:
                await etcd.write_following(term, frozenset(in_sync if following is None else following))
            return term

        return self.ask(lead)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run a command. Returns its exit code, and what it has printed or the text of its error."""
        ran = CliRunner().invoke(app, list(arguments), env=self.settings)
        if isinstance(ran.exception, FlintError):
            return exit_code(ran.exception), str(ran.exception)
        return ran.exit_code, ran.output


@pytest.fixture
def cluster(server: EtcdProcess, request: pytest.FixtureRequest) -> Written:
    """Of a and b, which run, and c, which does not; nobody leads."""
    made = Written(server, request.node.name)
    made.join("a")
    made.join("b")
    made.join("c", runs=False)
    return made


def test_status(cluster: Written) -> None:
    """All nodes are shown, with and without a leader; the exit code tells whether the cluster can confirm."""
    code, text = cluster.run("cluster", "status")
    assert code == 1
    assert text.splitlines()[0] == f"cluster {cluster.name}: no node leads"
    term = cluster.lead("a", "ab")
    code, text = cluster.run("cluster", "status")
    assert code == 0
    heading, titles, _, *rows = [line.split() for line in text.splitlines() if line.strip()]
    assert heading == ["cluster", f"{cluster.name}:", "a", "leads", "in", "term", str(term)]
    assert titles == ["node", "address", "version", "alive", "leader", "in", "sync"]
    assert rows == [
        ["a", "a.example:5670", "1.0", "yes", "yes", "yes"],
        ["b", "b.example:5670", "1.0", "yes", "no", "yes"],
        ["c", "c.example:5670", "1.0", "no", "no", "no"],
    ]
    code, text = cluster.run("cluster", "status", "--json")
    shown = json.loads(text)
    assert (code, shown["name"], shown["term"], shown["leader"]) == (0, cluster.name, term, "a")
    assert shown["nodes"][2] == {
        "name": "c",
        "address": "c.example:5670",
        "version": "1.0",
        "is_alive": False,
        "is_leader": False,
        "is_in_sync": False,
    }
    cluster.lead("a", "ab", following="a")
    code, text = cluster.run("cluster", "status")
    assert code == 1
    assert [line.split()[-1] for line in text.splitlines() if "example" in line] == ["yes", "no", "no"]


def test_a_node_leaves(cluster: Written) -> None:
    """A dead node is removed; one that runs, leads or is in sync stays, and the text says what to do first."""
    code, text = cluster.run("cluster", "leave", "a")
    assert (code, text) == (1, "a is not removed: it runs. Stop it first, and try again some seconds later")
    cluster.join("d", runs=False)
    cluster.lead("d", "cd")
    assert cluster.run("cluster", "leave", "d")[1].startswith("d is not removed: it leads. ")
    assert cluster.run("cluster", "leave", "c")[1].startswith("c is not removed: the leader still counts it as in sync")
    cluster.ask(_resign)
    assert "no node leads. Start a node of those in sync (c, d) first" in cluster.run("cluster", "leave", "c")[1]
    cluster.lead("d", "d")
    assert cluster.run("cluster", "leave", "c") == (0, "c is no longer a node of the cluster\n")
    assert sorted(cluster.ask(lambda etcd: etcd.view()).members) == ["a", "b", "d"]
    code, text = cluster.run("cluster", "leave", "c")
    assert (code, text) == (5, "c is not a node of the cluster: a, b, d")


async def _resign(etcd: Etcd) -> None:
    leader = (await etcd.view()).leader
    assert leader is not None
    await etcd.resign(leader.term)


def test_waiting_for_a_node(cluster: Written) -> None:
    """The wait ends when the node is in sync and follows, or leads; a timeout says what the node lacks."""
    wait = ("cluster", "wait-in-sync")
    assert cluster.run(*wait, "a", "--timeout", "0") == (1, "a is not in sync after 0 s: no node leads")
    cluster.lead("a", "ac")
    assert cluster.run(*wait, "a", "--timeout", "0") == (0, "a is in sync\n")
    assert cluster.run(*wait, "c", "--timeout", "0")[1].endswith("it does not run, or cannot reach etcd")
    assert "does not have everything yet that a has" in cluster.run(*wait, "b", "--timeout", "0.2")[1]
    assert cluster.run(*wait, "d", "--timeout", "0.2")[0] == 5
    cluster.lead("a", "abc", following="a")
    assert "does not have everything yet that a has" in cluster.run(*wait, "b", "--timeout", "0.2")[1]

    cluster.lead("a", "abc", tells=False)
    assert cluster.run(*wait, "b", "--timeout", "0") == (0, "b is in sync\n")

    async def both(node: str, *works: Callable[[], object]) -> tuple[int, str]:
        waiting = asyncio.create_task(asyncio.to_thread(cluster.run, *wait, node))
        await asyncio.sleep(0.2)
        for work in works:
            await asyncio.to_thread(work)
        return await waiting

    assert asyncio.run(both("b", lambda: cluster.lead("b", "ab"))) == (0, "b is in sync\n")
    assert asyncio.run(both("d", lambda: cluster.join("d"), lambda: cluster.lead("b", "bd"))) == (0, "d is in sync\n")


def test_a_transfer(cluster: Written) -> None:
    """The leader is asked, by a wish that ends, to let another node lead; the command ends when that one does."""
    transfer = ("cluster", "transfer-leadership")
    assert cluster.run(*transfer, "b") == (1, "b cannot lead: no node leads")
    cluster.lead("a", "ab")
    assert cluster.run(*transfer, "a") == (0, "a leads\n")
    assert cluster.run(*transfer, "c")[1].startswith("c cannot lead: it does not run")
    assert cluster.run(*transfer, "d")[0] == 5
    assert cluster.run(*transfer, "b", "--timeout", "1") == (
        1,
        "b does not lead after 1 s: a leads; its log may tell why",
    )
    assert cluster.ask(lambda etcd: etcd.view()).heir == ""

    async def both() -> tuple[int, str]:
        transferring = asyncio.create_task(asyncio.to_thread(cluster.run, *transfer, "b"))
        await asyncio.to_thread(wait_until, lambda: cluster.ask(lambda etcd: etcd.view()).heir == "b")
        await asyncio.to_thread(cluster.lead, "b", "ab")
        return await transferring

    assert asyncio.run(both()) == (0, "b leads\n")


def test_settings_without_a_cluster() -> None:
    """A command says which settings it needs; this is an error of usage."""
    ran = run_here("cluster", "status")
    assert ran.returncode == 2
    assert "FLINTMQ_CLUSTER_NAME" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "arguments", ["status", "leave a", "wait-in-sync a --timeout 0.3", "transfer-leadership a --timeout 1"]
)
def test_etcd_that_does_not_answer(arguments: str) -> None:
    """No command hangs or shows a traceback: the exit code is that of a broker that cannot be reached."""
    endpoint = f"http://127.0.0.1:{free_port()}"
    ran = run_here("cluster", *arguments.split(), FLINTMQ_CLUSTER_NAME="c", FLINTMQ_CLUSTER_ETCD=endpoint)
    assert ran.returncode == 3
    assert f"etcd does not answer ({endpoint}" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("cluster status", 2), ("serve --port 0", 2), ("doctor --port 0", 1)],
)
def test_a_client_of_etcd_that_is_not_installed(tmp_path: Path, arguments: str, code: int) -> None:
    """Everything that needs it says which package to install, without a traceback."""
    without = "import sys; sys.modules['httpx'] = None; from flintmq.cli.main import main; main()"
    ran = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", without, *arguments.split()],
        env=environment(
            FLINTMQ_CLUSTER_NAME="c",
            FLINTMQ_CLUSTER_NODE="a",
            FLINTMQ_CLUSTER_PORT="0",
            FLINTMQ_STORAGE_DIRECTORY=str(tmp_path / "data"),
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code
    assert "pip install 'flintmq[cluster]'" in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


# -- doctor ---------------------------------------------------------------------------------------------------------


def diagnosed(settings: ClusterSettings, tmp_path: Path) -> list[tuple[str, str, str]]:
    """What `doctor` finds about a cluster, and about ports for it."""
    given = Settings(
        listen=ListenSettings(port=0),
        management=ManagementSettings(port=0),
        storage=StorageSettings(tmp_path / "data"),
        cluster=replace(settings, port=0),
    )
    found = [(each.about, each.verdict, each.text) for each in examine(given, None, ())]
    return [each for each in found if each[0] in ("cluster", "etcd", "nodes") or "etcd" in each[2]]


async def _remove_all(etcd: Etcd) -> None:
    for node in "abc":
        assert await etcd.remove_member(node)


@contextmanager
def listening(name: str, secret: str = "") -> Iterator[str]:
    """The address of a node of the cluster `name` that accepts others."""
    bound = socket.create_server(("127.0.0.1", 0))
    machine = RealMachine(bound, WAIT_SECONDS, Credentials(name, secret))
    machine.serve(Link.close)
    yield f"127.0.0.1:{bound.getsockname()[1]}"
    machine.close()


def test_doctor_on_a_node(server: EtcdProcess, cluster: Written, tmp_path: Path) -> None:
    """etcd answers with its version; nodes that run are reached, and of others it is said what can be done."""
    silent = f"http://127.0.0.1:{free_port()}"
    with listening(cluster.name) as address:
        cluster.join("d", address)
        cluster.join("e", f"127.0.0.1:{free_port()}")
        cluster.join("f", f"127.0.0.1:{free_port()}", runs=False)
        cluster.join("g", "127.0.0.1:0")
        cluster.ask(_remove_all)
        settings = ClusterSettings(name=cluster.name, node="n", etcd=f"{server.url} {silent}")
        found = diagnosed(settings, tmp_path)
    assert found[0] == ("cluster", "fine", f"this is node n of cluster {cluster.name}")
    assert found[1][:2] in (("etcd", "fine"), ("etcd", "doubtful"))
    assert found[1][2].startswith(f"{server.url} (etcd 3.")
    assert found[2][:2] == ("etcd", "doubtful")
    assert found[2][2].startswith(f"{silent} does not answer")
    reached, unreached, dead, same = found[3:]
    assert reached[:2] == ("nodes", "fine")
    assert reached[2].startswith("node d at 127.0.0.1:")
    assert unreached[:2] == ("nodes", "wrong")
    assert "it runs, so a firewall" in unreached[2]
    assert dead[:2] == ("nodes", "doubtful")
    assert "flintmq cluster leave" in dead[2]
    assert same[:2] == ("nodes", "wrong")
    assert "cluster.address" in same[2]


def test_doctor_knocks_at_other_nodes(cluster: Written, tmp_path: Path) -> None:
    """A node that would refuse this one, and something else at the address of a node, are found before a start."""
    secret = "that of this cluster"
    with listening(cluster.name, "that of another one") as theirs, listening(cluster.name, secret) as ours:
        cluster.join("d", theirs)
        cluster.join("e", ours)
        cluster.join("f", cluster.endpoint.removeprefix("http://"))
        cluster.ask(_remove_all)
        settings = ClusterSettings(name=cluster.name, node="n", etcd=cluster.endpoint, secret=secret)
        *_, different, same, stranger = diagnosed(settings, tmp_path)
    assert different[:2] == ("nodes", "wrong")
    assert "node d" in different[2]
    assert "cluster.secret differs" in different[2]
    assert same[:2] == ("nodes", "fine")
    assert stranger[:2] == ("nodes", "wrong")


def test_doctor_looks_at_the_directory(cluster: Written, tmp_path: Path) -> None:
    """It says so if the directory is that of another node, and if it has seen terms of which etcd has no record."""
    settings = ClusterSettings(name=cluster.name, node="n", etcd=cluster.endpoint)
    directory = RealDirectory(tmp_path / "data")
    directory.root.mkdir()
    NodeState(directory.disk, directory.root, cluster.name, "n").see(7)
    fine, _, lost = diagnosed(settings, tmp_path)[:3]
    assert fine[:2] == ("cluster", "fine")
    assert lost[:2] == ("etcd", "wrong")
    assert "docs/cluster.md" in lost[2]
    cluster.lead("a", "ab")
    assert diagnosed(settings, tmp_path)[2][0] == "nodes"
    other = diagnosed(replace(settings, node="m"), tmp_path)[0]
    assert other[:2] == ("cluster", "wrong")
    assert "belongs to node 'n'" in other[2]


def test_doctor_without_a_name_and_without_etcd(tmp_path: Path) -> None:
    """A node without a name cannot start, and none can without an etcd that answers."""
    endpoint = f"http://127.0.0.1:{free_port()}"
    cluster, etcd, nodes = diagnosed(ClusterSettings(name="c", etcd=endpoint), tmp_path)
    assert cluster[:2] == ("cluster", "wrong")
    assert etcd[:2] == ("etcd", "wrong")
    assert nodes[:2] == ("nodes", "wrong")


def test_doctor_compares_clocks(cluster: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks that differ by more than a second are doubtful, whichever is ahead."""
    settings = ClusterSettings(name=cluster.name, node="a", etcd=cluster.endpoint)
    genuine = time.time
    for shift, verdicts in ((0, []), (5, ["doubtful"]), (-5, ["doubtful"])):
        with monkeypatch.context() as patched:
            patched.setattr("time.time", lambda shift=shift: genuine() + shift)
            found = diagnosed(settings, tmp_path)
        assert [verdict for about, verdict, _ in found if about == "clock"] == verdicts


def test_something_that_is_not_etcd() -> None:
    """A server that answers with something else is not taken for etcd."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"

        async def run() -> None:
            etcd = Etcd([endpoint], "c")

            def answer() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(10_000)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

            answering = asyncio.create_task(asyncio.to_thread(answer))
            with pytest.raises(CoordinatorError, match="this is not etcd"):
                await etcd.look_at(endpoint)
            await answering
            await etcd.close()

        asyncio.run(run())
