"""A cluster as the API describes it: what the pages show of its nodes."""

import json
from collections.abc import Callable
from typing import Any, Final

from playwright.sync_api import Locator, Route, expect

from tests.ui.chromium import PHONE, Window, axe_missing
from tests.ui.conftest import Open

NONE: Final = "\u2013"
# Fields of a node of a cluster besides those that the broker here has.
_LEADS: Final = {
    "name": "flintmq@a",
    "is_leader": True,
    "is_in_sync": True,
    "behind_bytes": 0,
    "behind_seconds": 0.0,
    "address": "10.0.0.1:5670",
    "version": "1.0",
}


def _follower(name: str, **fields: object) -> dict[str, object]:
    return {
        "name": name,
        "type": "disc",
        "running": True,
        "partitions": [],
        "is_leader": False,
        "is_in_sync": True,
        "behind_bytes": 0,
        "behind_seconds": 0.0,
        "address": "10.0.0.2:5670",
        "version": "1.0",
        **fields,
    }


FOLLOWERS: Final = (
    _follower("flintmq@b", behind_bytes=2048, behind_seconds=0.25),
    _follower("flintmq@c", is_in_sync=False, behind_bytes=3 * 1024**2, behind_seconds=4.0),
    _follower("flintmq@d", running=False, is_in_sync=False, behind_bytes=None, behind_seconds=None),
)


def _changed(window: Window, path: str, change: Callable[[Any], object]) -> None:
    """Answer a path of the API with something else than the broker here would."""

    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, body=json.dumps(change(response.json())))

    window.page.route(path, answer)


def _as_cluster(window: Window, shortage: str = "") -> None:
    _changed(window, "**/api/nodes*", lambda nodes: [nodes[0] | _LEADS, *FOLLOWERS])
    cluster = {"term": 7, "nodes": 4, "in_sync": 2, "min_in_sync": 2, "shortage": shortage}
    _changed(window, "**/api/overview*", lambda overview: overview | {"cluster": cluster})
    window.page.reload()


def _rows(table: Locator) -> list[list[str]]:
    expect(table.get_by_role("row")).to_have_count(5)
    rows = table.get_by_role("row").all()[1:]
    return [[cell.inner_text() for cell in row.locator("th, td").all()] for row in rows]


def test_the_nodes_of_a_cluster(window: Window) -> None:
    """The overview and the page of the node show who leads, who is in sync, and how far others are behind."""
    _as_cluster(window)
    for place in ("", "node"):
        window.go(place)
        rows = _rows(window.page.get_by_role("table", name="Nodes"))
        assert rows == [
            ["flintmq@a", "leads", NONE, NONE, "10.0.0.1:5670", "1.0"],
            ["flintmq@b", "in sync", "2 KiB", "250 ms", "10.0.0.2:5670", "1.0"],
            ["flintmq@c", "not in sync", "3 MiB", "4 s", "10.0.0.2:5670", "1.0"],
            ["flintmq@d", "not running", NONE, NONE, "10.0.0.2:5670", "1.0"],
        ]
        expect(window.page.get_by_role("alert")).to_have_count(0)
    # Only the node that leads has resources to show.
    expect(window.page.get_by_role("meter", name="Memory")).to_have_count(1)
    expect(window.page.locator(".panel h2").filter(has_text="flintmq@")).to_have_text(["flintmq@a"])


def test_publishers_that_wait_for_other_nodes(window: Window) -> None:
    """Both pages say why publishers wait, and what to do."""
    _as_cluster(window, "1 of 2 nodes in sync")
    for place in ("", "node"):
        window.go(place)
        expect(window.page.get_by_role("alert")).to_contain_text("1 of 2 nodes in sync")
        expect(window.page.get_by_role("alert")).to_contain_text("Start nodes that do not run")


def test_a_node_without_a_cluster(window: Window) -> None:
    """There is no table of nodes."""
    for place in ("", "node"):
        window.go(place)
        expect(window.heading).to_have_text("Overview" if not place else "Node")
        expect(window.page.get_by_text("Loading…")).to_have_count(0)
        expect(window.page.get_by_role("table", name="Nodes")).to_have_count(0)


def test_a_cluster_on_a_phone(open_window: Open) -> None:
    """The table of nodes fits, and hinders nobody."""
    window = open_window(size=PHONE)
    _as_cluster(window, "1 of 2 nodes in sync")
    window.go("node")
    expect(window.page.get_by_role("table", name="Nodes")).to_be_visible()
    if not axe_missing():
        assert window.hindrances() == []
    assert window.overhang() <= 0
