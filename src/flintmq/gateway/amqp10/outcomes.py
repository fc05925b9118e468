"""Outcomes of AMQP 1.0 in the broker's terms (amqp-1.0 part 3 §3.4)."""

from typing import Final

from flintmq.base.errors import SCOPE_LINK, InvalidField
from flintmq.broker.dialect import Dialect
from flintmq.broker.message import Table
from flintmq.broker.queue import settlement
from flintmq.wire.amqp10.spec import SYMBOLS
from flintmq.wire.amqp10.states import (
    RELEASED,
    Accepted,
    DeliveryState,
    Modified,
    Outcome,
    Rejected,
    Released,
)
from flintmq.wire.amqp10.termini import Source

# The outcomes that a receiver can choose from, by their symbolic descriptors.
OUTCOMES: Final = [SYMBOLS[each.descriptor] for each in (Accepted, Rejected, Released, Modified)]
# The outcome of a delivery whose receiver gives none (as in RabbitMQ).
DEFAULT_OUTCOME: Final[Outcome] = RELEASED


def default_of(source: Source, dialect: Dialect) -> tuple[Outcome, settlement.Outcome]:
    """The default outcome of a source, and what it does to an entry. Raises InvalidField for a state that is none."""
    chosen = source.default_outcome or DEFAULT_OUTCOME
    settled = settlement_of(chosen, dialect)
    if settled is None:
        raise InvalidField(f"{chosen.type_name} cannot be a default outcome", SCOPE_LINK)
    return chosen, settled


def settlement_of(state: DeliveryState | None, dialect: Dialect) -> settlement.Outcome | None:
    """The broker's outcome for a delivery state; None for a state that is not terminal."""
    if isinstance(state, Accepted):
        return settlement.ACCEPTED
    if isinstance(state, Released):
        return settlement.RELEASED
    if isinstance(state, Rejected):
        return settlement.REJECTED
    if isinstance(state, Modified):
        annotations: Table = {name: value for name, value in state.message_annotations.items() if isinstance(name, str)}
        if state.undeliverable_here and not dialect.bars_undeliverable:
            return settlement.discarded(state.delivery_failed, annotations)
        if state.delivery_failed and not state.undeliverable_here and not annotations:
            return settlement.FAILED
        return settlement.modified(state.delivery_failed, state.undeliverable_here, annotations)
    return None
