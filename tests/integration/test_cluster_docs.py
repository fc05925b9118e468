"""The tutorial of clusters, as its readers follow it: three nodes and etcd in one shell."""

from pathlib import Path

import pytest

from tests.docs_pages import DOCS, follow_in_shell
from tests.etcd import EtcdProcess
from tests.servers import free_port

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed"),
]


def test_three_nodes_on_one_laptop(tmp_path: Path) -> None:
    """All commands work in their order, print what is shown, and end the nodes."""
    etcd, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    where = {
        "FLINTMQ_CLUSTER_ETCD": etcd,
        "ETCD_LISTEN_CLIENT_URLS": etcd,
        "ETCD_ADVERTISE_CLIENT_URLS": etcd,
        "ETCD_LISTEN_PEER_URLS": peers,
        "ETCD_INITIAL_ADVERTISE_PEER_URLS": peers,
        "ETCD_INITIAL_CLUSTER": f"default={peers}",
    }
    page = DOCS / "tutorials" / "three-nodes.md"
    assert follow_in_shell(page, tmp_path, free_port, **where) >= 8
    for pid in (tmp_path / "three-nodes").glob("?.pid"):
        assert not Path("/proc", pid.read_text().strip()).exists()
