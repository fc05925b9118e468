"""Workers that do everything in transactions, and the book of what each of these was to do."""

import random
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flintmq.wire.amqp091.frames import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from flintmq.wire.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicReject,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.confirms import CHANNEL, ConfirmedPublisher
from tests.crash.clients import Client, body, name_in
from tests.crash.ledger import LedgerError
from tests.sockets import PERSISTENT, Frame, method_frame, publish_frames, raise_if_closed

PREFETCH: Final = 60
# How many commits, or rollbacks, a worker asks for before it has an answer.
WINDOW: Final = 8
# Large enough for a kill to find a batch half written.
LARGE_BODY_BYTES: Final = 250_000


@dataclass(frozen=True)
class Places:
    """The queues of a load: from `source` the rejected go to `dead`, and `targets` get what is published."""

    source: str
    dead: str
    targets: tuple[str, ...]

    @property
    def queues(self) -> tuple[str, ...]:
        return (self.source, self.dead, *self.targets)


@dataclass(frozen=True)
class Work:
    """A transaction: its name is published to `targets`; `acked` and `rejected` are taken from the source."""

    name: str
    targets: tuple[str, ...]
    acked: tuple[str, ...]
    rejected: tuple[str, ...]
    commits: bool


class Feeder(Client):
    """Fills the source, as fast as is confirmed and up to a number."""

    MESSAGES: Final = 3_000

    def __init__(self, port: int, name: str, rng: random.Random, places: Places) -> None:
        super().__init__(port, name, rng)
        self.sent: list[str] = []
        self.publisher = ConfirmedPublisher[str](self.connection)
        self._places = places

    def step(self) -> None:
        if len(self.sent) < self.MESSAGES:
            for _ in range(20):
                name = f"{self.name}-{len(self.sent)}"
                self.sent.append(name)
                self.publisher.publish(name, "", self._places.source, body(name, self.rng.randrange(200)))
        self.publisher.collect(0.02)


class Worker(Client):
    """Takes from the source, and settles and publishes in transactions. `asked` grows before anything is sent."""

    def __init__(self, port: int, name: str, rng: random.Random, places: Places) -> None:
        super().__init__(port, name, rng)
        self.asked: list[Work] = []
        # How many of them were answered: they are, in order.
        self.answered = 0
        self._places = places
        self._held: deque[tuple[int, str]] = deque()
        self._arriving: tuple[BasicDeliver, bytearray, int] | None = None
        self.connection.call(CHANNEL, TxSelect(), TxSelectOk)
        self.connection.call(CHANNEL, BasicQos(prefetch_count=PREFETCH), BasicQosOk)
        self.connection.send_method(CHANNEL, BasicConsume(queue=places.source, consumer_tag="c"))

    def step(self) -> None:
        for frame in self.connection.frames(0.05):
            self._take(frame)
        while self._held and len(self.asked) - self.answered < WINDOW:
            self._work()

    def _take(self, frame: Frame) -> None:
        if frame.kind == FRAME_METHOD:
            method = frame.method
            if isinstance(method, BasicDeliver):
                self._arriving = method, bytearray(), -1
            elif isinstance(method, TxCommitOk | TxRollbackOk):
                expected = TxCommitOk if self.asked[self.answered].commits else TxRollbackOk
                assert isinstance(method, expected), method
                self.answered += 1
            else:
                raise_if_closed(method)
                assert isinstance(method, BasicConsumeOk), method
            return
        assert self._arriving is not None
        method, content, size = self._arriving
        if frame.kind == FRAME_HEADER:
            size = frame.body_size
        else:
            assert frame.kind == FRAME_BODY
            content += frame.payload
        self._arriving = method, content, size
        if len(content) == size:
            self._held.append((method.delivery_tag, name_in(bytes(content))))

    def _work(self) -> None:
        rng = self.rng
        taken = [self._held.popleft() for _ in range(min(len(self._held), rng.randrange(1, 6)))]
        rejected = [each for each in taken if rng.random() < 0.3]
        acked = [each for each in taken if each not in rejected]
        targets = tuple(target for target in self._places.targets if rng.random() < 0.8)
        work = Work(
            f"{self.name}-{len(self.asked)}",
            targets,
            tuple(name for _, name in acked),
            tuple(name for _, name in rejected),
            rng.random() < 0.9,
        )
        self.asked.append(work)
        size = LARGE_BODY_BYTES if rng.random() < 0.08 else rng.randrange(500)
        parts = [publish_frames(CHANNEL, "", target, body(work.name, size), PERSISTENT) for target in targets]
        parts += [method_frame(CHANNEL, BasicAck(delivery_tag=tag)) for tag, _ in acked]
        parts += [method_frame(CHANNEL, _rejection(rng, tag)) for tag, _ in rejected]
        rng.shuffle(parts)
        if work.commits:
            self.connection.send(*parts, method_frame(CHANNEL, TxCommit()))
        else:
            # What was to be settled is in our hands again.
            self.connection.send(*parts, method_frame(CHANNEL, TxRollback()))
            self._held.extend(taken)


