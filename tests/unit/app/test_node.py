"""A broker in an event loop, and what it looks after."""

import asyncio
import subprocess
import sys
from typing import cast

import pytest

from flintmq.app import node
from flintmq.server.certificates import Tls


def test_a_look_at_certificates_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong with one, the next finds the files that were renewed."""
    monkeypatch.setattr(node, "_CERTIFICATES_LOOK_SECONDS", 0.001)

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        again = asyncio.Event()

        class Failing:
            looks = 0

            def reload_if_changed(self) -> None:
                self.looks += 1
                if self.looks == 3:
                    loop.call_soon_threadsafe(again.set)
                raise ValueError

        watching = asyncio.create_task(node._watch_certificates(cast(Tls, Failing())))
        await asyncio.wait_for(again.wait(), 60)
        assert not watching.done()
        watching.cancel()

    asyncio.run(watch())


def test_a_broker_loads_nothing_to_draw_with() -> None:
    """The log has no tracebacks that structlog would draw with rich; other commands find rich as ever."""
    code = """
import sys
from flintmq.cli.server import _load_run
_load_run()
print(sorted(name for name in sys.modules if name.startswith(("rich", "pygments"))))
import rich
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout == "[]\n"


def test_all_of_the_api_is_loaded_in_its_thread() -> None:
    """Nothing is left that Starlette would import with the first streamed answer, in the broker's loop."""
    code = """
import asyncio, sys
from flintmq.app.node import _load_management
_load_management()
loaded = set(sys.modules)
from starlette.responses import StreamingResponse
async def receive(): return {"type": "http.disconnect"}
async def send(message): pass
async def chunks(): yield b""
asyncio.run(StreamingResponse(chunks())({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send))
print(sorted(set(sys.modules) - loaded))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout == "[]\n"
