"""Chromium as the system has it, and what the tests ask of its pages."""

import re
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page

import flintmq
from tests.waiting import WAIT_SECONDS

Scheme = Literal["light", "dark"]
DESKTOP: Final = (1280, 860)
PHONE: Final = (390, 844)
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_AXE: Final = Path(__file__).parent / "node/node_modules/axe-core/axe.min.js"
_NOTICES: Final = Path(flintmq.__file__).parent / "management/ui/parts/notices.js"
# What hinders somebody; axe's other findings are advice.
_SERIOUS: Final = ("serious", "critical")


def executable() -> str:
    """Where the browser is, or ""."""
    return next((found for name in _NAMES if (found := shutil.which(name))), "")


def axe_missing() -> str:
    """Why pages cannot be looked at for accessibility here, or ""."""
    return "" if _AXE.is_file() else "axe-core is not installed: npm ci --prefix tests/ui/node"


def _lasting_notices() -> str:
    """A script by which notices stay on the page: a test that stands still for some seconds must not miss them."""
    shown = re.search(r"SHOWN_MS = (\d+);", _NOTICES.read_text())
    assert shown is not None
    return f"""
        const wait = window.setTimeout;
        window.setTimeout = (act, pause, ...rest) => (pause === {shown[1]} ? 0 : wait(act, pause, ...rest));
    """


class Window:
    """One tab. Leaving it fails the test when anything was complained about in its console."""

    def __init__(self, browser: Browser, address: str, scheme: Scheme, size: tuple[int, int]) -> None:
        self._address = address
        self._context: BrowserContext = browser.new_context(
            color_scheme=scheme, viewport={"width": size[0], "height": size[1]}, locale="en-GB", bypass_csp=False
        )
        self._context.set_default_timeout(WAIT_SECONDS * 1000)
        self._context.add_init_script(_lasting_notices())
        self.page: Page = self._context.new_page()
        self.complaints: list[str] = []
        # What a test expects to be refused: the browser logs such answers as errors.
        self.expected: list[re.Pattern[str]] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def __enter__(self) -> Self:
        self.page.goto(self._address)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.close()
        if kind is None:
            unexpected = [each for each in self.complaints if not any(known.search(each) for known in self.expected)]
            assert not unexpected, unexpected

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    # -- going about ----------------------------------------------------------------------------------------------

    def log_in(self, name: str = "guest", password: str = "guest") -> None:
        self.page.get_by_label("User").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()

    def go(self, place: str) -> None:
        """To a page, by what follows "#/" in its address."""
        self.page.evaluate("place => { location.hash = '#/' + place; }", place)

    def press(self, name: str, *, within: Locator | None = None) -> None:
        (within or self.page.locator("main")).get_by_role("button", name=name, exact=True).click()

    @property
    def heading(self) -> Locator:
        return self.page.get_by_role("heading", level=1)

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    @property
    def notice(self) -> Locator:
        """The last one."""
        return self.page.locator(".notice").last

    def row(self, text: str) -> Locator:
        """A table's row, by the text of its first cell."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_role("rowheader", name=text))

    # -- what it looks like ---------------------------------------------------------------------------------------

    def overhang(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def hindrances(self) -> list[str]:
        """What axe finds that hinders people who see, hear or move differently."""
        if not self.page.evaluate("typeof axe !== 'undefined'"):
            self.page.evaluate(_AXE.read_text())
        found: dict[str, Any] = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{violation['id']}: {violation['nodes'][0]['html']} {violation['nodes'][0]['failureSummary']}"
            for violation in found["violations"]
            if violation["impact"] in _SERIOUS
        ]
