"""Errors and delivery states as composites (amqp-1.0 part 2 §2.8.14, part 3 §3.4, part 4 §4.5)."""

from dataclasses import dataclass, field
from typing import Final, final

from flintmq.wire.amqp10.composite import Annotations, Composite, Fields, know_subclasses


@final
@dataclass
class Error(Composite):
    condition: str = ""
    description: str | None = None
    info: Fields = field(default_factory=dict)


class DeliveryState(Composite):
    """The state of a delivery in a transfer, a disposition or an unsettled map."""


class Outcome(DeliveryState):
    """A delivery state that is final."""


@final
@dataclass
class Received(DeliveryState):
    section_number: int = 0
    section_offset: int = 0


@final
@dataclass
class Accepted(Outcome):
    pass


@final
@dataclass
class Rejected(Outcome):
    error: Error | None = None


@final
@dataclass
class Released(Outcome):
    pass


@final
@dataclass
class Modified(Outcome):
    delivery_failed: bool = False
    undeliverable_here: bool = False
    message_annotations: Annotations = field(default_factory=dict)


@final
@dataclass
class Declared(Outcome):
    txn_id: bytes = b""


@final
@dataclass
class TransactionalState(DeliveryState):
    txn_id: bytes = b""
    outcome: Outcome | None = None


# States without fields are all equal: one instance of each is enough.
ACCEPTED: Final = Accepted()
RELEASED: Final = Released()

know_subclasses(Composite)
