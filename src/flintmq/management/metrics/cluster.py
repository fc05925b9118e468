"""Metrics of the cluster that the node leads; there are none without a cluster."""

from collections.abc import Callable
from typing import Final

from flintmq.management.metrics.exposition import GAUGE, Number, several, single
from flintmq.management.ports import ClusterNode, Node

# Suffix of the metric, help text, and how it is read; None where it is not known.
_OF_NODES: Final[tuple[tuple[str, str, Callable[[ClusterNode], Number | None]], ...]] = (
    ("is_leader", "1 for the node that leads", lambda node: int(node.is_leader)),
    ("is_alive", "1 for nodes that were heard of in the last seconds", lambda node: int(node.is_alive)),
    ("is_in_sync", "1 for nodes that have everything that is confirmed", lambda node: int(node.is_in_sync)),
    ("behind_bytes", "Bytes of the leader's changes that the node has not confirmed", lambda node: node.behind_bytes),
    (
        "behind_seconds",
        "Age of the oldest change of the leader that the node has not confirmed",
        lambda node: node.behind_seconds,
    ),
)


def cluster(node: Node) -> str:
    """The cluster as a whole, and each of its nodes."""
    found = node.cluster
    if found is None:
        return ""
    whole = (
        ("term", "Grows with each new leader", found.term),
        ("nodes", "Nodes that belong to the cluster", len(found.nodes)),
        ("nodes_in_sync", "Nodes that have everything that is confirmed", sum(each.is_in_sync for each in found.nodes)),
        ("min_in_sync", "Nothing is confirmed while fewer nodes are in sync", found.min_in_sync),
        ("shortage", "1 while publishers wait for other nodes", int(node.shortage != "")),
    )
    texts = [single(f"flintmq_cluster_{name}", GAUGE, text, value) for name, text, value in whole]
    for name, text, read in _OF_NODES:
        samples = [({"node": each.name}, value) for each in found.nodes if (value := read(each)) is not None]
        texts.append(several(f"flintmq_cluster_node_{name}", GAUGE, text, samples))
    return "".join(texts)
