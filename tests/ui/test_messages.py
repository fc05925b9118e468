"""Messages by hand: declared for, published, looked at, searched and moved, all in the browser."""

from playwright.sync_api import expect

from tests.servers import BrokerProcess
from tests.ui.chromium import Window
from tests.ui.samples import BODIES, publish, taken


def test_declare_publish_browse_and_move(window: Window, broker: BrokerProcess) -> None:
    """A queue that is made in the browser takes a message, shows it, and gives it to another one."""
    publish(broker, "elsewhere")
    window.go("queues")
    window.page.get_by_role("button", name="New queue").first.click()
    window.dialog.get_by_label("Name", exact=True).fill("by hand")
    window.press("Create", within=window.dialog)
    expect(window.heading).to_have_text("by hand")

    window.press("Publish")
    window.dialog.get_by_label("Body").fill('{"written": "by hand"}')
    window.press("Publish", within=window.dialog)
    expect(window.notice).to_contain_text("Message published.")

    window.page.get_by_role("link", name="Browse messages").click()
    message = window.page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(message).to_have_count(1)
    message.get_by_role("button").click()
    expect(window.dialog.locator("pre")).to_contain_text('"written": "by hand"')
    window.dialog.get_by_role("button", name="Close").click()

    message.get_by_role("checkbox").check()
    window.press("Move…")
    window.dialog.get_by_label("To queue").fill("elsewhere")
    window.press("Move", within=window.dialog)
    expect(window.notice).to_contain_text("1 message moved to elsewhere.")
    expect(window.page.get_by_text("No messages")).to_be_visible()
    assert taken(broker, "elsewhere") == [b'{"written": "by hand"}']


def test_search_shows_what_has_the_words(window: Window, broker: BrokerProcess) -> None:
    """Of many messages, a search leaves those that have the text in them, and marks it."""
    publish(broker, "haystack", *BODIES)
    window.go("messages?vhost=%2F&queue=haystack")
    messages = window.page.get_by_role("list", name="Messages").get_by_role("listitem")
    expect(messages).to_have_count(len(BODIES))
    window.page.get_by_label("Search messages").fill("customer 3")
    expect(messages).to_have_count(1)
    expect(messages.locator("mark")).to_have_text("customer 3")
    window.page.get_by_label("Search messages").fill("no such thing")
    expect(window.page.get_by_text("No message in haystack contains")).to_be_visible()


def test_looking_takes_nothing(window: Window, broker: BrokerProcess) -> None:
    """Messages that were looked at are still there for consumers, in their order."""
    publish(broker, "looked at", *BODIES)
    window.go("messages?vhost=%2F&queue=looked%20at")
    expect(window.page.get_by_role("list", name="Messages").get_by_role("listitem")).to_have_count(len(BODIES))
    assert taken(broker, "looked at") == list(BODIES)


def test_an_unroutable_message_is_told(window: Window) -> None:
    """Whoever publishes where nothing is bound reads that the message was not routed."""
    window.go("exchanges/%2F/amq.topic")
    window.press("Publish")
    window.press("Publish", within=window.dialog)
    expect(window.notice).to_contain_text("was not routed")


def test_purge_and_delete_ask_first(window: Window, broker: BrokerProcess) -> None:
    """A queue is purged after a question, and deleted only by whoever types its name."""
    publish(broker, "unwanted", *BODIES)
    window.go("queues/%2F/unwanted")
    window.press("Purge")
    window.press("Purge", within=window.dialog)
    expect(window.notice).to_contain_text("Queue purged.")
    assert taken(broker, "unwanted") == []
    window.press("Delete")
    delete = window.dialog.get_by_role("button", name="Delete", exact=True)
    expect(delete).to_be_disabled()
    window.dialog.get_by_role("textbox").fill("unwanted")
    delete.click()
    expect(window.heading).to_have_text("Queues")
    expect(window.row("unwanted")).to_have_count(0)