def _rejection(rng: random.Random, tag: int) -> BasicNack | BasicReject:
    if rng.random() < 0.5:
        return BasicReject(delivery_tag=tag, requeue=False)
    return BasicNack(delivery_tag=tag, requeue=False)


def check(workers: Iterable[Worker], sent: Mapping[str, bool], places: Places, found: Mapping[str, list[str]]) -> int:
    """Compare what is on the queues with the book; returns how many transactions took effect.

    `sent` are the names that were fed, and whether each was confirmed; `found` is what each queue has.
    """
    there = {queue: set(names) for queue, names in found.items()}
    for queue, names in found.items():
        if len(names) != len(there[queue]):
            raise LedgerError(f"{queue} has a message twice")
    # What each queue has to have, and may have.
    due: dict[str, set[str]] = {queue: set() for queue in places.queues}
    consumed: set[str] = set()
    applied = 0
    for worker in workers:
        is_over = False
        for number, work in enumerate(worker.asked):
            if not work.commits:
                continue
            parts = _parts(work, sent, places, there)
            if len(set(parts.values())) > 1:
                raise LedgerError(f"{work.name} took effect in part: {parts}")
            if number < worker.answered and False in parts.values():
                raise LedgerError(f"{work.name} was committed and is lost")
            if True in parts.values() and is_over:
                raise LedgerError(f"{work.name} is there, and one before it is not")
            is_over |= False in parts.values()
            took_effect = number < worker.answered or True in parts.values()
            if took_effect:
                applied += 1
                consumed |= {*work.acked, *work.rejected}
                due[places.dead] |= set(work.rejected)
                for target in work.targets:
                    due[target].add(work.name)
    due[places.source] = {name for name, is_confirmed in sent.items() if is_confirmed} - consumed
    for queue in places.queues:
        may = set(sent) - consumed if queue == places.source else due[queue]
        _fail_on(f"{queue} lacks", due[queue] - there[queue])
        _fail_on(f"{queue} should not have", there[queue] - may)
    return applied


def _parts(work: Work, sent: Mapping[str, bool], places: Places, there: Mapping[str, set[str]]) -> dict[str, bool]:
    """What a transaction was to do, and whether that was done; without what cannot be told.

    A message may be delivered and settled before it is confirmed. If it is not there after a crash, it may just as well
    never have been stored.
    """
    source = there[places.source]
    parts = {f"publish to {target}": work.name in there[target] for target in work.targets}
    for name in (*work.acked, *work.rejected):
        if sent[name] or name in source:
            parts[f"{name} settled"] = name not in source
    for name in work.rejected:
        parts[f"{name} dead-lettered"] = name in there[places.dead]
    return parts


def _fail_on(what: str, names: set[str]) -> None:
    if names:
        raise LedgerError(f"{what} {len(names)}: {sorted(names)[:5]}")
