"""The base of all composite types: a class per type, with its fields as attributes (amqp-1.0 part 1 §1.4)."""

from typing import ClassVar, Final, final

from mypy_extensions import mypyc_attr

from flintmq.wire.amqp10 import spec

# A map with symbols as keys. The keys are symbols by definition, and therefore plain str here.
Fields = dict[str, object]
# A map with symbols (str) and ulongs (int) as keys. The specification reserves the ulongs.
Annotations = dict[str | int, object]

BOOLEAN: Final = 0
UBYTE: Final = 1
USHORT: Final = 2
UINT: Final = 3
ULONG: Final = 4
TIMESTAMP: Final = 5
STRING: Final = 6
SYMBOL: Final = 7
BINARY: Final = 8
SYMBOLS: Final = 9
FIELDS: Final = 10
ANNOTATIONS: Final = 11
UNSETTLED: Final = 12
MESSAGE_ID: Final = 13
ANY: Final = 14
ERROR: Final = 15
STATE: Final = 16
OUTCOME: Final = 17
SOURCE: Final = 18
TARGET: Final = 19
KINDS: Final = (
    "boolean", "ubyte", "ushort", "uint", "ulong", "timestamp", "string", "symbol", "binary", "symbols", "fields",
    "annotations", "unsettled", "message-id", "any", "error", "state", "outcome", "source", "target",
)  # fmt: skip


@mypyc_attr(acyclic=True)
class Composite:
    """A composite value, one subclass per row of `spec.COMPOSITES`. Unset and null fields have the class's default.

    `descriptor` is the descriptor's code, `type_name` is "attach" and the like. Both are set where the tables are
    filled: a ClassVar in the body of a compiled dataclass would be taken for a field.
    """

    descriptor: ClassVar[int] = 0
    type_name: ClassVar[str] = ""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        names = LAYOUTS[self.descriptor].attributes
        return all(bool(getattr(self, name) == getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        raise TypeError("a composite cannot be a key")

    def __repr__(self) -> str:
        names = LAYOUTS[self.descriptor].attributes
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


@final
class Layout:
    """A row of `spec.COMPOSITES`, prepared for reading and writing: parallel lists of its fields.

    `labels` are the fields' names in errors. `make` and `defaults` are set when the class is registered.
    """

    def __init__(self, code: int, name: str, fields: str) -> None:
        self.code = code
        self.name = name
        self.make: type[Composite] = Composite
        self.attributes: list[str] = []
        self.labels: list[str] = []
        self.kinds: list[int] = []
        self.mandatory: list[bool] = []
        self.defaults: list[object] = []
        for each in fields.split():
            field, _, kind = each.partition(":")
            self.attributes.append(field.replace("-", "_"))
            self.labels.append(f"{name} {field}")
            self.kinds.append(KINDS.index(kind.rstrip("!")))
            self.mandatory.append(kind.endswith("!"))

    def know(self, cls: type[Composite]) -> None:
        """Register the class of this type. Its instance without arguments has the defaults."""
        cls.descriptor = self.code
        cls.type_name = self.name
        self.make = cls
        unset = cls()
        self.defaults = [getattr(unset, name) for name in self.attributes]


# Keys are descriptor codes.
LAYOUTS: Final[dict[int, Layout]] = {code: Layout(code, name, fields) for code, name, fields in spec.COMPOSITES}


def know_subclasses(base: type[Composite]) -> None:
    """Register every subclass of `base` that is a composite type: sasl-init's is SaslInit."""
    codes = {"".join(word.capitalize() for word in name.split("-")): code for code, name, _ in spec.COMPOSITES}
    for cls in base.__subclasses__():
        code = codes.get(cls.__name__)
        if code is None:
            know_subclasses(cls)
        else:
            LAYOUTS[code].know(cls)
