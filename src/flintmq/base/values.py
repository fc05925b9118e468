"""Values of header and argument tables for which Python has no type."""

from typing import ClassVar, Final, final

from mypy_extensions import mypyc_attr


@final
class Timestamp:
    """A time in seconds since 1970-01-01 UTC, unsigned 64 bits as on the wire; datetime ends in the year 9999."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.seconds == other.seconds

    def __hash__(self) -> int:
        return hash(self.seconds)

    def __repr__(self) -> str:
        return f"Timestamp({self.seconds})"


# Compiled classes cannot extend int, so these are not native. They are created only for arguments of definitions.
@mypyc_attr(native_class=False)
class TypedInt(int):
    """An integer of less than 64 bits in an argument of a definition; listings show the type that it was declared with.

    It is equal to every integer with its value. `type` is its name in AMQP 1.0, `name_091` RabbitMQ's in AMQP 0-9-1;
    `least` and `most` are its range.
    """

    type: ClassVar[str] = ""
    name_091: ClassVar[str] = ""
    least: ClassVar[int] = 0
    most: ClassVar[int] = 0


@mypyc_attr(native_class=False)
class Int8(TypedInt):
    type = "byte"
    name_091 = "byte"
    least = -0x80
    most = 0x7F


@mypyc_attr(native_class=False)
class UInt8(TypedInt):
    type = "ubyte"
    name_091 = "unsignedbyte"
    most = 0xFF


@mypyc_attr(native_class=False)
class Int16(TypedInt):
    type = "short"
    name_091 = "short"
    least = -0x8000
    most = 0x7FFF


@mypyc_attr(native_class=False)
class UInt16(TypedInt):
    type = "ushort"
    name_091 = "unsignedshort"
    most = 0xFFFF


@mypyc_attr(native_class=False)
class Int32(TypedInt):
    type = "int"
    name_091 = "signedint"
    least = -0x8000_0000
    most = 0x7FFF_FFFF


@mypyc_attr(native_class=False)
class UInt32(TypedInt):
    type = "uint"
    name_091 = "unsignedint"
    most = 0xFFFF_FFFF


INTEGER_TYPES: Final[dict[str, type[TypedInt]]] = {
    each.type: each for each in (Int8, UInt8, Int16, UInt16, Int32, UInt32)
}


# The key is the class, because compiled code does not recognise these classes as subclasses of TypedInt by isinstance.
_TYPE_NAMES: Final[dict[object, str]] = {each: each.type for each in (Int8, UInt8, Int16, UInt16, Int32, UInt32)}


def integer_type(value: object) -> str:
    """The name of the type of a TypedInt; empty for other values.

    The static type of the value must be object, not int: compiled code would convert an int to a plain integer.
    """
    return _TYPE_NAMES.get(type(value), "")


def typed(name: str, value: object) -> TypedInt:
    """Create a TypedInt. Raises ValueError for an unknown type, or a value outside of its range."""
    kind = INTEGER_TYPES.get(name)
    if kind is None:
        raise ValueError(
            f"integer type '{name}' is unknown: there are {', '.join(INTEGER_TYPES)}, and long without one"
        )
    if isinstance(value, bool) or not isinstance(value, int) or not kind.least <= value <= kind.most:
        raise ValueError(f"{value!r:.100} is not a {name}: it must be from {kind.least} to {kind.most}")
    return kind(value)
