"""A loaded broker, killed with SIGKILL at random moments: nothing confirmed is lost, and nothing settled comes back."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.crash.clients import (
    COPIES,
    DIRECT,
    MARKS,
    QUEUES,
    STREAM,
    TOPICAL,
    Client,
    Declarer,
    Drainer,
    Publisher,
    Reader,
)
from tests.crash.inspection import Inspector
from tests.crash.ledger import QueueLedger, StreamLedger
from tests.servers import BrokerProcess

# Segments that fill in seconds, so that they are removed and moved on all the time; and no memory for queues that are
# deep: what is packed of them is on the disk.
SETTINGS = {"FLINTMQ_STORAGE_SEGMENT_BYTES": "1000000", "FLINTMQ_STORAGE_QUEUE_MEMORY": "0"}
# A load lives that long: some die while it begins, most in full flow.
LOAD_SECONDS = (0.01, 0.6)
# A start takes about this long: within it a broker may be killed, too.
START_SECONDS = 0.6
# A queue deeper than this is emptied between two kills, so that looking at it stays quick.
DEPTH = 3_000


class Story:
    """A broker, the load on it, and the books about both, from crash to crash."""

    def __init__(self, data: Path, seed: str) -> None:
        self.broker = BrokerProcess(data, wrapper=(), **SETTINGS)
        self.rng = random.Random(seed)
        self.queues = {name: QueueLedger(name) for name in QUEUES}
        self.stream = StreamLedger(STREAM)
        self.kills = 0
        self.kills_at_start = 0
        self.confirmed = 0
        # How long (seconds) each start after a crash took until clients were accepted.
        self.starts: list[float] = []
        self._transient: dict[str, list[str]] = {name: [] for name in QUEUES}
        self._seed = seed
        self._declarer: Declarer | None = None
        self._chapter = 0

    def begin(self) -> None:
        self.broker.start()
        inspector = Inspector(self.broker.port)
        inspector.declare_all()
        inspector.close()

    def _start(self) -> None:
        started = time.monotonic()
        self.broker.start()
        self.starts.append(time.monotonic() - started)

    def kill(self, kills: int) -> None:
        """Load and kill, so many times; in between everything is looked at."""
        for _ in range(kills):
            self._load_until(self._kill)
            if self.rng.random() < 0.2:
                self._kill_while_starting()
            self._start()
            self._look()
            if max(len(ledger.due) for ledger in self.queues.values()) > DEPTH:
                self._empty()

    def stop(self, stops: int) -> None:
        """The same, with SIGTERM."""
        for _ in range(stops):
            self._load_until(self._stop)
            self._start()
            self._look(after_crash=False)

    def end(self) -> None:
        """Take everything out: what is left is what was promised, and a last crash brings nothing back."""
        self._empty()
        self.broker.kill()
        self._start()
        self._look()
        for ledger in self.queues.values():
            assert not ledger.due, f"{ledger.queue} is not empty"
        assert self.broker.stop() == 0

    # -- chapters -----------------------------------------------------------------------------------------------

    def _cast(self, name: str) -> tuple[int, str, random.Random]:
        """What every client is made of. No name is used twice."""
        rng = random.Random(f"{self._seed} {self._chapter} {name}")
        return self.broker.port, f"{name}{self._chapter}", rng

    def _kill(self) -> None:
        self.broker.kill()
        self.kills += 1

    def _stop(self) -> None:
        assert self.broker.stop() == 0

    def _load_until(self, end: Callable[[], None]) -> None:
        self._chapter += 1
        publishers = [Publisher(*self._cast("p")), Publisher(*self._cast("q"))]
        readers = [
            Reader(*self._cast("r"), (DIRECT, COPIES[0], MARKS)),
            Reader(*self._cast("s"), (TOPICAL, COPIES[1])),
        ]
        declarer = Declarer(*self._cast("d"))
        clients: list[Client] = [*publishers, *readers, declarer]
        for client in clients:
            client.start()
        time.sleep(self.rng.uniform(*LOAD_SECONDS))
        end()
        for client in clients:
            client.join()
            assert client.was_told == (end == self._stop), f"{client.name} was told: {client.was_told}"
        self._enter(publishers, readers)
        self._declarer = declarer

    def _kill_while_starting(self) -> None:
        self.broker.launch()
        time.sleep(self.rng.uniform(0, START_SECONDS))
        self.broker.kill()
        self.kills_at_start += 1

    def _empty(self) -> None:
        """Consume all there is, and know that it is settled; then crash, and look."""
        self._chapter += 1
        drainer = Drainer(*self._cast("e"), QUEUES)
        drainer.drain(sum(len(ledger.due) for ledger in self.queues.values()))
        self._enter([], [drainer])
        self.broker.kill()
        self._start()
        self._look()

    # -- the books ----------------------------------------------------------------------------------------------

    def _enter(self, publishers: Sequence[Publisher], readers: Sequence[Reader]) -> None:
        """What the clients did goes into the ledgers: sent, confirmed, delivered, acknowledged."""
        sent = [message for publisher in publishers for message in publisher.sent]
        sent += [mark for reader in readers for mark in reader.marks]
        confirmed = [message for publisher in publishers for message in publisher.publisher.confirmed]
        confirmed += [mark.message for reader in readers for mark in reader.publisher.confirmed]
        self.confirmed += len(confirmed)
        for name, ledger in self.queues.items():
            ledger.sent(message.name for message in sent if name in message.queues)
            ledger.confirmed(message.name for message in confirmed if name in message.queues)
            self._transient[name] += [m.name for m in sent if name in m.queues and not m.persistent]
        self.stream.sent(message.name for message in sent if STREAM in message.queues)
        self.stream.confirmed(message.name for message in confirmed if STREAM in message.queues)
        for reader in readers:
            for name, seen in reader.delivered.items():
                self.queues[name].delivered(seen)
            for name in reader.queues:
                synced = sum(queue == name for queue, _ in reader.acked[: reader.synced])
                self.queues[name].acked([message for queue, message in reader.acked if queue == name], synced)

    def _look(self, *, after_crash: bool = True) -> None:
        """Compare the restarted broker with the books."""
        assert not self.broker.complaints
        inspector = Inspector(self.broker.port)
        for name, ledger in self.queues.items():
            ledger.looked(inspector.contents(name), self._transient[name], after_crash=after_crash)
            self._transient[name] = []
        # Some records again: those before a crash must be what they were.
        offset = max(len(self.stream.records) - 1_000, 0)
        self.stream.looked(offset, inspector.stream_from(offset))
        if self._declarer is not None:
            inspector.settle_declarations(self._declarer)
            self._declarer = None
        inspector.close()
