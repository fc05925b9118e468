"""What the tests of both clients share: `connect`, blocking and asyncio under one signature."""

import asyncio
from collections.abc import Callable, Iterator
from typing import cast

import pytest
import uvloop

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from tests.integration.synchronous import Synchronous

Connect = Callable[..., fc.Connection]
Connect10 = Callable[..., amqp.Connection]
WAYS = ["blocking", "asyncio", "uvloop"]


@pytest.fixture(params=WAYS)
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


@pytest.fixture(params=WAYS)
def connect_10(request: pytest.FixtureRequest) -> Iterator[Connect10]:
    """The same for AMQP 1.0."""
    if request.param == "blocking":
        yield amqp.connect
        return
    loop = uvloop.new_event_loop() if request.param == "uvloop" else asyncio.new_event_loop()

    def connect(*arguments: object, **named: object) -> amqp.Connection:
        made = loop.run_until_complete(amqp.aio.connect(*arguments, **named))  # type: ignore[arg-type]
        return cast(amqp.Connection, Synchronous(made, loop))

    yield connect
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
