"""The sections of a message that are composites (amqp-1.0 part 3 §3.2.1, §3.2.4)."""

from dataclasses import dataclass
from typing import final

from flintmq.wire.amqp10.composite import Composite, know_subclasses
from flintmq.wire.amqp10.spec import DEFAULT_PRIORITY


@final
@dataclass
class Header(Composite):
    durable: bool = False
    priority: int = DEFAULT_PRIORITY
    ttl: int | None = None
    first_acquirer: bool = False
    delivery_count: int = 0


@final
@dataclass
class Properties(Composite):
    """A message-id or correlation-id is a ULong, a Uuid, bytes or a str; times are milliseconds since 1970 UTC."""

    message_id: object = None
    user_id: bytes | None = None
    to: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    correlation_id: object = None
    content_type: str | None = None
    content_encoding: str | None = None
    absolute_expiry_time: int | None = None
    creation_time: int | None = None
    group_id: str | None = None
    group_sequence: int | None = None
    reply_to_group_id: str | None = None


know_subclasses(Composite)
