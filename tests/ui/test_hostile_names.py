"""Names and messages that try to be markup are shown as what they are."""

from typing import Final
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

import flintmq.client as fc
from tests.servers import BrokerProcess
from tests.ui.chromium import Window
from tests.ui.samples import MARKUP, properties

QUOTED: Final = quote(MARKUP, safe="")


@pytest.mark.parametrize(
    "place",
    [
        "",
        "queues",
        f"queues/%2F/{QUOTED}",
        "exchanges",
        "exchanges?view=map",
        f"exchanges/%2F/{QUOTED}",
        f"messages?vhost=%2F&queue={QUOTED}",
        "connections",
        "channels",
    ],
)
def test_markup_is_text(window: Window, broker: BrokerProcess, place: str) -> None:
    """Whatever a client calls things, and whatever it sends, becomes text on the page, and never an element."""
    with fc.connect(broker.url, name=MARKUP) as connection, connection.channel(confirms=True) as channel:
        channel.declare_exchange(MARKUP, "direct")
        channel.declare_queue(MARKUP, arguments={"x-" + MARKUP: MARKUP})
        channel.bind(MARKUP, MARKUP, MARKUP)
        channel.publish_batch([("", MARKUP, MARKUP.encode(), properties({MARKUP: MARKUP}))])
        window.go(place)
        if place != "channels":
            expect(window.page.get_by_text(MARKUP).first).to_be_attached()
        expect(window.page.get_by_text("Loading…")).to_have_count(0)
        assert window.page.locator("img, iframe, object, script:not([src])").count() == 0
        assert window.page.title() != "1"


def test_markup_in_a_message_is_text(window: Window, broker: BrokerProcess) -> None:
    """A message that is opened shows its body and its headers as they were sent."""
    with fc.connect(broker.url) as connection, connection.channel(confirms=True) as channel:
        channel.declare_queue("hostile")
        channel.publish_batch([("", "hostile", MARKUP.encode(), properties({MARKUP: MARKUP}))])
    window.go("messages?vhost=%2F&queue=hostile")
    window.page.get_by_role("list", name="Messages").get_by_role("button").first.click()
    expect(window.dialog.locator("pre")).to_have_text(MARKUP)
    expect(window.dialog.get_by_text(MARKUP)).to_have_count(3)
    assert window.page.locator("img").count() == 0
