"""Payloads of method frames: class id, method id, arguments (amqp-0-9-1 §2.3.5.1), encoded by the table of methods."""

from collections.abc import Callable
from typing import Final, cast, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from flintmq.base.errors import NotImplementedHere, SyntaxFault
from flintmq.wire.amqp091.methods import METHODS, Method
from flintmq.wire.amqp091.spec import KINDS, METHOD_TABLE, RESERVED, MethodRow
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

# The types of arguments, as indexes of KINDS.
BIT: Final = 0
OCTET: Final = 1
SHORT: Final = 2
LONG: Final = 3
LONGLONG: Final = 4
SHORTSTR: Final = 5
LONGSTR: Final = 6
TABLE: Final = 7
# The value of a reserved argument, by kind.
ZEROS: Final[tuple[object, ...]] = (False, 0, 0, 0, 0, "", b"", {})


@final
class Layout:
    """A row of the method table, prepared for encoding and decoding: parallel lists of its arguments.

    `labels` are the arguments' names in errors.
    """

    def __init__(self, row: MethodRow) -> None:
        self.method: str = row.name
        # The constructor takes the arguments that are not reserved, in the order of encoding.
        self.make: Callable[..., Method] = METHODS[row.number]
        arguments = row.arguments
        self.names: list[str] = [argument.name for argument in arguments]
        self.kinds: list[int] = [KINDS.index(argument.kind) for argument in arguments]
        self.labels: list[str] = [f"{row.name} {argument.name}" for argument in arguments]


LAYOUTS: Final[dict[int, Layout]] = {row.number: Layout(row) for row in METHOD_TABLE}


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
