"""Part 4, transactions: what its rules ask of a coordinator, and of who uses it."""

from typing import Final

from tests.conformance.catalogue import listed

KEYWORDS: Final = {"4.2": 6, "4.3": 4, "4.4": 1, "4.4.1": 2, "4.4.2": 2, "4.4.3": 4, "4.4.4": 9, "4.5.2": 2}

RULES: Final = listed(
    ("4.2.other-sections", "SHOULD", "A header and other sections beside the declare are ignored"),
    ("4.2.not-settled", "MUST NOT", "A declare that was sent settled ends the control link"),
    (
        "4.2.error-conveyed",
        "MUST",
        "A declare that cannot be done is answered with an error; no transaction error speaks of declares",
    ),
    ("4.2.error-rejected", "MUST", "It is rejected with the error where the source allows rejected"),
    ("4.2.error-detached", "MUST", "The link is detached with the error where it does not"),
    ("4.2.rejected-allowed", "SHOULD", "Our client's control link allows rejected"),
    ("4.3.error-conveyed", "MUST", "A discharge that cannot be done is answered with a transaction error"),
    ("4.3.error-rejected", "MUST", "It is rejected with the error where the source allows rejected"),
    ("4.3.error-detached", "MUST", "The link is detached with the error where it does not"),
    ("4.3.rollback-always", "MUST", "A discharge with fail always works"),
    ("4.4.txn-id-correct", "MUST", "What the broker does in a transaction says in which"),
    ("4.4.1.all-frames", "MUST", "A message of several transfers belongs to one transaction, or fails"),
    (
        "4.4.1.partial-delivery",
        "MUST",
        "A discharge while a message is half sent ends the control link: transaction-rollback",
    ),
    ("4.4.2.one-transaction", "MUST NOT", "A delivery of one transaction takes no outcome in another"),
    ("4.4.2.other-transaction", "MUST", "Who tries loses the control link: transaction-rollback"),
    ("4.4.3.acquisition-unsupported", "MUST", "A link that cannot acquire in transactions is ended; ours can"),
    ("4.4.3.no-credit-left", "SHOULD", "What a link acquires after the discharge is in no transaction"),
    ("4.4.3.half-sent", "MUST", "The discharge decides about a message that is half sent"),
    ("4.4.3.half-sent-failure", "MUST", "A failed one is completed or aborted before the discharge is answered"),
    ("4.4.4.posting-fails", "MUST NOT", "A settled post that cannot be done does not let its transaction succeed"),
    ("4.4.4.outcome-before-commit", "MUST, MUST", "Outcomes of posts are told before the discharge is accepted"),
    ("4.4.4.outcome-same-transaction", "MUST", "They are told as of that transaction"),
    ("4.4.4.outcome-withdrawn", "MUST NOT", "Where an outcome that was told cannot be kept, the discharge fails"),
    ("4.4.4.outcome-reflected", "MUST", "After the discharge, unsettled deliveries have the outcome that was applied"),
    ("4.4.4.controller-settles", "SHOULD", "Posts that the controller did not settle before can be settled afterwards"),
    ("4.4.4.settled-then-rolled-back", "MUST", "Settled by the controller and rolled back: the default outcome"),
    ("4.4.4.acquired-outcome", "MUST", "An outcome for what was acquired in a transaction belongs to that transaction"),
    ("4.5.2.global-id", "MUST", "A global transaction is not pretended: no txn-id is given for one"),
    ("4.5.2.global-id-unsupported", "MUST NOT", "Without the capability for it, a declare with a global-id is refused"),
)

CLAUSES: Final = listed(
    ("4.1.commit", "", "Posts to several queues: nothing before the discharge, all of it after"),
    ("4.1.rollback", "", "Rolled back: nothing is posted, and what was to be retired is as it was"),
    ("4.1.control-link-closed", "", "A control link that is closed rolls back what it declared"),
    ("4.1.connection-lost", "", "So does a connection that is lost"),
    ("4.1.survives-a-kill", "", "What was committed is there after a kill, all of it"),
    ("4.2.declared", "", "A declare is answered with a txn-id of at most 32 octets"),
    ("4.2.several", "", "Several transactions of a session do not touch each other"),
    ("4.3.unknown-id", "", "An unknown txn-id is transaction:unknown-id"),
    ("4.4.2.retirement", "", "Outcomes take effect with the discharge"),
    ("4.4.2.retirement-rolled-back", "", "Rolled back, unsettled deliveries are still the receiver's"),
    ("4.4.3.acquisition", "", "What is acquired in a transaction says so, and is released by its rollback"),
    ("4.5.7.capabilities", "", "The coordinator says its capabilities"),
)
