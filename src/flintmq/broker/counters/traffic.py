"""What passed, counted where it passes: plain numbers on objects that a message touches anyway.

They only ever grow, and nobody on the way of a message looks at them: rates are made by whoever reads them now and
again.
"""

from typing import final

from mypy_extensions import i64


class Outflow:
    """What went out of a queue, or by a channel.

    `delivered` are messages given to consumers that have to settle them, `got` those that basic.get took; each has its
    counterpart for messages that were settled by being sent. `got_empty` is how often basic.get found nothing.
    `redelivered` counts among them those that somebody may have had before.
    """

    def __init__(self) -> None:
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.got_empty: i64 = 0
        self.acked: i64 = 0
        self.redelivered: i64 = 0

    def add(self, other: "Outflow") -> None:
        """What another one has counted, which is no more."""
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.got_empty += other.got_empty
        self.acked += other.acked
        self.redelivered += other.redelivered


@final
class Passing:
    """Messages that were published to an exchange, and the queues they went to, one by one."""

    def __init__(self) -> None:
        self.came: i64 = 0
        self.went: i64 = 0


@final
class Inflow:
    """What publishers of one protocol sent, and heard of it: as in Traffic."""

    def __init__(self) -> None:
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0

    def add(self, other: "Inflow") -> None:
        """What another one has counted, which is no more."""
        self.published += other.published
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped


@final
class Traffic:
    """Of a virtual host: what its publishers heard, and what went out of queues that are gone.

    `confirmed` messages are safe; `returned` and `dropped` ones had no queue to go to, and their publishers wanted them
    back or not. `inflows` are parts of these, by the name of a protocol. `gone_outflows` are parts of `gone`, by the
    kind of queue and the name of a protocol, which is empty for all of that kind.
    """

    def __init__(self) -> None:
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
        self.inflows: dict[str, Inflow] = {}
        self.gone = Outflow()
        self.gone_outflows: dict[tuple[str, str], Outflow] = {}

    def inflow_of(self, protocol: str) -> Inflow:
        """Where publishers of a protocol are counted besides."""
        found = self.inflows.get(protocol)
        if found is None:
            found = Inflow()
            self.inflows[protocol] = found
        return found

    def queue_gone(self, kind: str, outflow: Outflow, parts: dict[str, Outflow]) -> None:
        """A queue is no more; `parts` are what went out of it by the name of a protocol."""
        self.gone.add(outflow)
        self._add_gone((kind, ""), outflow)
        for protocol, part in parts.items():
            self._add_gone((kind, protocol), part)

    def _add_gone(self, key: tuple[str, str], outflow: Outflow) -> None:
        known = self.gone_outflows.get(key)
        if known is None:
            known = Outflow()
            self.gone_outflows[key] = known
        known.add(outflow)

    def add(self, other: "Traffic") -> None:
        """What another virtual host has counted, which is no more."""
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped
        self.gone.add(other.gone)
        for protocol, inflow in other.inflows.items():
            self.inflow_of(protocol).add(inflow)
        for key, outflow in other.gone_outflows.items():
            self._add_gone(key, outflow)
