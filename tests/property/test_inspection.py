"""What inspection says of a directory is what a start finds in it, after whatever was done to it."""

import random
from collections import deque
from pathlib import Path

import pytest

from flintmq.broker.message import Entry
from flintmq.broker.ports import QueueRecord
from flintmq.storage.backup.backup import Backup
from flintmq.storage.inspection.dump import Dump
from flintmq.storage.inspection.verification import Verification
from tests.unit.storage.nodes import CODECS, OpenNode

# Small: segments are filled and emptied, and what is left in them is written again.
SEGMENT_BYTES = 4_000
QUEUES = (1, 2, 3)
STEPS = 150


class Past:
    """Random things done to a storage: fan-out, settlements in order and out of it, groups, returns, restarts."""

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a repeatable test
        self.node = OpenNode(path, QUEUES, segment=SEGMENT_BYTES)
        for queue_id in QUEUES:
            self.node.storage.definitions.put_queue(QueueRecord(queue_id, "/", f"q{queue_id}", False, {}))
        self._live: dict[int, deque[Entry]] = {queue_id: deque() for queue_id in QUEUES}
        self._number = 0

    def step(self) -> None:
        chance = self.chance
        for _ in range(chance.randrange(1, 6)):
            chance.choices((self._publish, self._settle, self._group, self._return), (5, 6, 1, 1))[0]()
        if chance.random() < 0.5:
            self.node.sync()

    def _publish(self) -> None:
        self._number += 1
        queue_ids = self.chance.sample(QUEUES, self.chance.randrange(1, 4))
        body = b"%d " % self._number + bytes(self.chance.choice((0, 30, 300, 5_000)))
        for queue_id, entry in zip(queue_ids, self.node.publish(body, *queue_ids), strict=True):
            self._live[queue_id].append(entry)

    def _settle(self) -> None:
        queue_id = self.chance.choice(QUEUES)
        live = self._live[queue_id]
        # The first stays for long, so that it has to be moved.
        for _ in range(min(len(live) - 1, self.chance.randrange(1, 5))):
            at = 1 if self.chance.random() < 0.8 else self.chance.randrange(len(live))
            entry = live[at]
            del live[at]
            self.node.storage.journal.settle(queue_id, entry)

    def _group(self) -> None:
        self.node.storage.journal.begin_group()
        self._settle()
        self._publish()
        self.node.storage.journal.end_group()

    def _return(self) -> None:
        queue_id = self.chance.choice(QUEUES)
        if self._live[queue_id]:
            entry = self.chance.choice(self._live[queue_id])
            entry.returns += 1
            self.node.storage.journal.returned(queue_id, entry)


@pytest.mark.parametrize("seed", range(8))
def test_inspection_finds_what_a_start_does(tmp_path: Path, seed: int) -> None:
    """The same messages, at the same places, as often returned; in backups taken on the way, and after a stop."""
    past = Past(tmp_path / "data", seed)
    for number in range(STEPS):
        past.step()
        if number % 50 == 49:
            Backup(past.node.path, tmp_path / f"backup{number}", "0").take(lambda _: None)
            _compare(tmp_path / f"backup{number}")
    past.node.sync()
    past.node.close()
    _compare(tmp_path / "data")


def _compare(path: Path) -> None:
    report = Verification(path).run(lambda _: None)
    lines = list(Dump(path, CODECS).messages(None, "/"))
    node = OpenNode(path, QUEUES, segment=SEGMENT_BYTES)
    found = [
        (f"q{queue_id}", entry.seq, entry.returns, entry.message.body.decode())
        for queue_id in QUEUES
        for entry in node.left[queue_id]
    ]
    node.close()
    assert report.damage == []
    assert report.messages == len(found)
    assert sorted((str(line["queue"]), line["seq"], line["returns"], str(line["body"])) for line in lines) == sorted(
        found
    )
