"""Backups taken of a loaded broker: each, restored, is a state the broker had after the backup was asked for."""

import json
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from flintmq.broker.message import Table
from flintmq.wire.amqp091.methods import QueueDeclare, QueueDeclareOk
from tests.crash.clients import COPIES, DIRECT, MARKS, QUEUES, STREAM, TOPICAL, Client, Declarer, Publisher, Reader
from tests.crash.inspection import Inspector
from tests.crash.transacting import Feeder, Places, Worker, check
from tests.effort import SEED, effort
from tests.servers import BrokerProcess, command, environment
from tests.sockets import AmqpSocket

BACKUPS = effort(2)
# Small: segments are filled, emptied and written over all the time.
SEGMENT_BYTES = "200000"
PLACES = Places("tx.in", "tx.dead", ("tx.out.a", "tx.out.b", "tx.out.c"))


@dataclass
class Known:
    """What the clients knew at a moment. `synced` are the acknowledgements that are known to be on the disk."""

    confirmed: list[tuple[str, str]]
    acked: set[tuple[str, str]]
    synced: set[tuple[str, str]]
    streamed: list[str]
    fed: list[str]
    answered: list[int]
    filled: set[str]
    deleted: set[str]


class Load:
    """Clients of all kinds on a broker, for as long as backups are taken of it."""

    def __init__(self, broker: BrokerProcess, seed: str) -> None:
        self._port = broker.port
        self._seed = seed
        self._declare()
        self.publishers = [Publisher(*self._cast("p")), Publisher(*self._cast("q"))]
        self.readers = [
            Reader(*self._cast("r"), (DIRECT, COPIES[0], MARKS)),
            Reader(*self._cast("s"), (TOPICAL, COPIES[1])),
        ]
        self.declarer = Declarer(*self._cast("d"))
        self.feeder = Feeder(*self._cast("f"), PLACES)
        self.workers = [Worker(*self._cast("v"), PLACES), Worker(*self._cast("w"), PLACES)]
        self._clients: list[Client] = [
            *self.publishers,
            *self.readers,
            self.declarer,
            self.feeder,
            *self.workers,
        ]

    def _cast(self, name: str) -> tuple[int, str, random.Random]:
        return self._port, name, random.Random(f"{self._seed} {name}")

    def _declare(self) -> None:
        inspector = Inspector(self._port)
        inspector.declare_all()
        inspector.close()
        to_dead: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": PLACES.dead}
        with AmqpSocket(self._port).open() as connection:
            connection.open_channel()
            for queue in PLACES.queues:
                arguments: Table = to_dead if queue == PLACES.source else {}
                connection.call(1, QueueDeclare(queue=queue, durable=True, arguments=arguments), QueueDeclareOk)

    def start(self) -> None:
        for client in self._clients:
            client.start()

    def wait_until_busy(self) -> None:
        """Return once something was confirmed, and a transaction answered: a backup of less would show little."""
        while not (self.publishers[0].publisher.confirmed and self.workers[0].answered):
            assert self.publishers[0].is_running
            assert self.workers[0].is_running
            time.sleep(0.01)

    def stop(self) -> None:
        for client in self._clients:
            client.stop()
        for client in self._clients:
            client.join()

    def known(self) -> Known:
        confirmed = [message for publisher in self.publishers for message in list(publisher.publisher.confirmed)]
        persistent = [message for message in confirmed if message.persistent]
        synced = {each for reader in self.readers for each in reader.acked[: reader.synced]}
        marks = [mark.message for reader in self.readers for mark in list(reader.publisher.confirmed)]
        return Known(
            [(queue, message.name) for message in [*persistent, *marks] for queue in message.queues if queue != STREAM],
            {each for reader in self.readers for each in list(reader.acked)},
            synced,
            [message.name for message in confirmed if STREAM in message.queues],
            list(self.feeder.publisher.confirmed),
            [worker.answered for worker in self.workers],
            set(self.declarer.filled),
            set(self.declarer.deleted),
        )


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own command
        command(*arguments), env=environment(), capture_output=True, text=True, check=False
    )


