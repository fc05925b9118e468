"""A broker in an event loop, and what it looks after."""

import asyncio
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
