"""What was before somebody looked."""

from datetime import datetime
from functools import partial
from zoneinfo import ZoneInfo

import httpx
from playwright.sync_api import Route, expect

import flintmq.client as fc
from tests.servers import BrokerProcess
from tests.ui.chromium import Window
from tests.ui.samples import BODIES, properties
from tests.waiting import wait_until

# Whether the first line of a chart is drawn: enough of a pixel has its colour, or nearly, for edges are smoothed.
IS_DRAWN = """chart => {
  const drawn = chart.querySelector("canvas");
  const copy = new OffscreenCanvas(drawn.width, drawn.height).getContext("2d", { willReadFrequently: true });
  copy.fillStyle = getComputedStyle(chart.querySelector(".swatch.tone-1")).backgroundColor;
  copy.fillRect(0, 0, 1, 1);
  const wanted = copy.getImageData(0, 0, 1, 1).data;
  copy.clearRect(0, 0, 1, 1);
  copy.drawImage(drawn, 0, 0);
  const { data } = copy.getImageData(0, 0, drawn.width, drawn.height);
  const isNear = (at, part) => Math.abs(data[at + part] - wanted[part]) < 16;
  return data.some((_, at) => at % 4 === 0 && data[at + 3] > 127 && [0, 1, 2].every((part) => isNear(at, part)));
}"""


def course(broker: BrokerProcess, place: str, name: str) -> list[dict[str, int]]:
    """What the API says had been published by when, the newest first.

    It has all looks of the broker. They are five seconds apart, and a page leaves out those that come a little sooner.
    """
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        shown = api.get(f"/api/{place}/%2F/{name}?msg_rates_age=450&msg_rates_incr=1").json().get("message_stats", {})
    details = shown.get("publish_in_details" if place == "exchanges" else "publish_details", {})
    samples: list[dict[str, int]] = details.get("samples", [])
    return samples


def last_of(samples: list[dict[str, int]]) -> int:
    return samples[0]["sample"] if samples else 0


def answer_once(window: Window, address: str) -> None:
    """The broker answers the first request, and none after it."""
    asked: list[str] = []

    def handle(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.continue_()

    window.page.route(address, handle)


def test_what_was_before_is_drawn_at_once(window: Window, broker: BrokerProcess) -> None:
    """The first answer that a page gets has the last minutes in it: its charts begin before it was opened."""
    places = (("queues", "past", 2), ("streams", "gone-by", 2), ("exchanges", "passed", 1))
    with fc.connect(broker.url) as connection, connection.channel(confirms=True) as channel:
        channel.declare_exchange("passed", "fanout")
        channel.declare_queue("past")
        channel.declare_queue("gone-by", arguments={"x-queue-type": "stream"})
        channel.bind("past", "passed")
        channel.bind("gone-by", "passed")
        for _ in range(3):
            # Between two looks of the broker.
            known = course(broker, "streams", "gone-by")
            wait_until(partial(lambda known: course(broker, "streams", "gone-by") != known, known))
            channel.publish_batch([("passed", "", body, properties()) for body in BODIES])
    sent = 3 * len(BODIES)
    wait_until(lambda: all(last_of(course(broker, place, name)) == sent for place, name, _ in places))
    zone = ZoneInfo(window.page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone"))
    for place, name, charts in places:
        times = [datetime.fromtimestamp(sample["timestamp"] / 1000, zone) for sample in course(broker, place, name)]
        answer_once(window, f"**/api/*/%2F/{name}?*")
        window.go(f"{place}/%2F/{name}")
        expect(window.heading).to_have_text(name)
        since = window.page.get_by_text("Drawn since")
        expect(since).to_have_count(charts)
        assert {text.removeprefix("Drawn since ") for text in since.all_inner_texts()} <= {
            f"{at:%H:%M:%S}" for at in times
        }
        for chart in window.page.locator("figure").all():
            window.page.wait_for_function(IS_DRAWN, arg=chart.element_handle())
