"""Somebody who tries a great many names from one address, while a user who is known there logs in."""

import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Final

import pika
from pika import frame, spec
from proton.utils import BlockingConnection

from tests.servers import BrokerProcess
from tests.waiting import wait_until

ATTACKERS: Final = 30
# Names that were tried before the user comes: after ten, those from this address wait for each other.
TRIED: Final = 15
NAMES: Final = count()


def by_amqp091(broker: BrokerProcess, name: str) -> None:
    """Log in by AMQP 0-9-1, and wait until the broker has refused that."""
    with socket.create_connection(("127.0.0.1", broker.port), 60) as attacker:
        attacker.sendall(b"AMQP\x00\x00\x09\x01")
        attacker.recv(65_536)
        start_ok = spec.Connection.StartOk({}, "PLAIN", f"\0{name}\0secret", "en_US")
        attacker.sendall(frame.Method(0, start_ok).marshal())
        while attacker.recv(65_536):
            pass


def by_amqp10(broker: BrokerProcess, name: str) -> None:
    """The same by SASL of AMQP 1.0."""
    response = f"\0{name}\0secret".encode()
    fields = b"\xa3\x05PLAIN\xa0" + bytes([len(response)]) + response
    init = b"\x00\x53\x41\xc0" + bytes([len(fields) + 1, 2]) + fields
    with socket.create_connection(("127.0.0.1", broker.port), 60) as attacker:
        attacker.sendall(b"AMQP\x03\x01\x00\x00" + (len(init) + 8).to_bytes(4, "big") + b"\x02\x01\x00\x00" + init)
        while attacker.recv(65_536):
            pass


def by_http(broker: BrokerProcess, name: str) -> None:
    """The same over HTTP."""
    assert whoami(broker, name, "secret") == 401


def whoami(broker: BrokerProcess, name: str, password: str) -> int:
    """The status of a request by that user."""
    client = HTTPConnection("127.0.0.1", broker.http_port, timeout=60)
    try:
        credentials = b64encode(f"{name}:{password}".encode()).decode()
        client.request("GET", "/api/whoami", headers={"authorization": f"Basic {credentials}"})
        return client.getresponse().status
    finally:
        client.close()


@contextmanager
def attacked(broker: BrokerProcess) -> Iterator[None]:
    """While many at this machine's address try names that nobody has, each as often as it is answered."""
    ended = threading.Event()

    def attack(way: Callable[[BrokerProcess, str], None]) -> None:
        while not ended.is_set():
            # Some are told to come later, or not let in.
            with suppress(OSError):
                way(broker, f"nobody{next(NAMES)}")

    attackers = [
        threading.Thread(target=attack, args=(way,))
        for way in (by_amqp091, by_amqp10, by_http)
        for _ in range(ATTACKERS // 3)
    ]
    for attacker in attackers:
        attacker.start()
    try:
        yield
    finally:
        ended.set()
        for attacker in attackers:
            attacker.join()


def test_a_known_user_gets_in(tmp_path: Path) -> None:
    """Over each protocol, and in time: whoever had to wait with the others would be refused. Also when the broker was
    restarted since that user was there.
    """
    with BrokerProcess(tmp_path / "data") as broker:
        pika.BlockingConnection(pika.URLParameters(broker.url)).close()
        broker.restart()
        with attacked(broker):
            wait_until(lambda: sum(line["event"] == "login refused" for line in broker.log) >= TRIED)
            for _ in range(2):
                pika.BlockingConnection(pika.URLParameters(broker.url)).close()
                BlockingConnection(f"amqp://guest:guest@127.0.0.1:{broker.port}", timeout=60).close()
                assert whoami(broker, "guest", "guest") == 200
        assert broker.stop() == 0
