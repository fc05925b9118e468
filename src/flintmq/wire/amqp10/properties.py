"""The message sections that are composites: header and properties (amqp-1.0 part 3 §3.2.1, §3.2.4).

Their constructors are written out, because the constructors of dataclasses stay interpreted in a compiled class.
"""

from typing import final

from mypy_extensions import mypyc_attr

from flintmq.wire.amqp10.composite import Composite, know_subclasses
from flintmq.wire.amqp10.spec import DEFAULT_PRIORITY


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class Header(Composite):
    def __init__(
        self,
        durable: bool = False,
        priority: int = DEFAULT_PRIORITY,
        ttl: int | None = None,
        first_acquirer: bool = False,
        delivery_count: int = 0,
    ) -> None:
        self.durable = durable
        self.priority = priority
        self.ttl = ttl
        self.first_acquirer = first_acquirer
        self.delivery_count = delivery_count


@final
class Properties(Composite):
    """The properties section. The two ids are ULong, Uuid, bytes or str; times are Unix times in ms."""

    def __init__(
        self,
        message_id: object = None,
        user_id: bytes | None = None,
        to: str | None = None,
        subject: str | None = None,
        reply_to: str | None = None,
        correlation_id: object = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        absolute_expiry_time: int | None = None,
        creation_time: int | None = None,
        group_id: str | None = None,
        group_sequence: int | None = None,
        reply_to_group_id: str | None = None,
    ) -> None:
        self.message_id = message_id
        self.user_id = user_id
        self.to = to
        self.subject = subject
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.absolute_expiry_time = absolute_expiry_time
        self.creation_time = creation_time
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.reply_to_group_id = reply_to_group_id


know_subclasses(Composite)