def back_up(data: Path, to: Path) -> dict[str, object]:
    ran = run("storage", "backup", str(data), str(to), "--json")
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


class Restored:
    """A broker on what was restored, compared with what was known before and after the backup."""

    def __init__(self, broker: BrokerProcess, load: Load, before: Known, after: Known) -> None:
        self._load = load
        self._before = before
        self._after = after
        self._inspector = Inspector(broker.port)

    def look(self) -> None:
        try:
            self._look_at_queues()
            self._look_at_stream()
            self._look_at_transactions()
            self._look_at_declarations()
        finally:
            self._inspector.close()

    def _look_at_queues(self) -> None:
        sent = {message.name for publisher in self._load.publishers for message in publisher.sent}
        sent |= {mark.name for reader in self._load.readers for mark in reader.marks}
        for queue in QUEUES:
            found = [seen.name for seen in self._inspector.contents(queue)]
            assert len(set(found)) == len(found), f"{queue} has a message twice"
            must = {name for where, name in self._before.confirmed if where == queue}
            must -= {name for where, name in self._after.acked if where == queue}
            assert must <= set(found), f"{queue} lacks {sorted(must - set(found))[:5]}"
            gone = {name for where, name in self._before.synced if where == queue}
            assert not gone & set(found), f"{queue} has again {sorted(gone & set(found))[:5]}"
            assert set(found) <= sent

    def _look_at_stream(self) -> None:
        records = self._inspector.stream_from(0)
        assert len(set(records)) == len(records)
        assert set(self._before.streamed) <= set(records)

    def _look_at_transactions(self) -> None:
        found = {queue: [seen.name for seen in self._inspector.contents(queue)] for queue in PLACES.queues}
        workers: Sequence[Worker] = self._load.workers
        # Those that were answered before the backup are there; the others as a whole or not at all.
        answered = [worker.answered for worker in workers]
        for worker, number in zip(workers, self._before.answered, strict=True):
            worker.answered = number
        try:
            fed = set(self._before.fed)
            check(workers, {name: name in fed for name in self._load.feeder.sent}, PLACES, found)
        finally:
            for worker, number in zip(workers, answered, strict=True):
                worker.answered = number

    def _look_at_declarations(self) -> None:
        for queue in self._before.filled & self._after.filled:
            assert self._inspector.message_count(queue) == Declarer.MESSAGES
        for queue in sorted(self._before.deleted)[-50:]:
            assert self._inspector.message_count(queue) is None, f"{queue} was deleted and is back"


@pytest.mark.timeout(120 + 30 * BACKUPS)
def test_backups_of_a_loaded_broker(tmp_path: Path) -> None:
    """All that was confirmed before is there or was consumed, transactions are whole, and nothing settled is back."""
    moments: list[tuple[Path, Known, Known]] = []
    with BrokerProcess(tmp_path / "data", FLINTMQ_STORAGE_SEGMENT_BYTES=SEGMENT_BYTES) as broker:
        load = Load(broker, SEED)
        load.start()
        for number in range(BACKUPS):
            time.sleep(0.2)
            load.wait_until_busy()
            before = load.known()
            backup = tmp_path / f"backup{number}"
            back_up(broker.data, backup)
            moments.append((backup, before, load.known()))
        load.stop()
        assert not list(broker.data.glob(".backup-*"))
        broker.stop()
    for backup, before, after in moments:
        restored = backup.with_name(f"{backup.name}.restored")
        ran = run("storage", "restore", str(backup), str(restored))
        assert ran.returncode == 0, ran.stderr
        with BrokerProcess(restored) as broker:
            assert not broker.complaints
            Restored(broker, load, before, after).look()
            assert broker.stop() == 0
    assert all(before.confirmed and before.answered[0] > 0 for _, before, _ in moments)
