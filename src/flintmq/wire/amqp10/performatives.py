"""The bodies of frames: nine performatives, and five of SASL (amqp-1.0 part 2 §2.7, part 5 §5.3.3).

Transfer, disposition and flow are created for nearly every message. Their constructors are written out, because the
constructors of dataclasses stay interpreted in a compiled class.
"""

from dataclasses import dataclass, field
from typing import final

from mypy_extensions import mypyc_attr

from flintmq.wire.amqp10.composite import Composite, Fields, know_subclasses
from flintmq.wire.amqp10.spec import RCV_FIRST, SND_MIXED, UINT_MAX, USHORT_MAX
from flintmq.wire.amqp10.states import DeliveryState, Error
from flintmq.wire.amqp10.termini import Coordinator, Source, Target


@mypyc_attr(acyclic=True)
class Performative(Composite):
    """The body of a frame."""


@final
@dataclass
class Open(Performative):
    container_id: str = ""
    hostname: str | None = None
    max_frame_size: int = UINT_MAX
    channel_max: int = USHORT_MAX
    idle_time_out: int | None = None
    outgoing_locales: list[str] = field(default_factory=list)
    incoming_locales: list[str] = field(default_factory=list)
    offered_capabilities: list[str] = field(default_factory=list)
    desired_capabilities: list[str] = field(default_factory=list)
    properties: Fields = field(default_factory=dict)


@final
@dataclass
class Begin(Performative):
    remote_channel: int | None = None
    next_outgoing_id: int = 0
    incoming_window: int = 0
    outgoing_window: int = 0
    handle_max: int = UINT_MAX
    offered_capabilities: list[str] = field(default_factory=list)
    desired_capabilities: list[str] = field(default_factory=list)
    properties: Fields = field(default_factory=dict)


@final
@dataclass
class Attach(Performative):
    """`role` is True for a receiver. None in `unsettled` differs from an empty map (part 2 §2.6.13)."""

    name: str = ""
    handle: int = 0
    role: bool = False
    snd_settle_mode: int = SND_MIXED
    rcv_settle_mode: int = RCV_FIRST
    source: Source | None = None
    target: Target | Coordinator | None = None
    unsettled: dict[bytes, DeliveryState | None] | None = None
    incomplete_unsettled: bool = False
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: list[str] = field(default_factory=list)
    desired_capabilities: list[str] = field(default_factory=list)
    properties: Fields = field(default_factory=dict)


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class Flow(Performative):
    def __init__(
        self,
        next_incoming_id: int | None = None,
        incoming_window: int = 0,
        next_outgoing_id: int = 0,
        outgoing_window: int = 0,
        handle: int | None = None,
        delivery_count: int | None = None,
        link_credit: int | None = None,
        available: int | None = None,
        drain: bool = False,
        echo: bool = False,
        properties: Fields | None = None,
    ) -> None:
        self.next_incoming_id = next_incoming_id
        self.incoming_window = incoming_window
        self.next_outgoing_id = next_outgoing_id
        self.outgoing_window = outgoing_window
        self.handle = handle
        self.delivery_count = delivery_count
        self.link_credit = link_credit
        self.available = available
        self.drain = drain
        self.echo = echo
        self.properties = properties


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class Transfer(Performative):
    """The fields before the payload. None in `settled` means False, or the value of the delivery's first transfer."""

    def __init__(
        self,
        handle: int = 0,
        delivery_id: int | None = None,
        delivery_tag: bytes | None = None,
        message_format: int | None = None,
        settled: bool | None = None,
        more: bool = False,
        rcv_settle_mode: int | None = None,
        state: DeliveryState | None = None,
        resume: bool = False,
        aborted: bool = False,
        batchable: bool = False,
    ) -> None:
        self.handle = handle
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.message_format = message_format
        self.settled = settled
        self.more = more
        self.rcv_settle_mode = rcv_settle_mode
        self.state = state
        self.resume = resume
        self.aborted = aborted
        self.batchable = batchable


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class Disposition(Performative):
    """`role` is True if the receiver sends it. None in `last` means `first`."""

    def __init__(
        self,
        role: bool = False,
        first: int = 0,
        last: int | None = None,
        settled: bool = False,
        state: DeliveryState | None = None,
        batchable: bool = False,
    ) -> None:
        self.role = role
        self.first = first
        self.last = last
        self.settled = settled
        self.state = state
        self.batchable = batchable


@final
@dataclass
class Detach(Performative):
    handle: int = 0
    closed: bool = False
    error: Error | None = None


@final
@dataclass
class End(Performative):
    error: Error | None = None


@final
@dataclass
class Close(Performative):
    error: Error | None = None


class SaslPerformative(Composite):
    """The body of a frame of the security layer."""


@final
@dataclass
class SaslMechanisms(SaslPerformative):
    sasl_server_mechanisms: list[str] = field(default_factory=list)


@final
@dataclass
class SaslInit(SaslPerformative):
    mechanism: str = ""
    initial_response: bytes | None = None
    hostname: str | None = None


@final
@dataclass
class SaslChallenge(SaslPerformative):
    challenge: bytes = b""


@final
@dataclass
class SaslResponse(SaslPerformative):
    response: bytes = b""


@final
@dataclass
class SaslOutcome(SaslPerformative):
    code: int = 0
    additional_data: bytes | None = None


know_subclasses(Composite)
