"""Transactions as a client has them (amqp-1.0 part 4): declared and discharged by messages to a coordinator."""

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

# amqp-1.0 part 4 §4.2: with rejected among them, what fails does not cost the link.
_OUTCOMES: Final = [SYMBOLS[ACCEPTED], SYMBOLS[REJECTED], SYMBOLS[DECLARED]]


def coordinator(name: str) -> ClientSender:
    """A link to the server's coordinator: transactions end with it."""
    return ClientSender(
        name, Source(outcomes=_OUTCOMES), Coordinator(capabilities=[LOCAL_TRANSACTIONS]), SND_UNSETTLED, RCV_FIRST
    )


def declare(link: ClientSender) -> Sent:
    """To be waited for, and then asked for the transaction's id by `declared`."""
    return link.send(encode_amqp_value(Declare()), is_watched=True)


def declared(sent: Sent) -> bytes:
    """Raises TransactionFailed."""
    sent.check()
    if isinstance(sent.outcome, Declared):
        return sent.outcome.txn_id
    raise _failed(sent)


def discharge(link: ClientSender, txn_id: bytes, fail: bool) -> Sent:
    """Commit, or roll back; to be waited for, and then given to `discharged`."""
    link.say_first()
    return link.send(encode_amqp_value(Discharge(txn_id, fail)), is_watched=True)


def discharged(sent: Sent) -> None:
    """Raises TransactionFailed."""
    sent.check()
    if not isinstance(sent.outcome, Accepted):
        raise _failed(sent)


def _failed(sent: Sent) -> TransactionFailed:
    outcome = sent.outcome
    if isinstance(outcome, Rejected) and outcome.error is not None:
        return TransactionFailed(outcome.error.condition, outcome.error.description or "")
    return TransactionFailed("amqp:transaction:rollback", described(outcome))
