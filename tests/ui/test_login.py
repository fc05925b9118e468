"""Logging in and out: who is let in, and where the password is kept."""

import re

import httpx
from playwright.sync_api import expect

from tests.servers import BrokerProcess
from tests.ui.conftest import Open
from tests.ui.samples import publish

REFUSED = re.compile("401")


def test_a_wrong_password_is_said_and_nothing_is_shown(open_window: Open) -> None:
    """Whoever gives a wrong password stays outside, and reads why."""
    window = open_window(name="")
    window.expected.append(REFUSED)
    window.log_in("guest", "wrong")
    expect(window.page.get_by_role("alert")).to_contain_text("Wrong user name or password")
    expect(window.page.locator(".shell")).to_have_count(0)


def test_the_password_stays_in_the_tab(open_window: Open) -> None:
    """A login survives a reload of its tab; no cookie and nothing lasting is left, and another tab has to log in."""
    window = open_window()
    window.page.reload()
    expect(window.heading).to_have_text("Overview")
    assert window.page.context.cookies() == []
    assert window.page.evaluate("JSON.stringify(localStorage)") == "{}"
    other = window.page.context.new_page()
    other.goto(window.page.url)
    expect(other.get_by_role("button", name="Log in")).to_be_visible()


def test_logging_out_forgets_the_password(open_window: Open) -> None:
    """After logging out, the tab knows no password any more."""
    window = open_window()
    window.page.get_by_role("button", name="Log out").click()
    expect(window.page.get_by_role("button", name="Log in")).to_be_visible()
    assert window.page.evaluate("sessionStorage.getItem('flintmq.session')") is None


def test_a_right_that_is_missing_is_no_lost_login(open_window: Open, broker: BrokerProcess) -> None:
    """A user who lacks a right is told so and stays logged in; so does one who opens a page of administrators."""
    publish(broker, "kept", b"message")
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        api.put("/api/users/ada", json={"password": "ada", "tags": "management"}).raise_for_status()
        api.put("/api/permissions/%2F/ada", json={"configure": "^$", "write": "^$", "read": ".*"}).raise_for_status()
    window = open_window("ada")
    window.expected.append(REFUSED)
    window.go("queues/%2F/kept")
    window.press("Delete")
    window.dialog.get_by_role("textbox").fill("kept")
    window.press("Delete", within=window.dialog)
    expect(window.dialog.get_by_role("alert")).to_contain_text("access to queue 'kept'")
    window.page.reload()
    expect(window.heading).to_have_text("kept")
    window.go("users")
    expect(window.page.locator(".shell")).to_be_visible()
    assert window.page.evaluate("sessionStorage.getItem('flintmq.session')") is not None


def test_a_login_that_is_withdrawn_ends(open_window: Open, broker: BrokerProcess) -> None:
    """A user who is deleted while logged in gets the login page, which says why."""
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as api:
        api.put("/api/users/bob", json={"password": "bob", "tags": "management"}).raise_for_status()
        window = open_window("bob")
        window.expected.append(REFUSED)
        api.delete("/api/users/bob").raise_for_status()
    expect(window.page.get_by_role("alert")).to_contain_text("no longer accepts this login")


def test_no_foreign_page_can_use_it(open_window: Open) -> None:
    """The page refuses to be framed, to run what stands in itself, and to ask other machines."""
    window = open_window(name="")
    answer = window.page.goto(window.page.url)
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy
