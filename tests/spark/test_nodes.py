"""Spark and the nodes of a cluster."""

from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

import flintmq.client as fc
from tests.cluster.nodes import NODES, Cluster
from tests.etcd import EtcdProcess
from tests.integration.test_cluster_relay import await_relay
from tests.servers import free_port
from tests.waiting import WAIT_SECONDS

COUNT = 600


@pytest.mark.skipif(not EtcdProcess.is_installed(), reason="etcd (Debian's package etcd-server) is not installed")
def test_tasks_read_at_all_nodes(spark: SparkSession, tmp_path: Path) -> None:
    """Tasks that read a stream are spread over the nodes, and every message is read once."""
    http_ports = {node: free_port() for node in NODES}
    settings = {"FLINTMQ_MANAGEMENT_ENABLED": "true"}
    with Cluster(tmp_path, more=lambda node: {**settings, "FLINTMQ_MANAGEMENT_PORT": str(http_ports[node])}) as cluster:
        leader = cluster.leader()
        for node in NODES:
            if node != leader:
                await_relay(cluster, node, leader)
        # The API is loaded while clients of AMQP are served already.
        cluster.nodes[leader].wait_for_log("listening", matches=lambda line: "http" in line)
        api = f"http://127.0.0.1:{http_ports[leader]}/api"
        # By their users it is seen at which node tasks connect.
        for node in NODES:
            for path, asked in (
                (f"users/{node}", {"password": node, "tags": ""}),
                (f"permissions/%2F/{node}", {"configure": "", "write": "", "read": ".*"}),
            ):
                answer = httpx.put(f"{api}/{path}", json=asked, auth=("guest", "guest"), timeout=WAIT_SECONDS)
                assert answer.is_success
        with fc.connect(f"amqp://guest:guest@127.0.0.1:{cluster.ports[leader]}/%2f") as connection:
            channel = connection.channel(confirms=True)
            channel.declare_queue("s", arguments={"x-queue-type": "stream"})
            channel.publish_batch([("", "s", b"%d" % number) for number in range(COUNT)])
        urls = " ".join(f"amqp://{node}:{node}@127.0.0.1:{cluster.ports[node]}/%2f" for node in NODES)
        read = spark.read.format("flintmq").options(url=urls, queue="s", minPartitions="6", columns="offset,body")
        rows = read.load().collect()
        assert sorted((row.offset, bytes(row.body)) for row in rows) == [(at, b"%d" % at) for at in range(COUNT)]
        opened = [line["user"] for line in cluster.nodes[leader].log if line["event"] == "connection opened"]
        # The query is planned at the first node.
        assert {node: opened.count(node) for node in NODES} == {"a": 3, "b": 2, "c": 2}
