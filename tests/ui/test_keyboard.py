"""Everything by the keyboard, and by people who want their keys for themselves."""

from playwright.sync_api import expect

from tests.ui.chromium import PHONE, Window
from tests.ui.conftest import Open


def test_the_first_key_skips_the_menu(window: Window) -> None:
    """Tab leads to a link over the menu, which takes whoever follows it to the content."""
    window.page.reload()
    window.heading.wait_for()
    window.page.keyboard.press("Tab")
    expect(window.page.get_by_text("Skip to content")).to_be_focused()
    window.page.keyboard.press("Enter")
    expect(window.page.locator("main")).to_be_focused()


def test_keys_lead_to_pages(window: Window) -> None:
    """g and a letter go to a page, whose heading has the focus then; / goes to its search."""
    # The two belong together by the time between them, which is none on this clock.
    window.page.evaluate("() => { const now = performance.now(); performance.now = () => now; }")
    window.page.keyboard.press("g")
    window.page.keyboard.press("q")
    expect(window.heading).to_have_text("Queues")
    expect(window.heading).to_be_focused()
    window.page.keyboard.press("/")
    expect(window.page.get_by_role("searchbox")).to_be_focused()
    window.page.keyboard.type("gq?")
    expect(window.page.get_by_role("searchbox")).to_have_value("gq?")


def test_keys_can_be_switched_off(window: Window) -> None:
    """The list of keys opens by its own, closes by Escape, gives the focus back, and has the switch for all of them."""
    help_button = window.page.get_by_role("button", name="Keyboard shortcuts")
    help_button.focus()
    window.page.keyboard.press("?")
    expect(window.dialog).to_be_visible()
    window.dialog.get_by_label("Single-key shortcuts").uncheck()
    window.page.keyboard.press("Escape")
    expect(window.dialog).to_have_count(0)
    expect(help_button).to_be_focused()
    window.page.keyboard.press("?")
    window.page.keyboard.press("g")
    window.page.keyboard.press("q")
    expect(window.heading).to_have_text("Overview")


def test_the_theme_is_kept(open_window: Open) -> None:
    """The page follows the system's theme until somebody chooses, and then stays with that, also after a reload."""
    window = open_window(scheme="dark")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = window.page.evaluate(background)
    window.page.get_by_role("button", name="Light theme").click()
    light = window.page.evaluate(background)
    assert light != dark
    window.page.reload()
    window.heading.wait_for()
    assert window.page.evaluate(background) == light


def test_the_menu_of_a_phone(open_window: Open) -> None:
    """On a phone the menu is out of the way and out of the order of the keys until it is asked for."""
    window = open_window(size=PHONE)
    menu = window.page.get_by_role("navigation", name="Pages")
    expect(menu).to_be_hidden()
    window.page.get_by_role("button", name="Menu", exact=True).click()
    menu.get_by_role("link", name="Queues").click()
    expect(window.heading).to_have_text("Queues")
    expect(menu).to_be_hidden()
