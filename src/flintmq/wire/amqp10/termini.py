"""Source, target and coordinator: the two ends of a link in an attach (amqp-1.0 part 3 §3.5, part 4 §4.5).

Also declare and discharge, the message bodies that a coordinator accepts.
"""

from dataclasses import dataclass, field
from typing import final

from flintmq.wire.amqp10.composite import Composite, Fields, know_subclasses
from flintmq.wire.amqp10.spec import DURABLE_NONE, EXPIRE_SESSION_END
from flintmq.wire.amqp10.states import Outcome


@final
@dataclass
class Source(Composite):
    address: str | None = None
    durable: int = DURABLE_NONE
    expiry_policy: str = EXPIRE_SESSION_END
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: Fields = field(default_factory=dict)
    distribution_mode: str | None = None
    filter: Fields = field(default_factory=dict)
    default_outcome: Outcome | None = None
    outcomes: list[str] = field(default_factory=list)
    capabilities: list[str] = field(default_factory=list)


@final
@dataclass
class Target(Composite):
    address: str | None = None
    durable: int = DURABLE_NONE
    expiry_policy: str = EXPIRE_SESSION_END
    timeout: int = 0
    dynamic: bool = False
    dynamic_node_properties: Fields = field(default_factory=dict)
    capabilities: list[str] = field(default_factory=list)


@final
@dataclass
class Coordinator(Composite):
    """The target of a link that controls transactions."""

    capabilities: list[str] = field(default_factory=list)


@final
class Declare(Composite):
    def __init__(self, global_id: object = None) -> None:
        self.global_id = global_id


@final
@dataclass
class Discharge(Composite):
    txn_id: bytes = b""
    fail: bool = False


class LifetimePolicy(Composite):
    """When a dynamic node is deleted: the value of "lifetime-policy" in the node's properties."""


@final
@dataclass
class DeleteOnClose(LifetimePolicy):
    pass


@final
@dataclass
class DeleteOnNoLinks(LifetimePolicy):
    pass


@final
@dataclass
class DeleteOnNoMessages(LifetimePolicy):
    pass


@final
@dataclass
class DeleteOnNoLinksOrMessages(LifetimePolicy):
    pass


know_subclasses(Composite)
