"""What the clients of a life do: chosen by chance from all that AMQP 0-9-1 offers, step by step."""

import random
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Final, final

from flintmq.wire.amqp091 import methods as m
from tests.sim.clients import CONFIRM, PLAIN, TX, Client, SimChannel
from tests.sim.coordination import SimTransaction, Work
from tests.sim.lasting import Lasting
from tests.sim.leases import LeaseReader, Tenure
from tests.sim.ledger import ACK, REJECT, REQUEUE, Ledger, Unexpected
from tests.sim.links import LinkClient
from tests.sim.messages import Sent
from tests.sim.node import Node
from tests.sim.topology import Address, Line, Topology

_SIZES: Final = (10, 10, 40, 40, 40, 300, 300, 1_200, 5_000, 0)
_LARGE_SIZES: Final = (40, 300, 1_200, 1_200, 5_000)
# How much there may be on the queues, beyond which nothing is published.
_ENOUGH: Final = 150

_ANSWERS: Final[dict[type[m.Method], type[m.Method]]] = {
    m.QueueDeclare: m.QueueDeclareOk,
    m.QueueBind: m.QueueBindOk,
    m.ExchangeDeclare: m.ExchangeDeclareOk,
    m.ExchangeBind: m.ExchangeBindOk,
}


@final
class Numbers:
    """Counts messages, channels and names over all lives of a run."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


@final
class Workload:
    """`aim` is called when this would be a good moment for the power to fail."""

    def __init__(
        self,
        node: Node,
        ledger: Ledger,
        topology: Topology,
        numbers: Numbers,
        lasting: Lasting,
        chance: random.Random,
        aim: Callable[[], None],
        tenure: Tenure | None = None,
    ) -> None:
        self.clients: list[Client] = []
        # Those that speak AMQP 1.0.
        self.link_clients: list[LinkClient] = []
        self.reader: LeaseReader | None = None
        # While it is not, clients only wait for what they asked for.
        self.is_going = True
        self.declared = 0
        self._node = node
        self._ledger = ledger
        self._topology = topology
        self._numbers = numbers
        self._lasting = lasting
        self._random = chance
        self.aim = aim
        self._tenure = tenure
        # Seconds between two things that are done.
        self.gap = chance.choice((0.0005, 0.002, 0.01))
        # And at most on the way of a message between the node and a client.
        self.latency = chance.choice((0.0002, 0.002))
        # Weights of the modes of channels, different in each life.
        self._modes = chance.choices((CONFIRM, TX, PLAIN), (6, 3, 1), k=4)
        acts: list[tuple[int, Callable[[SimChannel], None]]] = [
            (chance.choice((1, 4, 10, 20)), self._publish),
            (chance.choice((2, 8, 20)), self._settle),
            (chance.choice((0, 2, 4)), self._consume),
            (chance.choice((0, 2, 6)), self._get),
            (chance.choice((2, 6)), self._end_transaction),
            (chance.choice((0, 1)), self._cancel),
            (chance.choice((0, 1)), self._recover),
            (chance.choice((0, 0, 1)), self._purge),
            (chance.choice((0, 1)), self._make_queue),
            (chance.choice((0, 1)), self._delete_queue),
            (chance.choice((0, 1)), self._close_channel),
            (chance.choice((0, 0, 1)), self._blunder),
            (chance.choice((0, 1)), self._break),
            (chance.choice((0, 0, 1)), self._stall),
            (chance.choice((0, 0, 1)), self._set_flow),
            (chance.choice((0, 2)), self._page_out),
        ]
        self._speaks_10 = chance.random() < 0.5
        # Whether the client that outlives nodes is there.
        self._lasts = chance.random() < 0.5
        # How often clients of AMQP 1.0 end transactions: 0 for not having any.
        self._transacts = chance.choice((0, 3, 10))
        # And how many of them a session of theirs has open at once.
        self._open_max = chance.choice((1, 2, 3, 5))
        # What they do at a time: much in some lives, so that transactions are full and cross.
        self._link_acts = chance.choice((1, 1, 4))
        self._acts = [act for _, act in acts]
        self._weights = list(accumulate(weight for weight, _ in acts))

    def next_number(self) -> int:
        return self._numbers.next()

    def choose_mode(self) -> str:
        return self._random.choice(self._modes)

    # -- clients ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._topology.fleeting:
            self.declare(self._topology.fleeting)
        for _ in range(self._random.choice((1, 2, 2, 3))):
            self._connect()
        if self._speaks_10:
            self._connect_links(None)
        if self._lasts:
            if self._random.random() < 0.3:
                self._decide(self._lasting)
            self._connect_links(self._lasting)
        if self._tenure is not None:
            self.reader = LeaseReader(self, self._ledger, self._node, self._tenure, self._random)
        self._node.loop.call_later(self.gap, self._step)

    def declare(self, methods: list[m.Method]) -> None:
        """Connect, and ask for what has to be there."""
        Client(self, self._ledger, self._node, self.latency, 1, lambda client: self._ask(client, methods))

    def _ask(self, client: Client, methods: list[m.Method]) -> None:
        (channel,) = client.channels
        for method in methods:
            channel.ask(method, (_ANSWERS[type(method)],), partial(self._declared, method))
        client.flush()

    def _declared(self, method: m.Method, _: m.Method) -> None:
        self.declared += 1
        if isinstance(method, m.QueueDeclare):
            self._ledger.lines[method.queue].is_sure = True

    def _connect(self) -> None:
        channels = self._random.choice((1, 2, 3))
        self.clients.append(Client(self, self._ledger, self._node, self.latency, channels))

    def lost(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)
        if self.reader is not None and client is self.reader.client:
            self.reader.lost()
        elif self.is_going:
            self._node.loop.call_later(self._random.random() * 0.01, self._reconnect)

    def _connect_links(self, lasting: Lasting | None) -> None:
        if self.is_going:
            self.link_clients.append(LinkClient(self, self._ledger, self._node, self.latency, lasting))

    def lost_links(self, client: LinkClient) -> None:
        if client in self.link_clients:
            self.link_clients.remove(client)
        if self.is_going:
            self._node.loop.call_later(self._random.random() * 0.01, self._connect_links, client.lasting)

    def _reconnect(self) -> None:
        if self.is_going and len(self.clients) < 3:
            self._connect()

    def drop(self) -> None:
        """The node is gone."""
        self.is_going = False
        for client in self.clients:
            client.drop()
        for link_client in self.link_clients:
            link_client.drop()
        if self.reader is not None:
            self.reader.client.drop()

    def _step(self) -> None:
        if not self.is_going:
            return
        chance = self._random
        channels = [channel for client in self.clients for channel in client.channels if channel.is_usable]
        if channels:
            channel = chance.choice(channels)
            (act,) = chance.choices(self._acts, cum_weights=self._weights)
            if self._ledger.trace is not None:
                self._ledger.trace(f"channel {channel.number} ({channel.mode}): {act.__name__}")
            act(channel)
            channel.client.flush()
        for link_client in self.link_clients:
            if link_client.is_usable and chance.random() < 0.5:
                if link_client.lasting is None:
                    for _ in range(self._link_acts):
                        self._use_links(link_client)
                else:
                    self._use_lasting(link_client, link_client.lasting)
                link_client.flush()
        self._node.loop.call_later(chance.random() * 2 * self.gap, self._step)

    def _use_links(self, client: LinkClient) -> None:
        chance = self._random
        if not client.is_usable:
            return
        if self._transacts:
            self._declare_work(client)
        weighted: list[tuple[float, Callable[[LinkClient], None]]] = [
            (10, self._send),
            (2, self._receive),
            (8, self._say_outcome),
            (self._transacts, self._discharge),
            (min(self._transacts, 5), self._acquire),
            (min(self._transacts, 1), self._detach_coordinator),
            (1, self._detach),
            (0.3, self._break_links),
        ]
        (act,) = chance.choices([act for _, act in weighted], [weight for weight, _ in weighted])
        if self._ledger.trace is not None:
            self._ledger.trace(f"a client of 1.0: {act.__name__}")
        act(client)

    def _send(self, client: LinkClient) -> None:
        chance = self._random
        if self._is_enough():
            return
        address = chance.choice(self._addresses())
        if address.header or any(line.deduplicates or line.is_temporary for line in address.lines):
            return
        is_transactional = bool(self._open(client)) and chance.random() < 0.8
        sender = client.sender(address, is_transactional)
        for _ in range(chance.choice((1, 1, 2, 5))):
            if not sender.link.can_send:
                # The first time there is no credit yet.
                return
            sent = Sent(
                self._numbers.next(),
                sender.number,
                address.lines,
                chance.choice(_LARGE_SIZES if is_transactional else _SIZES),
                self._node.clock_ms(),
                persistent=chance.random() < 0.85,
                priority=chance.choice((1, 2, 5, 6)),
                ttl_ms=chance.choice((30, 1000)) if chance.random() < 0.05 else None,
            )
            sender.publish(sent, chance.choice(self._open(client)) if is_transactional else None)

    def _receive(self, client: LinkClient) -> None:
        line = self._some_line()
        if line is not None and not line.is_stream and len(client.receivers) < 3:
            open_ones = self._open(client)
            transaction = self._random.choice(open_ones) if open_ones and self._random.random() < 0.5 else None
            client.receive(line, self._random.choice((1, 3, 10)), transaction)

    def _say_outcome(self, client: LinkClient) -> None:
        chance = self._random
        open_ones = self._open(client)
        transaction = chance.choice(open_ones) if open_ones and chance.random() < 0.8 else None
        receivers = [receiver for receiver in client.receivers if receiver.free(transaction)]
        if receivers:
            receiver = chance.choice(receivers)
            deliveries = receiver.free(transaction)
            how = chance.choices((ACK, REJECT, REQUEUE), (8, 1, 1))[0]
            some = chance.sample(deliveries, min(len(deliveries), chance.choice((1, 3, 10))))
            if transaction is None:
                receiver.settle(some, how, chance.randrange(2))
            else:
                receiver.stage(some, how, chance.randrange(2), transaction, chance.random() < 0.5)

    def _open(self, client: LinkClient) -> list[SimTransaction]:
        """The transactions that what is done now may be in."""
        return [] if client.work is None else client.work.open

    def _declare_work(self, client: LinkClient) -> None:
        """There are always some transactions, or they are on their way."""
        if client.work is None or client.work.is_over:
            client.work = Work(client)
        for _ in range(self._open_max - client.work.count):
            client.work.declare()

    def _discharge(self, client: LinkClient) -> None:
        """Commit or roll back some transactions, in any order; the answers come when they come."""
        chance = self._random
        work = client.work
        ready = [transaction for transaction in self._open(client) if transaction.is_ready]
        if work is None:
            return
        for transaction in chance.sample(ready, min(len(ready), chance.choice((1, 1, 2)))):
            if chance.random() < 0.8:
                work.commit(transaction)
                client.flush()
                client.link.when_arrived(self.aim)
            else:
                work.roll_back(transaction)

    def _acquire(self, client: LinkClient) -> None:
        open_ones = self._open(client)
        if open_ones and client.receivers:
            receiver = self._random.choice(client.receivers)
            receiver.acquire(None if self._random.random() < 0.2 else self._random.choice(open_ones))

    def _detach_coordinator(self, client: LinkClient) -> None:
        """Not while a message is under way in its transactions: that would come for none then, and cost its link."""
        open_ones = self._open(client)
        is_full = any(transaction.is_ready for transaction in open_ones)
        if client.work is not None and is_full and not any(transaction.unposted for transaction in open_ones):
            client.work.detach()
            client.flush()
            client.link.when_arrived(self.aim)

    def _detach(self, client: LinkClient) -> None:
        if client.receivers:
            self._random.choice(client.receivers).detach()

    def _break_links(self, client: LinkClient) -> None:
        if self._random.random() < 0.5:
            client.cut()
        else:
            client.close()

    # -- the client that outlives nodes -------------------------------------------------------------------------

    def _use_lasting(self, client: LinkClient, lasting: Lasting) -> None:
        chance = self._random
        if not client.has_lasting:
            client.has_lasting = True
            lasting.attach(client)
        if not lasting.is_attached:
            return
        act = chance.choices(("send", "decide", "add", "suspend"), (10, 10, 3, 1))[0]
        if self._ledger.trace is not None:
            self._ledger.trace(f"the lasting client: {act}")
        if act == "send":
            self._send_lasting(lasting)
        elif act == "decide":
            self._decide(lasting)
        elif act == "add":
            self._add_lasting(client, lasting)
        else:
            self._break_links(client)

    def _add_lasting(self, client: LinkClient, lasting: Lasting) -> None:
        chance = self._random
        if chance.random() < 0.5 and len(lasting.senders) < 2:
            addresses = [address for address in self._addresses() if address.lines and not address.header]
            address = chance.choice(addresses)
            if all(line.durable and not (line.is_stream or line.deduplicates) for line in address.lines):
                lasting.add_sender(client, self._numbers.next(), address)
        elif len(lasting.receivers) < 2:
            line = self._some_line()
            if line is not None and line.durable and not line.is_stream:
                lasting.add_receiver(client, self._numbers.next(), line, chance.choice((1, 3, 10)))

    def _send_lasting(self, lasting: Lasting) -> None:
        chance = self._random
        senders = [sender for sender in lasting.senders if sender.core.error is None]
        if not senders or self._is_enough():
            return
        sender = chance.choice(senders)
        for _ in range(chance.choice((1, 1, 2, 5))):
            sent = Sent(
                self._numbers.next(),
                sender.number,
                sender.address.lines,
                chance.choice(_SIZES),
                self._node.clock_ms(),
                persistent=True,
                priority=4,
                is_once=True,
            )
            sender.publish(sent)

    def _decide(self, lasting: Lasting) -> None:
        """What is in hand has its outcome; now and then the node hears of that only on the next connection."""
        chance = self._random
        receivers = [receiver for receiver in lasting.receivers if receiver.undecided]
        if receivers:
            receiver = chance.choice(receivers)
            deliveries = receiver.undecided
            some = chance.sample(deliveries, min(len(deliveries), chance.choice((1, 3, 10))))
            how = chance.choices((ACK, REJECT, REQUEUE), (8, 1, 1))[0]
            receiver.decide(some, how, chance.randrange(2), receiver.core.error is None)

    # -- what a channel may do ----------------------------------------------------------------------------------

    def _publish(self, channel: SimChannel) -> None:
        chance = self._random
        if self._is_enough():
            self._relieve(channel)
            return
        address = chance.choice(self._addresses())
        for _ in range(chance.choice((1, 1, 2, 5, 12))):
            if chance.random() < 0.1:
                address = chance.choice(self._addresses())
            self._publish_to(channel, address)

    def _is_enough(self) -> bool:
        return sum(len(line.copies) for line in self._ledger.lines.values() if not line.is_stream) > _ENOUGH

    def _relieve(self, channel: SimChannel) -> None:
        """There is much on the queues: somebody is to take it."""
        acts = (self._settle, self._get, self._consume, self._end_transaction, self._purge)
        (act,) = self._random.choices(acts, (40, 20, 20, 20, 3))
        act(channel)

    def _addresses(self) -> list[Address]:
        made = [Address("", line.name, (line,)) for line in self._ledger.lines.values() if line.is_temporary]
        return [
            address
            for address in (*self._topology.addresses, *made)
            if all(line.is_sure and not line.is_leaving for line in address.lines)
        ]

    def _publish_to(self, channel: SimChannel, address: Address) -> None:
        chance = self._random
        lines = address.lines
        if not address.exchange and lines and lines[0].deduplicates and channel.mode != TX and chance.random() < 0.4:
            known = [copy.sent for copy in lines[0].copies.values()]
            known = [sent for sent in known if len(sent.lines) == 1 and not sent.is_in_transaction]
            if known:
                # Once more: nobody may see it twice.
                channel.publish(address, chance.choice(known[-10:]))
                return
        sent = Sent(
            self._numbers.next(),
            channel.number,
            lines,
            # Transactions are to be larger than what is written at once.
            chance.choice(_SIZES if channel.mode != TX else _LARGE_SIZES),
            self._node.clock_ms(),
            persistent=chance.random() < 0.85,
            priority=chance.randrange(7) if chance.random() < 0.2 else 0,
            ttl_ms=chance.choice((0, 30, 1000)) if chance.random() < 0.05 else None,
            delay_ms=chance.choice((5, 100)) if chance.random() < 0.05 else 0,
            header=address.header,
            mandatory=chance.random() < 0.2,
        )
        channel.publish(address, sent)

    def _settle(self, channel: SimChannel) -> None:
        chance = self._random
        if channel.is_recovering:
            return
        if channel.reading and chance.random() < 0.5:
            for tag in list(channel.reading):
                channel.channel.send_ack(tag, False)
            channel.reading.clear()
        tags = list(channel.unacked)
        if not tags:
            return
        how = chance.choices((ACK, REJECT, REQUEUE), (8, 1, 1))[0]
        if chance.random() < 0.5:
            last = chance.choice(tags)
            for tag in [tag for tag in channel.reading if tag <= last]:
                del channel.reading[tag]
            channel.settle([tag for tag in tags if tag <= last], how, True)
        else:
            channel.settle(chance.sample(tags, min(len(tags), chance.choice((1, 3)))), how, False)

    def _end_transaction(self, channel: SimChannel) -> None:
        if channel.mode != TX:
            self._settle(channel)
        elif channel.group.publishes or channel.group.settlements:
            if self._random.random() < 0.8:
                channel.commit()
                channel.client.flush()
                channel.client.link.when_arrived(self.aim)
            else:
                channel.roll_back()

    def _consume(self, channel: SimChannel) -> None:
        chance = self._random
        line = self._some_line()
        if line is None or len(channel.consumers) > 3:
            return
        tag = f"c{self._numbers.next()}"
        prefetch = chance.choice((1, 3, 10, 0))
        no_ack = chance.random() < 0.05
        if line.is_stream:
            prefetch, no_ack = prefetch or 5, False
        channel.ask(m.BasicQos(prefetch_count=prefetch), (m.BasicQosOk,))
        arguments: dict[str, object] = {"x-stream-offset": "first"} if line.is_stream else {}
        if chance.random() < 0.2:
            arguments["x-priority"] = chance.randrange(3)
        channel.consume(line, tag, no_ack, arguments)

    def _some_line(self) -> Line | None:
        """A queue that is there for sure, whatever the clients are about to do."""
        lines = [
            line
            for line in self._ledger.lines.values()
            if line.is_sure and not (line.is_leaving or line.is_temporary or line.is_leased)
        ]
        return self._random.choice(lines) if lines else None

    def _get(self, channel: SimChannel) -> None:
        line = self._some_line()
        if line is not None and not line.is_stream and not channel.is_recovering:
            no_ack = self._random.random() < 0.05
            if "x-single-active-consumer" not in line.arguments or line.arguments.get("x-queue-type") != "quorum":
                channel.get(line, no_ack)

    def _cancel(self, channel: SimChannel) -> None:
        tags = [tag for tag, subscription in channel.consumers.items() if not subscription.is_over]
        if tags and not channel.is_recovering:
            channel.cancel(self._random.choice(tags))

    def _recover(self, channel: SimChannel) -> None:
        if not channel.may_recover:
            return
        if not channel.consumers:
            channel.recover(True)
        elif not any(subscription.is_over for subscription in channel.consumers.values()):
            channel.recover(False)

    def _purge(self, channel: SimChannel) -> None:
        line = self._some_line()
        # A purge lets go of what was there before, though consumers may have some of it in hand, and give it back.
        if line is not None and not line.is_stream and not line.deduplicates:
            self._ledger.purging(line)
            if self._ledger.trace is not None:
                self._ledger.trace(f"{line} is purged")
            channel.ask(m.QueuePurge(queue=line.name), (m.QueuePurgeOk,), lambda _: self._ledger.purged(line))

    def _make_queue(self, channel: SimChannel) -> None:
        name = f"made{self._random.randrange(3)}"
        if name in self._ledger.lines:
            return
        line = Line(name, is_temporary=True)
        self._ledger.lines[name] = line

        def made(_: m.Method) -> None:
            line.is_sure = True

        channel.ask(m.QueueDeclare(queue=name, durable=True), (m.QueueDeclareOk,), made)

    def _delete_queue(self, channel: SimChannel) -> None:
        lines = [line for line in self._ledger.lines.values() if line.is_temporary and line.is_sure]
        lines = [line for line in lines if not line.is_leaving]
        if not lines:
            return
        line = self._random.choice(lines)
        line.is_leaving = True
        self._ledger.purging(line)

        def deleted(_: m.Method) -> None:
            self._ledger.deleted(line)

        channel.ask(m.QueueDelete(queue=line.name), (m.QueueDeleteOk,), deleted)

    def _close_channel(self, channel: SimChannel) -> None:
        client = channel.client
        channel.close()
        client.channels.remove(channel)
        client.open_channel()

    def _blunder(self, channel: SimChannel) -> None:
        channel.blunder()
        channel.client.channels.remove(channel)
        channel.client.open_channel()

    def _break(self, channel: SimChannel) -> None:
        if self._random.random() < 0.5:
            channel.client.cut()
        else:
            channel.client.close()

    def _stall(self, channel: SimChannel) -> None:
        link = channel.client.link
        link.is_stalled = True
        self._node.loop.call_later(self._random.random() * 0.05, link.let_go)

    def _set_flow(self, channel: SimChannel) -> None:
        for active in (False, True):
            channel.ask(m.ChannelFlow(active=active), (m.ChannelFlowOk,))

    def _page_out(self, channel: SimChannel) -> None:
        """None of the client's doing: the node is low on memory."""
        self._node.broker.page_out()

    # -- the end ------------------------------------------------------------------------------------------------

    def check_answered(self, failure: str) -> None:
        """Everybody has had time: nobody may still wait."""
        self._lasting.check_answered(failure)
        if self.reader is not None and self.reader.is_waiting:
            raise Unexpected(f"a reader of batches is not answered; failure: {failure!r}")
        for link_client in self.link_clients:
            if link_client.work is not None and link_client.work.is_waiting and not link_client.is_lost:
                raise Unexpected(f"a coordinator does not answer; failure: {failure!r}")
            for sender in link_client.senders.values():
                if sender.unconfirmed and not link_client.is_lost:
                    raise Unexpected(f"{len(sender.unconfirmed)} messages have no outcome; failure: {failure!r}")
        for client in self.clients:
            for channel in client.channels:
                if channel.is_usable and (channel.waiting or channel.unconfirmed) and not client.is_blocked:
                    raise Unexpected(
                        f"a channel waits for ever: {len(channel.unconfirmed)} publishes are not confirmed, "
                        f"{len(channel.waiting)} requests not answered; failure: {failure!r}"
                    )
