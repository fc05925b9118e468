"""Counters of messages, kept as plain numbers on the objects that handle a message anyway.

The counters only grow, and the message path never reads them. Readers compute rates from two readings.
"""

from typing import final

from mypy_extensions import i64


class Outflow:
    """Messages that left a queue, or that a channel delivered.

    `delivered` counts messages given to consumers that have to settle them, `got` messages taken by basic.get;
    `delivered_no_ack` and `got_no_ack` count messages that were settled by being sent. `got_empty` counts calls of
    basic.get that found nothing. `redelivered` counts the messages among all these that may have been delivered before.
    """

    def __init__(self) -> None:
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.got_empty: i64 = 0
        self.acked: i64 = 0
        self.redelivered: i64 = 0

    @property
    def is_zero(self) -> bool:
        """Whether nothing was counted. Redeliveries are not compared: each is a delivery, too."""
        return (
            self.delivered == 0
            and self.delivered_no_ack == 0
            and self.got == 0
            and self.got_no_ack == 0
            and self.got_empty == 0
            and self.acked == 0
        )

    def add(self, other: "Outflow") -> None:
        """Add the counts of another object that is being deleted."""
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.got_empty += other.got_empty
        self.acked += other.acked
        self.redelivered += other.redelivered


@final
class ExchangeTraffic:
    """Messages published to an exchange (`published_in`), and their copies for queues (`published_out`)."""

    def __init__(self) -> None:
        self.published_in: i64 = 0
        self.published_out: i64 = 0


@final
class Inflow:
    """Messages from publishers of one protocol. The counts mean what they mean in Traffic."""

    def __init__(self) -> None:
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0

    def add(self, other: "Inflow") -> None:
        """Add the counts of another object that is being deleted."""
        self.published += other.published
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped


@final
class Traffic:
    """Counts of a virtual host: answers to its publishers, and messages that left queues which are deleted.

    `confirmed` messages are safe. `returned` and `dropped` messages had no queue: the publisher asked for their return,
    or did not. `inflows` are parts of these, by protocol. `gone_outflows` are parts of `gone` by kind of queue and
    protocol; an empty protocol stands for the sum of the kind.
    """

    def __init__(self) -> None:
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
        self.inflows: dict[str, Inflow] = {}
        self.gone = Outflow()
        self.gone_outflows: dict[tuple[str, str], Outflow] = {}

    def inflow_of(self, protocol: str) -> Inflow:
        """Return the counts of a protocol's publishers."""
        found = self.inflows.get(protocol)
        if found is None:
            found = Inflow()
            self.inflows[protocol] = found
        return found

    def queue_gone(self, kind: str, outflow: Outflow, parts: dict[str, Outflow]) -> None:
        """Add the counts of a deleted queue. `parts` are the messages that left it, by protocol."""
        if outflow.is_zero:
            return
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
        """Add the counts of another virtual host that is being deleted."""
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped
        self.gone.add(other.gone)
        for protocol, inflow in other.inflows.items():
            self.inflow_of(protocol).add(inflow)
        for key, outflow in other.gone_outflows.items():
            self._add_gone(key, outflow)
