"""Transactions of a client (amqp-1.0 part 4): messages to a coordinator declare and discharge them."""

from typing import Final

from flintmq.client.amqp10.errors import TransactionFailed, described
from flintmq.client.amqp10.sender import ClientSender, Sent
from flintmq.wire.amqp10.sections import encode_amqp_value
from flintmq.wire.amqp10.spec import (
    ACCEPTED,
    DECLARED,
    LOCAL_TRANSACTIONS,
    RCV_FIRST,
    REJECTED,
    SND_UNSETTLED,
    SYMBOLS,
)
from flintmq.wire.amqp10.states import Accepted, Declared, Rejected
from flintmq.wire.amqp10.termini import Coordinator, Declare, Discharge, Source

# amqp-1.0 part 4 §4.2: if rejected is among the outcomes, a failed request does not end the link.
_OUTCOMES: Final = [SYMBOLS[ACCEPTED], SYMBOLS[REJECTED], SYMBOLS[DECLARED]]


def coordinator(name: str) -> ClientSender:
    """Return a link to the server's coordinator. Transactions end with this link."""
    return ClientSender(
        name, Source(outcomes=_OUTCOMES), Coordinator(capabilities=[LOCAL_TRANSACTIONS]), SND_UNSETTLED, RCV_FIRST
    )


def declare(link: ClientSender) -> Sent:
    """Begin a transaction. When the result is ready, `declared` gives its id."""
    return link.send(encode_amqp_value(Declare()), is_watched=True)


def declared(sent: Sent) -> bytes:
    """Return the id of the transaction. Raises TransactionFailed if the server refused it."""
    sent.check()
    if isinstance(sent.outcome, Declared):
        return sent.outcome.txn_id
    raise _failed(sent)


def discharge(link: ClientSender, txn_id: bytes, fail: bool) -> Sent:
    """Commit a transaction, or with `fail` roll it back. When the result is ready, call `discharged`."""
    link.say_first()
    return link.send(encode_amqp_value(Discharge(txn_id, fail)), is_watched=True)


def discharged(sent: Sent) -> None:
    """Raise TransactionFailed if the discharge had no effect."""
    sent.check()
    if not isinstance(sent.outcome, Accepted):
        raise _failed(sent)


def _failed(sent: Sent) -> TransactionFailed:
    outcome = sent.outcome
    if isinstance(outcome, Rejected) and outcome.error is not None:
        return TransactionFailed(outcome.error.condition, outcome.error.description or "")
    return TransactionFailed("amqp:transaction:rollback", described(outcome))
