"""What the tests of both clients share: `connect`, blocking and asyncio under one signature."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
import uvloop

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from tests.integration.synchronous import Synchronous

Connect = Callable[..., fc.Connection]
Connect10 = Callable[..., amqp.Connection]
WAYS = ["blocking", "asyncio", "uvloop"]


@contextmanager
def loop_of(way: str) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop for one of the ways that have any."""
    loop = uvloop.new_event_loop() if way == "uvloop" else asyncio.new_event_loop()
    yield loop
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@contextmanager
def connecting(way: str) -> Iterator[Connect]:
    """`fc.connect`, or the asyncio client's under the same signature."""
    if way == "blocking":
        yield fc.connect
        return
    with loop_of(way) as loop:

        def connect(*arguments: object, **named: object) -> fc.Connection:
            made = loop.run_until_complete(fc.aio.connect(*arguments, **named))  # type: ignore[arg-type]
            return cast(fc.Connection, Synchronous(made, loop))

        yield connect


@pytest.fixture(params=WAYS)
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    with connecting(request.param) as connect:
        yield connect


@pytest.fixture(params=WAYS)
def connect_10(request: pytest.FixtureRequest) -> Iterator[Connect10]:
    """The same for AMQP 1.0."""
    if request.param == "blocking":
        yield amqp.connect
        return
    with loop_of(request.param) as loop:

        def connect(*arguments: object, **named: object) -> amqp.Connection:
            made = loop.run_until_complete(amqp.aio.connect(*arguments, **named))  # type: ignore[arg-type]
            return cast(amqp.Connection, Synchronous(made, loop))

        yield connect
