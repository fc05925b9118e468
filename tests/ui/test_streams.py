"""Streams: how much is in them, and who reads them, as far as the broker knows."""

import time

from playwright.sync_api import Route, expect

import flintmq.client as fc
from tests.servers import BrokerProcess
from tests.ui.chromium import Window
from tests.ui.samples import BODIES, publish

STREAM: dict[str, object] = {"x-queue-type": "stream"}


def test_a_stream_has_its_bytes(window: Window, broker: BrokerProcess) -> None:
    """The list and the stream's page say how much is on the disk; a click in either list leads to that page."""
    publish(broker, "sized", bytes(1 << 20), arguments=STREAM)
    for place in ("streams", "queues"):
        window.go(place)
        if place == "streams":
            expect(window.row("sized")).to_contain_text("1 MiB")
        window.page.get_by_role("link", name="sized").click()
        expect(window.heading).to_have_text("sized")
        expect(window.page.locator(".side [aria-current=page]")).to_have_text("Streams")
        expect(window.page.locator(".stat").filter(has_text="On disk").locator("dd")).to_have_text("1 MiB")


def test_who_reads_a_stream(window: Window, broker: BrokerProcess) -> None:
    """Consumers that are attached are named; what was read by ranges is told of, for nobody is attached then."""
    publish(broker, "read", *BODIES, arguments=STREAM)
    window.go("streams/%2F/read")
    readers = window.page.locator(".panel").filter(has=window.page.get_by_role("heading", name="Readers"))
    expect(readers).to_contain_text("No consumer is attached")
    expect(readers).to_contain_text("nothing was read this way")
    with fc.connect(broker.url) as connection, connection.channel() as channel:
        channel.stream_fetch("read", 1, 4)
        expect(readers).to_contain_text("offsets up to 3 were read this way")
        expect(readers).to_contain_text("No consumer is attached")
        messages = channel.consume("read", timeout=60, arguments={"x-stream-offset": "first"})
        next(messages)
        expect(readers.get_by_role("row")).to_have_count(2)
        expect(readers).not_to_contain_text("No consumer is attached")


def test_a_stream_is_deleted(window: Window, broker: BrokerProcess) -> None:
    """Its page asks for nothing more about it: however late the broker's answer is, the console has no complaint."""

    def answer_late(route: Route) -> None:
        answer = route.fetch()
        # For longer than the page waits between two requests.
        time.sleep(4 if route.request.method == "DELETE" else 0)
        route.fulfill(response=answer)

    publish(broker, "deleted", *BODIES, arguments=STREAM)
    window.go("streams/%2F/deleted")
    expect(window.page.get_by_text("nothing was read this way")).to_be_visible()
    window.page.route("**/api/queues/%2F/deleted", answer_late)
    window.press("Delete")
    window.dialog.get_by_role("textbox").fill("deleted")
    window.press("Delete", within=window.dialog)
    expect(window.heading).to_have_text("Streams")


def test_nobody_waits_for_consumers_of_a_stream(window: Window, broker: BrokerProcess) -> None:
    """That a queue with messages has no consumer is pointed out; of a stream it is nothing to mend."""
    publish(broker, "kept", *BODIES, arguments=STREAM)
    publish(broker, "waiting", *BODIES)
    expect(window.row("waiting")).to_contain_text("none")
    expect(window.row("kept")).to_be_visible()
    expect(window.row("kept")).not_to_contain_text("none")


def test_what_a_queue_is_and_since_when_it_is_drawn(window: Window, broker: BrokerProcess) -> None:
    """Every queue's page has its type, and charts that have just begun say when they did."""
    publish(broker, "plain", *BODIES)
    publish(broker, "logged", *BODIES, arguments=STREAM)
    for name, kind in (("plain", "classic"), ("logged", "stream")):
        window.go(f"queues/%2F/{name}")
        expect(window.heading).to_have_text(name)
        expect(window.page.locator("dl.facts")).to_contain_text(f"Type{kind}")
        expect(window.page.get_by_text("Drawn since")).to_have_count(2)
