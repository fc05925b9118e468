"""What holds for every page, in both themes, on a desktop and on a phone: it can be used by everybody, and it fits."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.servers import BrokerProcess
from tests.ui.chromium import DESKTOP, PHONE, Scheme, Window, axe_missing
from tests.ui.samples import furnish

# Places, and the headings by which they are known.
PAGES: Final = {
    "": "Overview",
    "queues": "Queues",
    "queues/%2F/orders": "orders",
    "queues/%2F/events": "events",
    "streams": "Streams",
    "streams/%2F/events": "events",
    "exchanges": "Exchanges",
    "exchanges?view=map": "Exchanges",
    "exchanges/%2F/shop": "shop",
    "messages?vhost=%2F&queue=orders": "Messages",
    "dead": "Dead letters",
    "dead?vhost=%2F&queue=grave": "grave",
    "connections": "Connections",
    "channels": "Channels",
    "pipelines": "Pipelines",
    "users": "Users",
    "users/guest": "guest",
    "vhosts": "Virtual hosts",
    "policies": "Policies",
    "definitions": "Definitions",
    "node": "Node",
}
LOOKS: Final[list[tuple[Scheme, tuple[int, int]]]] = [("light", DESKTOP), ("dark", DESKTOP), ("light", PHONE)]


@pytest.fixture(scope="module", params=LOOKS, ids=["light", "dark", "phone"])
def window(request: pytest.FixtureRequest, browser: Browser, broker: BrokerProcess) -> Iterator[Window]:
    if axe_missing():
        pytest.skip(axe_missing())
    scheme, size = request.param
    furnish(broker)
    with ExitStack() as windows:
        opened = windows.enter_context(Window(browser, broker.http_url, scheme, size))
        assert opened.hindrances() == []
        opened.log_in()
        opened.page.locator(".shell").wait_for()
        yield opened


@pytest.mark.parametrize("place", PAGES)
def test_nothing_hinders_anybody(window: Window, place: str) -> None:
    """A page has its heading, all it shows has come, axe finds nothing serious, and nothing hangs over the edge."""
    window.go(place)
    expect(window.heading).to_have_text(PAGES[place])
    expect(window.page.get_by_text("Loading…")).to_have_count(0)
    expect(window.page.get_by_text("Not found")).to_have_count(0)
    assert window.hindrances() == []
    assert window.overhang() <= 0
