"""What links have left behind, on the page of connections."""

import httpx
from playwright.sync_api import expect

from flintmq.wire.amqp10.termini import Source, Target
from tests.conformance.amqp10.encoding import data_section
from tests.conformance.amqp10.peer import Peer
from tests.servers import BrokerProcess
from tests.ui.chromium import Window


def test_half_a_message_of_a_link_that_is_gone_is_forgotten(window: Window, broker: BrokerProcess) -> None:
    """It is listed with its size, and goes when somebody confirms that; with the last one goes the table."""
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        api.put("/api/queues/%2F/halves", json={"durable": True}).raise_for_status()
    with Peer(broker.port, "a container") as peer:
        session = peer.start().session()
        target = Target(address="/queues/halves", expiry_policy="never")
        sender = session.sender(target, name="half-sent", source=Source(expiry_policy="never"))
        peer.wait(lambda: sender.credit > 0, sender.ill)
        sender.begin(data_section(b"x" * 4_000)[:2_048], b"tag")
        session.sync()
        window.go("connections")
        row = window.page.locator("tr").filter(has_text="half-sent")
        expect(row).to_contain_text("attached")
        expect(row.get_by_role("button", name="Forget")).to_have_count(0)
    expect(row).to_contain_text("suspended")
    expect(row).to_contain_text("a container")
    expect(row).to_contain_text("2 KiB")
    row.get_by_role("button", name="Forget").click()
    window.page.get_by_role("button", name="Forget link").click()
    expect(window.page.get_by_role("table", name="Resumable links")).to_have_count(0)
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        assert api.get("/api/resumable-links").json() == []
        api.delete("/api/queues/%2F/halves").raise_for_status()
