"""Exchanges and where they lead: drawn, bound and taken apart."""

from playwright.sync_api import expect

from tests.servers import BrokerProcess
from tests.ui.chromium import Window
from tests.ui.samples import publish


def test_a_binding_is_drawn(window: Window, broker: BrokerProcess) -> None:
    """An exchange that is made and bound in the browser is drawn with its queue and its key, until it is unbound."""
    publish(broker, "drawn")
    window.go("exchanges")
    window.press("New exchange")
    window.dialog.get_by_label("Name", exact=True).fill("painter")
    window.press("Create", within=window.dialog)
    expect(window.heading).to_have_text("painter")
    window.press("Bind")
    window.dialog.get_by_label("Name", exact=True).fill("drawn")
    window.dialog.get_by_label("Routing key").fill("red.#")
    window.press("Bind", within=window.dialog)

    graph = window.page.get_by_role("region", name="Bindings in /")
    expect(graph.get_by_role("link", name="painter")).to_be_visible()
    expect(graph.get_by_role("link", name="drawn")).to_be_visible()
    expect(graph.locator(".key text")).to_contain_text("red.#")
    graph.get_by_role("link", name="drawn").click()
    expect(window.heading).to_have_text("drawn")
    expect(graph.get_by_role("link", name="painter")).to_be_visible()

    window.press("Unbind", within=window.row("painter"))
    expect(window.page.get_by_text("No bindings.")).to_be_visible()


def test_the_map_shows_a_whole_virtual_host(window: Window, broker: BrokerProcess) -> None:
    """What was bound by AMQP is on the map of its virtual host, and each box leads to its page."""
    publish(broker, "mapped")
    window.go("queues/%2F/mapped")
    window.press("Bind")
    window.dialog.get_by_label("Exchange").fill("amq.fanout")
    window.press("Bind", within=window.dialog)
    window.go("exchanges?view=map")
    graph = window.page.get_by_role("region", name="Bindings in /")
    graph.get_by_role("link", name="amq.fanout").click()
    expect(window.heading).to_have_text("amq.fanout")
