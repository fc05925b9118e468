"""A process that stood still (stopped, suspended, moved to another machine) reads first, and judges its peers then."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from flintmq.wire.amqp091.frames import HEARTBEAT_FRAME
from tests.conformance.amqp10.peer import Peer
from tests.integration.strange_server import Peer as StrangePeer
from tests.integration.strange_server import StrangeServer, deliver
from tests.servers import BrokerProcess
from tests.sockets import AmqpSocket, publish_frames

# Peers are given up after twice the one, and the other is longer than that. A machine that keeps this process waiting
# has seconds before its peers are given up for that.
HEARTBEAT_SECONDS: Final = 2
STALL_SECONDS: Final = 5.0


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that gives up peers after four seconds of silence."""
    directory = tmp_path_factory.mktemp("stall")
    with BrokerProcess(directory / "data", FLINTMQ_LIMITS_HEARTBEAT_SECONDS=str(HEARTBEAT_SECONDS)) as running:
        yield running
        assert running.stop() == 0


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process does nothing for longer than a peer may be silent."""
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(STALL_SECONDS)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def busy(broker: BrokerProcess) -> Iterator[None]:
    """Somebody publishes all the time: the broker is hardly ever found waiting for its sockets."""
    publish = publish_frames(1, "", "nowhere", bytes(10))
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.02):
            client.send(publish * 300)

    with AmqpSocket(broker.port).open() as client:
        client.open_channel()
        load = threading.Thread(target=run)
        load.start()
        try:
            yield
        finally:
            is_over.set()
            load.join()


def test_heartbeats_that_wait_in_the_socket_count(impatient: BrokerProcess) -> None:
    """Clients whose heartbeats came while the broker stood still are served when it goes on."""
    with busy(impatient):
        for _ in range(3):
            clients = [AmqpSocket(impatient.port).open(heartbeat=HEARTBEAT_SECONDS) for _ in range(2)]
            with stopped(impatient.process.pid):
                for client in clients:
                    client.send(HEARTBEAT_FRAME)
            for client in clients:
                client.open_channel()
                client.close()


def test_empty_frames_that_wait_in_the_socket_count(impatient: BrokerProcess) -> None:
    """The same by AMQP 1.0."""
    peers = [Peer(impatient.port).start() for _ in range(10)]
    with stopped(impatient.process.pid):
        for peer in peers:
            peer.write(0, None)
    for peer in peers:
        peer.sync()
        peer.close()


def test_who_was_silent_for_as_long_is_given_up_all_the_same(impatient: BrokerProcess) -> None:
    """A stall excuses nobody of whom nothing waits in the socket."""
    with AmqpSocket(impatient.port).open(heartbeat=HEARTBEAT_SECONDS) as client:
        with stopped(impatient.process.pid):
            pass
        impatient.wait_for_log(
            "connection ended", matches=lambda line: "missed heartbeats" in line["reason"], peer=client.name
        )


CLIENTS: Final = {
    "blocking": """
import sys, flintmq.client as fc
with fc.connect(sys.argv[1]) as connection:
    for batch in connection.channel().consume("q", no_ack=True):
        print(bytes(batch.messages[0].body).decode())
        break
""",
    "asyncio": """
import asyncio, sys, flintmq.client.aio as fc
async def main():
    async with await fc.connect(sys.argv[1]) as connection:
        channel = await connection.channel()
        async for batch in channel.consume("q", no_ack=True):
            print(bytes(batch.messages[0].body).decode())
            break
asyncio.run(main())
""",
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_that_stood_still_reads_first(kind: str, tmp_path: Path) -> None:
    """A server's heartbeats that wait in the socket of a client of ours keep its connection."""
    subscribed = threading.Event()
    is_over = threading.Event()

    def behave(peer: StrangePeer) -> None:
        consumer, tag = peer.consumer()
        peer.send()
        subscribed.set()
        while not is_over.wait(0.05):
            peer.socket.sendall(HEARTBEAT_FRAME)
        deliver(consumer, tag, 1, b"still here")
        peer.serve()

    script = tmp_path / "client.py"
    script.write_text(CLIENTS[kind])
    with StrangeServer(behave) as server:
        url = f"{server.url}?heartbeat={HEARTBEAT_SECONDS}"
        with subprocess.Popen(  # noqa: S603 - a script of this test
            [sys.executable, str(script), url], stdout=subprocess.PIPE, text=True
        ) as client:
            assert subscribed.wait(60)
            with stopped(client.pid):
                pass
            is_over.set()
            out, _ = client.communicate(timeout=60)
    assert out.strip() == "still here"
