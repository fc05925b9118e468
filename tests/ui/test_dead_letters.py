"""Dead letters: found, looked into, and sent back to where they died."""

from playwright.sync_api import expect

from tests.servers import BrokerProcess
from tests.ui.chromium import Window
from tests.ui.samples import BODIES, publish, reject, taken


def test_causes_are_told_of_the_oldest_only(window: Window, broker: BrokerProcess) -> None:
    """Where a queue has more dead letters than are looked into, the page says of how many the causes are."""
    publish(broker, "crowded")
    bodies = [b"message"] * 250
    publish(broker, "weak", *bodies, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "crowded"})
    reject(broker, "weak")
    window.go("dead")
    expect(window.row("crowded")).to_contain_text("200 rejected on weak")
    expect(window.row("crowded")).to_contain_text("counted in the oldest 200 only")


def test_dead_letters_are_driven_back(window: Window, broker: BrokerProcess) -> None:
    """Rejected messages are listed with their reason; those that are selected go back, then all that are left."""
    publish(broker, "grave")
    publish(broker, "fragile", *BODIES, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"})
    reject(broker, "fragile")

    window.go("dead")
    expect(window.row("grave")).to_contain_text("rejected on fragile")
    window.row("grave").get_by_role("link", name="View").click()
    letters = window.page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(letters).to_have_count(len(BODIES))
    expect(letters.first).to_contain_text("rejected on fragile")

    for place in (0, 2):
        letters.nth(place).get_by_role("checkbox").check()
    window.press("Redrive selected")
    window.press("Redrive", within=window.dialog)
    expect(window.notice).to_contain_text("2 messages redriven.")
    expect(letters).to_have_count(len(BODIES) - 2)
    assert taken(broker, "fragile") == [BODIES[0], BODIES[2]]

    window.press("Redrive all")
    window.press("Redrive", within=window.dialog)
    expect(window.notice).to_contain_text("3 messages redriven.")
    expect(window.page.get_by_text("No dead letters left")).to_be_visible()
    assert taken(broker, "fragile") == [BODIES[1], BODIES[3], BODIES[4]]
