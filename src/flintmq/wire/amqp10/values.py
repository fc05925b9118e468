"""Values of AMQP 1.0 without a Python type (amqp-1.0 part 1 §1.6).

None, bool, int (long), float (double), str, bytes (binary), list and dict (map) represent themselves. Two values are
equal only if their types are: UInt(1) is neither ULong(1) nor 1.
"""

from typing import final

from mypy_extensions import mypyc_attr


@mypyc_attr(acyclic=True)
class Wrapped:
    """A number or text whose class is its AMQP type."""

    def __eq__(self, other: object) -> bool:
        raise NotImplementedError

    def __hash__(self) -> int:
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class WrappedInt(Wrapped):
    """An integer. Encoding checks whether it fits its type."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedInt) and type(self) is type(other) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value})"


@final
@mypyc_attr(acyclic=True)
class UByte(WrappedInt):
    pass


@final
@mypyc_attr(acyclic=True)
class UShort(WrappedInt):
    pass


@final
@mypyc_attr(acyclic=True)
class UInt(WrappedInt):
    pass


@final
@mypyc_attr(acyclic=True)
class ULong(WrappedInt):
    pass


@final
@mypyc_attr(acyclic=True)
class Byte(WrappedInt):
    pass


@final
@mypyc_attr(acyclic=True)
class Short(WrappedInt):
    pass


@final
@mypyc_attr(acyclic=True)
class Int(WrappedInt):
    pass


@final
@mypyc_attr(acyclic=True)
class TimestampMs(WrappedInt):
    """Milliseconds since 1970-01-01 UTC, signed 64 bit."""


@final
@mypyc_attr(acyclic=True)
class Char(WrappedInt):
    """A Unicode code point."""


@mypyc_attr(acyclic=True)
class WrappedBytes(Wrapped):
    """A value in its encoded form."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedBytes) and type(self) is type(other) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.raw))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


@final
@mypyc_attr(acyclic=True)
class Float32(WrappedBytes):
    """A float: its four bytes, because a Python float would change a signalling NaN."""


@final
@mypyc_attr(acyclic=True)
class Decimal32(WrappedBytes):
    """IEEE 754 decimal32, four bytes."""


@final
@mypyc_attr(acyclic=True)
class Decimal64(WrappedBytes):
    """IEEE 754 decimal64, eight bytes."""


@final
@mypyc_attr(acyclic=True)
class Decimal128(WrappedBytes):
    """IEEE 754 decimal128, sixteen bytes."""


@final
@mypyc_attr(acyclic=True)
class Uuid(WrappedBytes):
    """A UUID, sixteen bytes (RFC 4122 §4.1.2)."""

    def __str__(self) -> str:
        text = self.raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@final
@mypyc_attr(acyclic=True)
class Symbol(Wrapped):
    """An ASCII text from a constrained domain. Performatives use str for fields that are symbols by definition."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("Symbol", self.name))

    def __repr__(self) -> str:
        return f"Symbol({self.name!r})"

    def __str__(self) -> str:
        return self.name


@final
class Described:
    """A value with a descriptor, which is a ULong or a Symbol unless an application uses another type."""

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor = descriptor
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and self.descriptor == other.descriptor and self.value == other.value

    def __hash__(self) -> int:
        raise TypeError("a described value cannot be a key: see MapKey")

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


@final
class Array:
    """Values of one type: `kind` is its name ("symbol", "uint", "list", ...).

    Items are represented as outside of an array. If they are described, `descriptors` has the descriptors that all
    items share, the outermost first, and the items are the described values.
    """

    def __init__(self, kind: str, items: list[object], descriptors: list[object] | None = None) -> None:
        self.kind = kind
        self.items = items
        self.descriptors: list[object] = descriptors or []

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and self.kind == other.kind
            and self.descriptors == other.descriptors
            and self.items == other.items
        )

    def __hash__(self) -> int:
        raise TypeError("an array cannot be a key: see MapKey")

    def __repr__(self) -> str:
        return f"Array({self.kind!r}, {self.items!r}{f', {self.descriptors!r}' if self.descriptors else ''})"


@final
class MapKey:
    """A key of a map that Python would confuse with other keys, or refuse: booleans, doubles, lists and the like.

    To a dict, True and 1 and 1.0 are the same key; to a map they are three. Decoded maps have such keys wrapped; maps
    to encode may have them either way. `encoded` is the value as bytes, which identifies the key.
    """

    def __init__(self, value: object, encoded: bytes) -> None:
        self.value = value
        self.encoded = encoded

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapKey) and self.encoded == other.encoded

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __repr__(self) -> str:
        return f"MapKey({self.value!r})"
