"""The methods of AMQP 0-9-1 as objects, and their payloads: class id, method id, arguments (amqp-0-9-1 §2.3.5.1).

The classes hold the arguments. `spec.METHOD_TABLE` has their encoding: one function decodes by it, one encodes.
Reserved arguments are skipped when read, and written as zeros.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, cast, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.errors import NotImplementedHere, SyntaxFault
from flintmq.wire.amqp091 import spec
from flintmq.wire.amqp091.tables import (
    Table,
    decode_arguments,
    encode_table,
    pull_long,
    pull_longlong,
    pull_longstr,
    pull_octet,
    pull_short,
    pull_shortstr,
    push_long,
    push_longlong,
    push_longstr,
    push_octet,
    push_short,
    push_shortstr,
)


class Method:
    """The contents of a method frame: one subclass per method, with its arguments as attributes.

    `id` is class id << 16 | method id, `name` is "queue.declare-ok" and the like. Both are set below: a ClassVar in the
    body of a compiled dataclass would be taken for a field.
    """

    id: ClassVar[int] = 0
    name: ClassVar[str] = ""


@final
@dataclass
class ConnectionStart(Method):
    version_major: int = 0
    version_minor: int = 9
    server_properties: Table = field(default_factory=dict)
    mechanisms: bytes = b""
    locales: bytes = b"en_US"


@final
@dataclass
class ConnectionStartOk(Method):
    client_properties: Table = field(default_factory=dict)
    mechanism: str = "PLAIN"
    response: bytes = b""
    locale: str = "en_US"


@final
@dataclass
class ConnectionSecure(Method):
    challenge: bytes = b""


@final
@dataclass
class ConnectionSecureOk(Method):
    response: bytes = b""


@final
@dataclass
class ConnectionTune(Method):
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@final
@dataclass
class ConnectionTuneOk(Method):
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@final
@dataclass
class ConnectionOpen(Method):
    virtual_host: str = "/"


@final
@dataclass
class ConnectionOpenOk(Method):
    pass


@final
@dataclass
class ConnectionClose(Method):
    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


@final
@dataclass
class ConnectionCloseOk(Method):
    pass


@final
@dataclass
class ConnectionBlocked(Method):
    reason: str = ""


@final
@dataclass
class ConnectionUnblocked(Method):
    pass


@final
@dataclass
class ConnectionUpdateSecret(Method):
    new_secret: bytes = b""
    reason: str = ""


@final
@dataclass
class ConnectionUpdateSecretOk(Method):
    pass


@final
@dataclass
class ChannelOpen(Method):
    pass


@final
@dataclass
class ChannelOpenOk(Method):
    pass


@final
@dataclass
class ChannelFlow(Method):
    active: bool = False


@final
@dataclass
class ChannelFlowOk(Method):
    active: bool = False


@final
@dataclass
class ChannelClose(Method):
    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


@final
@dataclass
class ChannelCloseOk(Method):
    pass


@final
@dataclass
class AccessRequest(Method):
    realm: str = "/data"
    exclusive: bool = False
    passive: bool = True
    active: bool = True
    write: bool = True
    read: bool = True


@final
@dataclass
class AccessRequestOk(Method):
    ticket: int = 1


@final
@dataclass
class ExchangeDeclare(Method):
    exchange: str = ""
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@final
@dataclass
class ExchangeDeclareOk(Method):
    pass


@final
@dataclass
class ExchangeDelete(Method):
    exchange: str = ""
    if_unused: bool = False
    no_wait: bool = False


@final
@dataclass
class ExchangeDeleteOk(Method):
    pass


@final
@dataclass
class ExchangeBind(Method):
    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@final
@dataclass
class ExchangeBindOk(Method):
    pass


@final
@dataclass
class ExchangeUnbind(Method):
    destination: str = ""
    source: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@final
@dataclass
class ExchangeUnbindOk(Method):
    pass


@final
@dataclass
class QueueDeclare(Method):
    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@final
@dataclass
class QueueDeclareOk(Method):
    queue: str = ""
    message_count: int = 0
    consumer_count: int = 0


@final
@dataclass
class QueueBind(Method):
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@final
@dataclass
class QueueBindOk(Method):
    pass


@final
@dataclass
class QueuePurge(Method):
    queue: str = ""
    no_wait: bool = False


@final
@dataclass
class QueuePurgeOk(Method):
    message_count: int = 0


@final
@dataclass
class QueueDelete(Method):
    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    no_wait: bool = False


@final
@dataclass
class QueueDeleteOk(Method):
    message_count: int = 0


@final
@dataclass
class QueueUnbind(Method):
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    arguments: Table = field(default_factory=dict)


@final
@dataclass
class QueueUnbindOk(Method):
    pass


@final
@dataclass
class BasicQos(Method):
    prefetch_size: int = 0
    prefetch_count: int = 0
    global_: bool = False


@final
@dataclass
class BasicQosOk(Method):
    pass


@final
@dataclass
class BasicConsume(Method):
    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    no_wait: bool = False
    arguments: Table = field(default_factory=dict)


@final
@dataclass
class BasicConsumeOk(Method):
    consumer_tag: str = ""


@final
@dataclass
class BasicCancel(Method):
    consumer_tag: str = ""
    no_wait: bool = False


@final
@dataclass
class BasicCancelOk(Method):
    consumer_tag: str = ""


@final
@dataclass
class BasicPublish(Method):
    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


@final
@dataclass
class BasicReturn(Method):
    reply_code: int = 0
    reply_text: str = ""
    exchange: str = ""
    routing_key: str = ""


@final
@dataclass
class BasicDeliver(Method):
    consumer_tag: str = ""
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""


@final
@dataclass
class BasicGet(Method):
    queue: str = ""
    no_ack: bool = False


@final
@dataclass
class BasicGetOk(Method):
    delivery_tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    routing_key: str = ""
    message_count: int = 0


@final
@dataclass
class BasicGetEmpty(Method):
    pass


@final
@dataclass
class BasicAck(Method):
    delivery_tag: int = 0
    multiple: bool = False


@final
@dataclass
class BasicReject(Method):
    delivery_tag: int = 0
    requeue: bool = True


@final
@dataclass
class BasicRecoverAsync(Method):
    requeue: bool = False


@final
@dataclass
class BasicRecover(Method):
    requeue: bool = False


@final
@dataclass
class BasicRecoverOk(Method):
    pass


@final
@dataclass
class BasicNack(Method):
    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True


@final
@dataclass
class ConfirmSelect(Method):
    no_wait: bool = False


@final
@dataclass
class ConfirmSelectOk(Method):
    pass


@final
@dataclass
class TxSelect(Method):
    pass


@final
@dataclass
class TxSelectOk(Method):
    pass


@final
@dataclass
class TxCommit(Method):
    pass


@final
@dataclass
class TxCommitOk(Method):
    pass


@final
@dataclass
class TxRollback(Method):
    pass


@final
@dataclass
class TxRollbackOk(Method):
    pass


@final
@dataclass
class StreamQuery(Method):
    queue: str = ""
    timestamp: int = 0


@final
@dataclass
class StreamQueryOk(Method):
    first_offset: int = 0
    next_offset: int = 0
    offset_at: int = 0
    stream: int = 0


@final
@dataclass
class StreamFetch(Method):
    queue: str = ""
    offset: int = 0
    end_offset: int = 0
    max_bytes: int = 0


@final
@dataclass
class StreamFetchOk(Method):
    first_offset: int = 0
    next_offset: int = 0
    record_count: int = 0


@final
@dataclass
class StreamSpan(Method):
    queue: str = ""
    offset: int = 0
    end_offset: int = 0
    max_bytes: int = 0


@final
@dataclass
class StreamSpanOk(Method):
    end_offset: int = 0


@final
@dataclass
class LeaseOpen(Method):
    queue: str = ""
    consumer: str = ""
    epoch: int = 0
    timeout: int = 0


@final
@dataclass
class LeaseOpenOk(Method):
    epoch: int = 0
    first: int = 0
    next: int = 0


@final
@dataclass
class LeaseExtend(Method):
    queue: str = ""
    consumer: str = ""
    epoch: int = 0
    max_messages: int = 0
    max_bytes: int = 0


@final
@dataclass
class LeaseExtendOk(Method):
    """`size` is the number of body bytes of the messages that this call leased."""

    first: int = 0
    next: int = 0
    ready: int = 0
    size: int = 0


@final
@dataclass
class LeaseFetch(Method):
    queue: str = ""
    consumer: str = ""
    offset: int = 0
    end_offset: int = 0
    max_bytes: int = 0


@final
@dataclass
class LeaseFetchOk(Method):
    first_offset: int = 0
    next_offset: int = 0
    record_count: int = 0


@final
@dataclass
class LeaseSettle(Method):
    queue: str = ""
    consumer: str = ""
    epoch: int = 0
    up_to: int = 0


@final
@dataclass
class LeaseSettleOk(Method):
    pass


@final
@dataclass
class LeaseRelease(Method):
    queue: str = ""
    consumer: str = ""
    epoch: int = 0


@final
@dataclass
class LeaseReleaseOk(Method):
    message_count: int = 0


@final
@dataclass
class LeaseQuery(Method):
    queue: str = ""
    consumer: str = ""


@final
@dataclass
class LeaseQueryOk(Method):
    """`fetched` is the position behind the highest one that was fetched."""

    epoch: int = 0
    first: int = 0
    next: int = 0
    ready: int = 0
    fetched: int = 0


@final
@dataclass
class StageOpen(Method):
    transactional_id: str = ""
    owner: str = ""


@final
@dataclass
class StageOpenOk(Method):
    epoch: int = 0
    next_batch: int = 0


@final
@dataclass
class StageSelect(Method):
    transactional_id: str = ""
    epoch: int = 0
    batch: int = 0
    partition: int = 0
    attempt: int = 0


@final
@dataclass
class StageSelectOk(Method):
    already: bool = False


@final
@dataclass
class StageReady(Method):
    pass


@final
@dataclass
class StageReadyOk(Method):
    message_count: int = 0


@final
@dataclass
class StageCommit(Method):
    """With `more`, further methods with attempts follow, and nothing is committed yet (see committed_attempts.py)."""

    transactional_id: str = ""
    epoch: int = 0
    batch: int = 0
    attempts: bytes = b""
    more: bool = False


@final
@dataclass
class StageCommitOk(Method):
    message_count: int = 0
    already: bool = False


@final
@dataclass
class StageAbort(Method):
    transactional_id: str = ""
    epoch: int = 0
    batch: int = 0


@final
@dataclass
class StageAbortOk(Method):
    pass


@final
@dataclass
class StageForget(Method):
    transactional_id: str = ""


@final
@dataclass
class StageForgetOk(Method):
    pass


BIT: Final = 0
OCTET: Final = 1
SHORT: Final = 2
LONG: Final = 3
LONGLONG: Final = 4
SHORTSTR: Final = 5
LONGSTR: Final = 6
TABLE: Final = 7
KINDS: Final = ("bit", "octet", "short", "long", "longlong", "shortstr", "longstr", "table")
# The value of a reserved argument, by kind.
ZEROS: Final[tuple[object, ...]] = (False, 0, 0, 0, 0, "", b"", {})
RESERVED: Final = "reserved"


@final
class Layout:
    """A row of the method table, prepared for encoding and decoding: parallel lists of its arguments.

    `labels` are the arguments' names in errors.
    """

    def __init__(self, method: type[Method], arguments: str) -> None:
        self.method: str = method.name
        # The constructor takes the arguments that are not reserved, in the order of encoding.
        self.make: Callable[..., Method] = method
        self.names: list[str] = []
        self.kinds: list[int] = []
        self.labels: list[str] = []
        for argument in arguments.split():
            name, _, kind = argument.partition(":")
            self.names.append(name)
            self.kinds.append(KINDS.index(kind))
            self.labels.append(f"{method.name} {name}")


METHODS: Final[dict[int, type[Method]]] = {}
LAYOUTS: Final[dict[int, Layout]] = {}


def _fill_tables() -> None:
    classes = {cls.__name__: cls for cls in Method.__subclasses__()}
    for number, name, arguments in spec.METHOD_TABLE:
        # "queue.declare-ok" is QueueDeclareOk.
        cls = classes["".join(word.capitalize() for word in name.replace(".", "-").split("-"))]
        cls.id = number
        cls.name = name
        METHODS[number] = cls
        LAYOUTS[number] = Layout(cls, arguments)


_fill_tables()


def decode_method(payload: bytes) -> Method:
    """Decode the payload of a method frame.

    Raises NotImplementedHere for an unknown method, SyntaxFault for invalid arguments.
    """
    number, pos = pull_long(payload, 0)
    layout = LAYOUTS.get(number)
    if layout is None:
        raise NotImplementedHere(f"unknown method {number >> 16}/{number & 0xFFFF}")
    try:
        return _pull_arguments(layout, payload, pos)
    except SyntaxFault as fault:
        raise SyntaxFault(f"{layout.method}: {fault.text}") from None


def _pull_arguments(layout: Layout, payload: bytes, pos: i64) -> Method:
    values: list[object] = []
    # Neighbouring bits share an octet, the first in the lowest place (amqp-0-9-1 §4.2.5.2), and no method has more than
    # eight of them. `mask` is the next bit, 0 between runs of bits.
    octet = 0
    mask = 0
    for i, kind in enumerate(layout.kinds):
        value: object
        if kind == BIT:
            if mask == 0:
                octet, pos = pull_octet(payload, pos)
                mask = 1
            value = octet & mask != 0
            mask <<= 1
        else:
            mask = 0
            value, pos = _pull_argument(payload, pos, kind)
        if layout.names[i] != RESERVED:
            values.append(value)
    if pos != len(payload):
        raise SyntaxFault(f"{len(payload) - pos} bytes are left after the last argument")
    return layout.make(*values)


def _pull_argument(payload: bytes, pos: i64, kind: int) -> tuple[object, i64]:
    if kind == SHORTSTR:
        return pull_shortstr(payload, pos)
    if kind == LONGLONG:
        return pull_longlong(payload, pos)
    if kind == SHORT:
        return pull_short(payload, pos)
    if kind == TABLE:
        return decode_arguments(payload, pos)
    if kind == LONG:
        return pull_long(payload, pos)
    if kind == LONGSTR:
        return pull_longstr(payload, pos)
    return pull_octet(payload, pos)


def encode_method(method: Method) -> bytes:
    """Encode a method as the payload of its frame. Raises LocalProtocolError if an argument does not fit its type."""
    layout = LAYOUTS[method.id]
    w = BytesWriter()
    push_long(w, method.id, "method id")
    octet = 0
    mask = 0
    for i, kind in enumerate(layout.kinds):
        name = layout.names[i]
        value = ZEROS[kind] if name == RESERVED else getattr(method, name)
        if kind != BIT:
            if mask:
                w.append(octet)
                mask = 0
            _push_argument(w, value, kind, layout.labels[i])
            continue
        if mask == 0:
            octet = 0
            mask = 1
        if value:
            octet |= mask
        mask <<= 1
    if mask:
        w.append(octet)
    return w.getvalue()


def _push_argument(w: BytesWriter, value: object, kind: int, what: str) -> None:
    if kind == SHORTSTR:
        push_shortstr(w, cast(str, value), what)
    elif kind == LONGLONG:
        push_longlong(w, cast(int, value), what)
    elif kind == SHORT:
        push_short(w, cast(int, value), what)
    elif kind == TABLE:
        encode_table(w, cast(Table, value))
    elif kind == LONG:
        push_long(w, cast(int, value), what)
    elif kind == LONGSTR:
        push_longstr(w, cast(bytes, value), what)
    else:
        push_octet(w, cast(int, value), what)
