"""A reader of batches: what it leases has positions for ever, each with one message, and each message one position.

What is checked here, over all lives of a node: a range that was told of is there, with what it had; what was settled is
gone, as one, once that was answered; nobody reads by an epoch before the newest one.
"""

import random
from typing import TYPE_CHECKING, final

from flintmq.wire.amqp091 import methods as m
from flintmq.wire.amqp091.chunk import ChunkRecord, decode_chunk
from flintmq.wire.amqp091.methods import Method
from tests.sim.clients import Client, SimChannel
from tests.sim.ledger import Ledger, Lost, Unexpected
from tests.sim.messages import Copy, number_of
from tests.sim.node import Node
from tests.sim.topology import Line

if TYPE_CHECKING:
    from tests.sim.workload import Workload

_NAME = "reader"


@final
class Tenure:
    """What a reader knows of its lease. Positions before `settled` are settled, those before `maybe` were to be.

    `read` are the messages from `settled` on, as far as they were fetched, and whether they were flagged.
    """

    def __init__(self, line: Line, ledger: Ledger) -> None:
        self.line = line
        self.epoch = 0
        self.settled = 0
        self.maybe = 0
        self.next = 0
        self.read: dict[int, tuple[int, bool]] = {}
        # Everything up to here was asked for.
        self.fetched = 0
        self._ledger = ledger
        self._numbers: set[int] = set()
        self._latest: dict[tuple[int, int], int] = {}

    def opened(self, answer: m.LeaseOpenOk) -> None:
        if answer.epoch <= self.epoch:
            raise Unexpected(f"epoch {answer.epoch} of a lease comes behind {self.epoch}")
        if answer.first not in (self.settled, self.maybe):
            raise Unexpected(f"a lease begins at {answer.first}, not at {self.settled} or {self.maybe}")
        if answer.next < self.next:
            raise Lost(f"a lease that was extended to {self.next} ends at {answer.next}")
        self.epoch = answer.epoch
        self.next = answer.next
        for position in range(answer.first, self.maybe):
            copy = self._copy(position)
            if copy is not None:
                copy.is_out = False
        self._settle(answer.first)
        # All of it is read once more.
        self.fetched = answer.first

    def _copy(self, position: int) -> Copy | None:
        known = self.read.get(position)
        return None if known is None else self.line.copies.get(known[0])

    def settling(self, up_to: int) -> None:
        for position in range(self.settled, up_to):
            copy = self._copy(position)
            if copy is not None:
                copy.is_out = True
        self.maybe = up_to

    def _settle(self, up_to: int) -> None:
        """It is durable that all before this position is settled."""
        for position in range(self.settled, up_to):
            copy = self._copy(position)
            if copy is not None:
                copy.is_out = copy.out_arrived = True
                copy.out_batch = 0
                self._ledger.figures.settled += 1
            self.read.pop(position, None)
        self.settled = self.maybe = up_to

    def did_settle(self) -> None:
        self._settle(self.maybe)

    def extended(self, answer: m.LeaseExtendOk) -> None:
        if answer.first != self.settled or answer.next < self.next:
            raise Unexpected(f"a lease from {self.settled} to {self.next} is extended to {answer}")
        self.next = answer.next

    def took(self, answer: m.LeaseFetchOk, body: bytes) -> None:
        records = {record.offset: record for record in decode_chunk(body)}
        if len(records) != answer.record_count:
            raise Unexpected(f"{answer} came with {len(records)} records")
        for position in range(answer.first_offset, answer.next_offset):
            record = records.pop(position, None)
            if record is None:
                self._missing(position)
            else:
                self._came(position, record)
        if records:
            raise Unexpected(f"{answer} came with {sorted(records)}")
        self.fetched = answer.next_offset

    def _missing(self, position: int) -> None:
        """A restart has lost it, as it may where it was not persistent."""
        known = self.read.pop(position, None)
        sent = None if known is None else self._ledger.messages.get(known[0])
        if sent is not None and sent.persistent:
            raise Lost(f"{sent.number} at position {position} of {self.line} is lost")

    def _came(self, position: int, record: ChunkRecord) -> None:
        number = number_of(record.properties, record.body)
        sent = self._ledger.messages.get(number)
        copy = self.line.copies.get(number)
        if sent is None or copy is None or sent.body != record.body:
            raise Unexpected(f"{self.line} has {number} at position {position}, which is not there")
        found = number, record.redelivered
        if position in self.read:
            if self.read[position] != found:
                raise Unexpected(f"position {position} of {self.line} had {self.read[position]}, and has {found}")
            return
        if number in self._numbers:
            raise Unexpected(f"{self.line} has {number} at position {position}, and at another one")
        key = sent.channel, sent.priority
        if not sent.delay_ms and self._latest.get(key, -1) >= sent.place:
            behind = f"in place {sent.place}, behind {self._latest[key]}"
            raise Unexpected(f"{self.line} has {number} at position {position}, {behind}")
        if not sent.delay_ms:
            self._latest[key] = sent.place
        self._numbers.add(number)
        self.read[position] = found
        # That it is leased was told when it was durable.
        copy.is_sure |= sent.persistent
        copy.was_delivered = True
        self._ledger.figures.delivered += 1


