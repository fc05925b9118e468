"""What the tests of both clients share: `connect`, blocking and asyncio under one signature."""

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

import pytest
import uvloop

import flintmq.client as fc
from tests.integration.synchronous import Synchronous

Connect = Callable[..., fc.Connection]


@pytest.fixture(params=["blocking", "asyncio", "uvloop"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """`fc.connect`, or the asyncio client's under the same signature."""
    if request.param == "blocking":
        yield fc.connect
        return
    loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()

    def connect(*arguments: object, **named: object) -> fc.Connection:
        made = loop.run_until_complete(fc.aio.connect(*arguments, **named))  # type: ignore[arg-type]
        return cast(fc.Connection, Synchronous(made, loop))

    yield connect
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
