"""Events of the audit log: a user changed a definition, or was not permitted to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AuditEvent:
    """A user's action. `interface` is "amqp 0-9-1", "amqp 1.0", "http" or "cli"; `name` is the object of the action.

    `refusal` is the reason for which the action was refused; empty if it was done.
    """

    user: str
    peer: str
    interface: str
    vhost: str
    action: str
    name: str
    refusal: str = ""
    # The permissions or tags that the action gave, if it gives any.
    given: str = ""
