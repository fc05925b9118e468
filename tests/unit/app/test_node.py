"""What a broker in an event loop loads."""

import subprocess
import sys


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
