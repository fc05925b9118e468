"""Bounds on names and tables of definitions, for every way in which they reach the broker.

AMQP 0-9-1 sets these bounds by its encoding: a name is a short string, and a table fits a frame. The HTTP API,
definitions files, the configuration and AMQP 1.0 have no such bounds, and could define what no client of AMQP 0-9-1 can
be sent. The broker therefore checks the bounds once, below all of them.

The functions `..._fault` return a text for the sender, or "" if there is no fault: each caller raises its own type of
error.
"""

from typing import Final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed, ResourceError
from flintmq.base.limits import (
    ARGUMENTS_IN_ALARM_MAX_BYTES,
    ARGUMENTS_MAX_BYTES,
    SHORTSTR_MAX_BYTES,
    TABLE_DEPTH_MAX,
    TABLE_ENTRIES_MAX,
)
from flintmq.broker.message import Table

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
# The size in a table of a number, or of any other value of fixed size: its type and eight bytes.
_FIXED_BYTES: Final = 9
# The type and the length in front of a text, a list or a table.
_LENGTH_BYTES: Final = 5


def name_fault(what: str, name: str) -> str:
    """Return the fault of a name or routing key that is not a short string (amqp-0-9-1 §4.2.5.3), or ""."""
    if len(name) * 3 <= SHORTSTR_MAX_BYTES and name.isascii():
        return ""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return f"the {what} {name[:32]!r} has lone surrogates, which UTF-8 cannot carry"
    if size <= SHORTSTR_MAX_BYTES:
        return ""
    return f"the {what} '{name[:32]}...' has {size} bytes in UTF-8: at most {SHORTSTR_MAX_BYTES} are allowed"


def check_name(what: str, name: str) -> None:
    """Raises PreconditionFailed if `name_fault` finds a fault."""
    fault = name_fault(what, name)
    if fault:
        raise PreconditionFailed(fault)


def short(name: str) -> str:
    """Return a routing key, cut to the length that a delivery can carry."""
    if not name_fault("", name):
        return name
    return name.encode(errors="replace")[:SHORTSTR_MAX_BYTES].decode(errors="ignore")


def value_fault(what: str, value: object, most: int = ARGUMENTS_MAX_BYTES) -> str:
    """Return the fault of a table or JSON value that is too large or deep, or has too long names; "" if none."""
    if isinstance(value, dict) and not value:
        return ""
    size: i64 = 0
    level: list[object] = [value]
    depth = 0
    while level:
        inner: list[object] = []
        for each in level:
            if depth >= TABLE_DEPTH_MAX and isinstance(each, (dict, list, tuple)):
                return f"{what}: more than {TABLE_DEPTH_MAX} objects within each other"
            if isinstance(each, dict):
                size += _LENGTH_BYTES
                fault = _entries_fault(what, each)
                if fault:
                    return fault
                for name in each:
                    size += 1 + len(name)
                inner += each.values()
            elif isinstance(each, (list, tuple)):
                size += _LENGTH_BYTES
                if len(each) > TABLE_ENTRIES_MAX:
                    return f"{what}: a list of {len(each)} values, at most {TABLE_ENTRIES_MAX} are taken"
                inner += each
            elif isinstance(each, str):
                size += _LENGTH_BYTES + _utf8_size(each)
            elif isinstance(each, (bytes, bytearray)):
                size += _LENGTH_BYTES + len(each)
            elif isinstance(each, int) and not _INT64_MIN <= each <= _UINT64_MAX:
                return f"{what}: {_shown(each)} has more than 64 bits"
            else:
                size += _FIXED_BYTES
            if size > most:
                return f"{what}: larger than the limit of {most} bytes"
        level = inner
        depth += 1
    return ""


def integer_fault(what: str, number: int) -> str:
    """Return the fault of a number that does not fit a signed 64-bit column of the definitions, or ""."""
    return "" if _INT64_MIN <= number <= _INT64_MAX else f"{what} is from -2**63 to 2**63 - 1, not {_shown(number)}"


def check_arguments(what: str, arguments: Table) -> None:
    """Raises PreconditionFailed if `value_fault` finds a fault in the arguments of a declaration."""
    if arguments:
        fault = value_fault(f"arguments of {what}", arguments)
        if fault:
            raise PreconditionFailed(fault)


def _entries_fault(what: str, table: Table) -> str:
    if len(table) > TABLE_ENTRIES_MAX:
        return f"{what}: a table of {len(table)} entries, at most {TABLE_ENTRIES_MAX} are taken"
    for name in table:
        fault = name_fault("field name", name)
        if fault:
            return f"{what}: {fault}"
    return ""


def _utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _shown(number: int) -> str:
    # Python refuses to print a number of thousands of digits (sys.set_int_max_str_digits).
    return str(number) if -(2**80) < number < 2**80 else "a number"


def check_room(alarm: str, what: str, arguments: Table) -> None:
    """Raises ResourceError for a new object with large arguments during an alarm: definitions stay in memory.

    Consumers can still declare what they consume from, because consuming makes room.
    """
    if alarm and arguments:
        fault = value_fault(f"arguments of {what}", arguments, ARGUMENTS_IN_ALARM_MAX_BYTES)
        if fault:
            raise ResourceError(f"{alarm}, so it cannot be declared now: {fault} while the alarm is on")