@final
class LeaseReader:
    """Reads batches for a life of a node, over one connection after the other."""

    def __init__(self, workload: "Workload", ledger: Ledger, node: Node, tenure: Tenure, chance: random.Random) -> None:
        self._workload = workload
        self._ledger = ledger
        self._node = node
        self._tenure = tenure
        self._random = chance
        self.client = self._connect()

    def _connect(self) -> Client:
        return Client(self._workload, self._ledger, self._node, self._workload.latency, 1, self._begin)

    def lost(self) -> None:
        self._node.loop.call_later(self._random.random() * 0.01, self._reconnect)

    def _reconnect(self) -> None:
        if self._workload.is_going:
            self.client = self._connect()

    @property
    def is_waiting(self) -> bool:
        return not self.client.is_lost and any(channel.waiting for channel in self.client.channels)

    def _begin(self, client: Client) -> None:
        (channel,) = client.channels
        self._ask(channel, m.LeaseOpen(queue=self._tenure.line.name, consumer=_NAME), m.LeaseOpenOk)

    def _ask(self, channel: SimChannel, method: Method, answer: type[Method]) -> None:
        channel.ask(method, (answer,), lambda method: self._answered(channel, method))
        channel.client.flush()

    def _answered(self, channel: SimChannel, method: Method) -> None:
        tenure = self._tenure
        if isinstance(method, m.LeaseOpenOk):
            tenure.opened(method)
        elif isinstance(method, m.LeaseExtendOk):
            tenure.extended(method)
        elif isinstance(method, m.LeaseFetchOk):
            tenure.took(method, channel.fetched)
        else:
            tenure.did_settle()
        self._node.loop.call_later(self._random.random() * 2 * self._workload.gap, lambda: self._go_on(channel))

    def _go_on(self, channel: SimChannel) -> None:
        if channel.is_over or not self._workload.is_going:
            return
        tenure = self._tenure
        chance = self._random
        queue = tenure.line.name
        if chance.random() < 0.02:
            channel.client.cut()
        elif tenure.fetched < tenure.next:
            fetch = m.LeaseFetch(
                queue=queue,
                consumer=_NAME,
                offset=tenure.fetched,
                end_offset=tenure.next,
                max_bytes=chance.choice((1, 2_000, 0)),
            )
            self._ask(channel, fetch, m.LeaseFetchOk)
        elif tenure.next > tenure.settled and chance.random() < 0.5:
            up_to = chance.choice((tenure.next, chance.randint(tenure.settled, tenure.next)))
            tenure.settling(up_to)
            settle = m.LeaseSettle(queue=queue, consumer=_NAME, epoch=tenure.epoch, up_to=up_to)
            self._ask(channel, settle, m.LeaseSettleOk)
            channel.client.link.when_arrived(self._workload.aim)
        else:
            extend = m.LeaseExtend(
                queue=queue, consumer=_NAME, epoch=tenure.epoch, max_messages=chance.choice((1, 5, 100))
            )
            self._ask(channel, extend, m.LeaseExtendOk)
