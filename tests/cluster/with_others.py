"""Publishers that use other clients than pika, each waiting for every confirm."""

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any, Final

import aio_pika
from proton import Message, ProtonException, _reactor
from proton.utils import BlockingConnection, SendException

from tests.cluster.ledger import Ledger
from tests.cluster.with_pika import EXCHANGE, PATIENCE_SECONDS
from tests.waiting import WAIT_SECONDS

_RETRY_SECONDS: Final = 0.05
# Between two messages: what the clients need of the processors, the nodes do not get.
_PAUSE_SECONDS: Final = 0.01
# Proton reads the certificates of all authorities for each connection, also for those without TLS: 0.1 s of a processor
# while the nodes change places. Once is enough, because nobody changes these settings.
_reactor.SSLConfig = cache(_reactor.SSLConfig)


class BlockingPublisher:
    """Publishes numbers on a thread of its own. May be paused; `is_waiting` says whether a confirm is."""

    name = ""

    def __init__(self, ports: Iterable[int], ledger: Ledger) -> None:
        self.is_paused = False
        self.is_waiting = False
        self.ledger = ledger
        self._ports = list(ports)
        self._number = 0
        self._connections = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ends.set()
        # A client that does not return must not keep the others from their end.
        self._thread.join(WAIT_SECONDS)

    def _run(self) -> None:
        while not self._ends.is_set():
            for port in self._ports:
                self._connections += 1
                self._use(port)
            self._ends.wait(_RETRY_SECONDS)

    def _next(self) -> str:
        """The name of the next message, once it may be published; empty if the publisher ends."""
        self.is_waiting = False
        self._ends.wait(_PAUSE_SECONDS)
        while self.is_paused and not self._ends.is_set():
            time.sleep(_RETRY_SECONDS)
        if self._ends.is_set():
            return ""
        self.is_waiting = True
        self._number += 1
        return f"{self.name}.{self._connections}-{self._number}"

    @abstractmethod
    def _use(self, port: int) -> None:
        """Publish to this node as long as it confirms."""


class AioPikaPublisher(BlockingPublisher):
    """AMQP 0-9-1, with aio-pika."""

    name = "aio-pika"

    def _use(self, port: int) -> None:
        with suppress(aio_pika.exceptions.AMQPError, OSError, TimeoutError, RuntimeError):
            asyncio.run(self._publish(port))
        self.is_waiting = False

    async def _publish(self, port: int) -> None:
        connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/", timeout=PATIENCE_SECONDS)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                channel = await connection.channel()
                exchange = await channel.get_exchange(EXCHANGE)
            while name := self._next():
                message = aio_pika.Message(name.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                try:
                    await exchange.publish(message, "", timeout=PATIENCE_SECONDS)
                except aio_pika.exceptions.DeliveryError:
                    self.ledger.refuse(name)
                else:
                    self.ledger.confirm(name, time.monotonic())
        finally:
            with suppress(aio_pika.exceptions.AMQPError, OSError, TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await connection.close()


class _ProtonConnection(BlockingConnection):  # type: ignore[misc]
    """Its end does not wait for ever for a node that hangs."""

    def run(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.container.process() and time.monotonic() < deadline:
            pass
        self.container.stop()
        self.container.process()


class ProtonPublisher(BlockingPublisher):
    """AMQP 1.0, with qpid-proton."""

    name = "proton"

    def _use(self, port: int) -> None:
        connection: Any = None
        name = ""
        try:
            connection = _ProtonConnection(f"amqp://guest:guest@127.0.0.1:{port}", timeout=PATIENCE_SECONDS)
            sender = connection.create_sender(f"/exchanges/{EXCHANGE}")
            while name := self._next():
                # Inferred: as plain bytes, and not as a value with a type.
                sender.send(Message(name.encode(), durable=True, inferred=True), timeout=PATIENCE_SECONDS)
                self.ledger.confirm(name, time.monotonic())
        except SendException:
            self.ledger.refuse(name)
        except (ProtonException, OSError):
            pass
        finally:
            self.is_waiting = False
            if connection is not None:
                with suppress(ProtonException, OSError):
                    connection.close()
