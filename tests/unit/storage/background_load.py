"""A storage that is written to all the time, in a way that shows what is missing."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from flintmq.broker.message import Entry
from flintmq.broker.ports import QueueRecord, ReaderOffset
from tests.unit.storage.nodes import OpenNode, message

# How many messages each of the two queues holds at most.
DEPTH = 100
STREAM = 9


class Mover(threading.Thread):
    """Publishes numbers to queue 1 and the stream; in groups, older ones move to a second queue, and leave it at last.

    So all numbers from the oldest to `confirmed` are on one of the queues, and on one only. Now and then there is a new
    second queue; the earlier one is deleted when it is empty. A reader of the stream says how far it is in every
    round. It ends when `stop` is set.
    """

    def __init__(self, node: OpenNode) -> None:
        super().__init__()
        self.confirmed = -1
        self.oldest = 0
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self._node = node
        self._first: list[Entry] = []
        # With the queues they are on.
        self._second: list[tuple[int, Entry]] = []
        self._target = 1
        self._stream = node.storage.open_stream(STREAM)
        self._rounds = 0
        self._declare()

    def go_on(self, count: int) -> None:
        """Wait until it has confirmed so many more."""
        goal = self.confirmed + count
        while self.confirmed < goal:
            assert self.is_alive()
            time.sleep(0.001)

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self._round()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error

    def _declare(self) -> None:
        self._target += 1
        self._node.seqs[self._target] = 1
        self._node.storage.definitions.put_queue(QueueRecord(self._target, "/", f"q{self._target}", False, {}))

    def _round(self) -> None:
        node = self._node
        number = self.confirmed
        for _ in range(20):
            number += 1
            body = b"%d:" % number + bytes(number % 700)
            self._first += node.publish(body, 1)
            self._stream.append(message(body))
        node.storage.definitions.put_reader_offset(ReaderOffset(STREAM, "reader", self.confirmed + 1))
        self._rounds += 1
        if self._rounds % 32 == 0:
            self._declare()
        while len(self._first) > DEPTH:
            self._move(self._first.pop(0))
        while len(self._second) > DEPTH:
            queue, entry = self._second.pop(0)
            node.storage.journal.settle(queue, entry)
            self.oldest += 1
            if queue != self._second[0][0]:
                node.storage.definitions.delete_queue("/", f"q{queue}")
        node.sync()
        self.confirmed = number

    def _move(self, entry: Entry) -> None:
        journal = self._node.storage.journal
        journal.begin_group()
        self._second += [(self._target, moved) for moved in self._node.publish(entry.message.body, self._target)]
        journal.settle(1, entry)
        journal.end_group()


@contextmanager
def moving(node: OpenNode) -> Iterator[Mover]:
    mover = Mover(node)
    mover.start()
    try:
        yield mover
    finally:
        mover.stop.set()
        mover.join()
    if mover.failure is not None:
        raise mover.failure
