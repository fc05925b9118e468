"""Numbers that change while somebody looks."""

import re

from playwright.sync_api import expect

from tests.servers import BrokerProcess
from tests.ui.chromium import Window
from tests.ui.samples import BODIES, publish, taken


def test_the_overview_follows_the_broker(window: Window, broker: BrokerProcess) -> None:
    """How many messages wait is on the first page, drawn as it goes, without anybody asking for it again."""
    ready = window.page.locator(".stat").filter(has_text="Ready").locator("dd")
    expect(ready).to_have_text("0")
    publish(broker, "counted", *BODIES)
    expect(ready).to_have_text(str(len(BODIES)))
    expect(window.page.locator(".chart canvas").first).to_be_visible()
    assert taken(broker, "counted") == list(BODIES)
    expect(ready).to_have_text("0")


def test_a_broker_that_is_gone_is_told(window: Window, broker: BrokerProcess) -> None:
    """While the broker does not answer, the bar says so; when it is back on its port, so are the numbers."""
    window.expected.append(re.compile("ERR_CONNECTION"))
    sign = window.page.locator(".beat")
    expect(sign).to_contain_text("Live")
    window.page.route("**/api/**", lambda route: route.abort("connectionrefused"))
    expect(sign).to_have_text("No answer")
    window.page.unroute("**/api/**")
    expect(sign).to_contain_text("Live")


def test_the_node_tells_what_clients_wait_for(window: Window) -> None:
    """The page of the node has the durations of ticks, and the stalls of the event loop."""
    window.go("node")
    durations = re.compile(r"^p50 [\d.]+ ms, p99 [\d.]+ ms, longest [\d.]+ ms$")
    for name in ("Ticks, last minute", "Stalls of the event loop, last minute"):
        expect(window.page.locator(".facts dt").filter(has_text=name).locator("+ dd")).to_have_text(durations)
