"""Users, virtual hosts, policies, definitions and connections, administered in the browser."""

import json
import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

import flintmq.client as fc
from tests.servers import BrokerProcess
from tests.ui.chromium import Window
from tests.ui.conftest import Open
from tests.ui.samples import publish


def test_a_user_is_let_in(window: Window, broker: BrokerProcess, open_window: Open) -> None:
    """A user who is made in the browser, with a tag and permissions, gets in by AMQP and here, and sees no users."""
    window.go("users")
    window.press("New user")
    window.dialog.get_by_label("Name", exact=True).fill("ada")
    window.dialog.get_by_label("Password").fill("ada")
    window.dialog.get_by_label("Management: may log in here").check()
    window.press("Create", within=window.dialog)
    expect(window.heading).to_have_text("ada")
    window.press("Set permissions")
    window.press("Set", within=window.dialog)
    expect(window.row("/")).to_contain_text(".*")
    with fc.connect(broker.url.replace("guest:guest", "ada:ada")):
        pass
    hers = open_window("ada")
    expect(hers.page.get_by_role("link", name="Queues", exact=True).first).to_be_visible()
    expect(hers.page.get_by_role("link", name="Users")).to_have_count(0)


def test_a_policy_reaches_a_queue(window: Window, broker: BrokerProcess) -> None:
    """A policy that is made in the browser is on the queue that it matches, and off it when it is deleted."""
    publish(broker, "limited")
    window.go("policies")
    window.page.get_by_role("button", name="New policy").first.click()
    window.dialog.get_by_label("Name", exact=True).fill("short")
    window.dialog.get_by_label("Pattern").fill("^limited$")
    window.dialog.get_by_label("Definition: name 1").fill("max-length")
    window.dialog.get_by_label("Definition: value 1").fill("10")
    window.press("Create", within=window.dialog)
    expect(window.row("short")).to_contain_text("max-length: 10")
    window.go("queues/%2F/limited")
    expect(window.page.get_by_text("max-length (by policy)")).to_be_visible()
    window.go("policies")
    window.press("Delete", within=window.row("short"))
    window.press("Delete", within=window.dialog)
    expect(window.page.get_by_text("No policy yet")).to_be_visible()


def test_a_wrong_value_is_explained_in_the_form(window: Window) -> None:
    """A form stays open with the broker's reason when it does not take what was written."""
    window.expected.append(re.compile("400"))
    window.go("policies")
    window.page.get_by_role("button", name="New policy").first.click()
    window.dialog.get_by_label("Name", exact=True).fill("broken")
    window.dialog.get_by_label("Pattern").fill("(")
    window.dialog.get_by_label("Definition: name 1").fill("max-length")
    window.dialog.get_by_label("Definition: value 1").fill("10")
    window.press("Create", within=window.dialog)
    expect(window.dialog.get_by_role("alert")).not_to_be_empty()
    expect(window.dialog).to_be_visible()


def test_a_wrong_filter_is_refused(window: Window) -> None:
    """A list whose filter is a wrong regular expression says that the request was refused, not that nobody answers."""
    window.expected.append(re.compile("400"))
    window.go("queues")
    window.page.get_by_label("Filter queues").fill("(")
    window.page.get_by_label("Regular expression").check()
    expect(window.page.get_by_role("heading", name="Request refused")).to_be_visible()


def test_a_virtual_host_is_chosen(window: Window) -> None:
    """A virtual host that is made in the browser can be chosen in the bar, and lists then show what is in it."""
    window.go("vhosts")
    window.press("New virtual host")
    window.dialog.get_by_label("Name", exact=True).fill("shop/eu")
    window.press("Create", within=window.dialog)
    expect(window.row("shop/eu")).to_be_visible()
    window.page.get_by_label("Virtual host", exact=True).select_option("shop/eu")
    window.go("exchanges")
    expect(window.row("amq.topic")).to_have_count(1)


def test_definitions_go_out_and_come_back(window: Window, broker: BrokerProcess, tmp_path: Path) -> None:
    """What is exported is RabbitMQ's format; imported again with a queue more in it, that queue is there."""
    publish(broker, "defined")
    window.go("definitions")
    with window.page.expect_download() as download:
        window.press("Save as a file")
    definitions = json.loads(Path(download.value.path()).read_text())
    assert "defined" in {queue["name"] for queue in definitions["queues"]}
    queue = next(queue for queue in definitions["queues"] if queue["name"] == "defined")
    definitions["queues"].append({**queue, "name": "imported"})
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(definitions))
    window.page.get_by_label("A file that FlintMQ or RabbitMQ exported").set_input_files(edited)
    window.press("Import…")
    window.press("Import", within=window.dialog)
    expect(window.notice).to_contain_text("Definitions imported.")
    window.go("queues/%2F/imported")
    expect(window.page.get_by_text("About this queue")).to_be_visible()


def test_a_connection_is_closed(window: Window, broker: BrokerProcess) -> None:
    """A client whose connection is closed in the browser is told so, with the reason that was written."""
    with fc.connect(broker.url, name="the one to close") as connection:
        window.go("connections")
        window.page.get_by_role("link", name="the one to close").click()
        window.press("Close connection")
        window.dialog.get_by_label("Reason for the client").fill("out of office")
        window.press("Close connection", within=window.dialog)
        expect(window.heading).to_have_text("Connections")
        expect(window.page.get_by_role("link", name="the one to close")).to_have_count(0)
        with pytest.raises(fc.ConnectionClosed, match="out of office"):
            connection.channel()


def test_who_monitors_closes_no_connection(window: Window, broker: BrokerProcess, open_window: Open) -> None:
    """What the API would refuse is not offered."""
    user = {"password": "looker", "tags": "monitoring"}
    httpx.put(f"{broker.http_url}/api/users/looker", json=user, auth=("guest", "guest"), timeout=60).raise_for_status()
    looking = open_window("looker")
    with fc.connect(broker.url, name="another's"):
        for one, buttons in ((window, 1), (looking, 0)):
            one.go("connections")
            one.page.get_by_role("link", name="another's").click()
            expect(one.page.get_by_text("About this connection")).to_be_visible()
            expect(one.page.get_by_role("button", name="Close connection")).to_have_count(buttons)
            # The page asks for its connection every two seconds, and must not do so when that is closed.
            one.go("connections")
            expect(one.heading).to_have_text("Connections")
