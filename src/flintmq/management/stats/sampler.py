"""Samples all counters every five seconds, in slices, so that rates are known when somebody asks for them."""

import asyncio
from typing import Final, final

from flintmq.broker.exchange.base import Exchange
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp10.session import ServerSession
from flintmq.management.ports import Node, Socket
from flintmq.management.slices import each
from flintmq.management.stats import counts
from flintmq.management.stats.connections import channels_of, sessions_of
from flintmq.management.stats.counts import Counts, plus
from flintmq.management.stats.rates import Meters
from flintmq.management.stats.series import SAMPLE_MS, Series

# The counts in the series of a virtual host or of the node: messages that passed, then present numbers.
HISTORY: Final = (*counts.VHOST, *counts.HELD)
# The history of a queue or an exchange covers ten minutes, as long as RabbitMQ keeps samples of five seconds.
_REMEMBERED_ROUNDS: Final = 600_000 // SAMPLE_MS + 1
_NOTHING: Final[Counts] = (0,) * len(HISTORY)
_NOT_PUBLISHED: Final = len(counts.CHANNEL) - len(counts.QUEUE)


@final
class Stats:
    """The rates of all objects in a node, the last minutes of queues and exchanges, and the history of virtual hosts
    and the node.
    """

    def __init__(self, node: Node) -> None:
        self.queues: Meters[Queue] = Meters(len(counts.QUEUE_HISTORY), _REMEMBERED_ROUNDS)
        self.exchanges: Meters[Exchange] = Meters(len(counts.EXCHANGE), _REMEMBERED_ROUNDS)
        self.channels: Meters[ServerChannel | ServerSession] = Meters(len(counts.CHANNEL))
        self.sockets: Meters[Socket] = Meters(len(counts.SOCKET))
        self._meters: Final = (self.queues, self.exchanges, self.sockets, self.channels)
        self.total = Series()
        self.vhosts: dict[str, Series] = {}
        self._node = node

    async def run(self) -> None:
        """Sample until the task is cancelled."""
        while True:
            try:
                await self.sample()
            except Exception:
                # Only this round is lost. If the loop ended, all rates would stop without a visible reason.
                self._node.log.exception("rates were not sampled")
            await asyncio.sleep(SAMPLE_MS / 1000)

    async def sample(self) -> None:
        now_ms = self._node.now_ms()
        for meters in self._meters:
            meters.begin_round(now_ms)
        total = _NOTHING
        vhosts = list(self._node.broker.vhosts.values())
        for vhost in vhosts:
            total = plus(total, await self._sample_vhost(vhost))
        names = {vhost.name for vhost in vhosts}
        self.vhosts = {name: series for name, series in self.vhosts.items() if name in names}
        self.total.add(self._node.now_ms(), total)
        await self._sample_sockets()
        for meters in self._meters:
            await meters.end_round()

    async def _sample_vhost(self, vhost: VHost) -> Counts:
        now_ms = self._node.now_ms()
        passed = list(counts.published_in(vhost))
        held = [0] * len(counts.HELD)

        def look(queue: Queue) -> None:
            of_queue, of_held = counts.of_queue(queue), counts.held_by(queue)
            if queue.name in vhost.queues:
                self.queues.take(queue, (*of_queue, *of_held), now_ms)
            # Messages that came to a queue are counted already as published.
            for at, count in enumerate(of_queue[1:], _NOT_PUBLISHED + 1):
                passed[at] += count
            for at, count in enumerate(of_held):
                held[at] += count

        def look_at_exchange(exchange: Exchange) -> None:
            self.exchanges.take(exchange, counts.of_exchange(exchange), now_ms)

        await each([*vhost.queues.values(), *vhost.replies.values()], look)
        await each(list(vhost.exchanges.by_name.values()), look_at_exchange)
        course = (*passed, *held)
        self.vhosts.setdefault(vhost.name, Series()).add(now_ms, course)
        return course

    async def _sample_sockets(self) -> None:
        now_ms = self._node.now_ms()
        sockets = list(self._node.sockets)

        def look(socket: Socket) -> None:
            self.sockets.take(socket, (socket.received_bytes, socket.sent_bytes), now_ms)
            for channel in channels_of(socket):
                self.channels.take(channel, counts.of_channel(channel), now_ms)
            for session in sessions_of(socket):
                self.channels.take(session, counts.of_session(session), now_ms)

        await each(sockets, look)
