"""Logging in and out: who is let in, and where the password is kept."""

import re

from playwright.sync_api import expect

from tests.ui.conftest import Open

REFUSED = re.compile("401")


def test_a_wrong_password_is_said_and_nothing_is_shown(open_window: Open) -> None:
    """Whoever gives a wrong password stays outside, and reads why."""
    window = open_window(name="")
    window.expected.append(REFUSED)
    window.log_in("guest", "wrong")
    expect(window.page.get_by_role("alert")).to_contain_text("do not fit")
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


def test_no_foreign_page_can_use_it(open_window: Open) -> None:
    """The page refuses to be framed, to run what stands in itself, and to ask other machines."""
    window = open_window(name="")
    answer = window.page.goto(window.page.url)
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy
