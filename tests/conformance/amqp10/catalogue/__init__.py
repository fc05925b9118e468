"""The rules of AMQP 1.0 that concern a broker or its peer: ids, the words they have, and our few words for each.

An id begins with the section, as part 1 to 5 count them; what follows is ours. `rule` and `clause` tie a test to one
of them: a rule says MUST or SHOULD in some form, a clause defines something, or is what a broker adds.
"""

from typing import Final

from tests.conformance.amqp10.catalogue import broker, messaging, security, transactions, transport
from tests.conformance.catalogue import Catalogue

PARTS: Final = {
    "2": transport,
    "3": messaging,
    "4": transactions,
    "1 and 5": security,
}
RULES: Final = {**transport.RULES, **messaging.RULES, **transactions.RULES, **security.RULES}
CLAUSES: Final = {**transport.CLAUSES, **messaging.CLAUSES, **transactions.CLAUSES, **security.CLAUSES}
KEYWORDS: Final = {**transport.KEYWORDS, **messaging.KEYWORDS, **transactions.KEYWORDS, **security.KEYWORDS}

AMQP10: Final = Catalogue("amqp10", RULES, {**CLAUSES, **broker.ADDITIONS})
rule = AMQP10.rule
clause = AMQP10.addition


def section(id: str) -> str:
    """The part of an id before our own word for the rule."""
    return id.rpartition(".")[0]
