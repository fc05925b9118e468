"""Administrative acts: who changed what is defined, or tried to."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Act:
    """`interface` is how it was said: "amqp 0-9-1", "amqp 1.0", "http" or "cli". `name` is what it was done to.

    `refusal` says why it was not done; empty where it was.
    """

    user: str
    peer: str
    interface: str
    vhost: str
    act: str
    name: str
    refusal: str = ""
    # What it was given, of acts that give rights.
    given: str = ""
