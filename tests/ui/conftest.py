"""A broker for a file's tests, and a browser that looks at it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.servers import BrokerProcess
from tests.ui.chromium import DESKTOP, Scheme, Window, executable
from tests.waiting import WAIT_SECONDS

Open = Callable[..., Window]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("ui") / "data") as running:
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """For this folder only: while it is there, a loop runs in this thread, and other tests cannot have their own."""
    path = executable()
    if not path:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        # A container's own walls take the place of the browser's, which need rights that containers do not have.
        launched = playwright.chromium.launch(
            executable_path=path,
            args=["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"],
            timeout=WAIT_SECONDS * 1000,
        )
        expect.set_options(timeout=WAIT_SECONDS * 1000)
        yield launched
        launched.close()


@pytest.fixture
def open_window(browser: Browser, broker: BrokerProcess) -> Iterator[Open]:
    """Opens a window on the login page, or logged in where a name is given."""
    with ExitStack() as windows:

        def open_one(name: str = "guest", scheme: Scheme = "light", size: tuple[int, int] = DESKTOP) -> Window:
            window = windows.enter_context(Window(browser, broker.http_url, scheme, size))
            if name:
                window.log_in(name, name)
                window.page.locator(".shell").wait_for()
            return window

        yield open_one


@pytest.fixture
def window(open_window: Open) -> Window:
    """On a desktop, as the administrator guest."""
    return open_window()
