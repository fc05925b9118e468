"""What composite types have in common: a class per type, its fields as attributes (amqp-1.0 part 1 §1.4)."""

from typing import ClassVar, Final

from flintmq.wire.amqp10 import spec

# A map of symbols to anything: the keys are symbols by definition and therefore plain str here.
Fields = dict[str, object]
# A map of symbols (str) and ulongs (int), which the specification reserves, to anything.
Annotations = dict[str | int, object]

# The attributes of a type by its descriptor's code, in the order of the wire.
ATTRIBUTES: Final[dict[int, list[str]]] = {
    code: [each.partition(":")[0].replace("-", "_") for each in fields.split()] for code, _, fields in spec.COMPOSITES
}


class Composite:
    """One subclass per row of `spec.COMPOSITES`. A field that is not set, or null, is as its class says.

    `descriptor` is its code, `type_name` is "attach" and the like. Both are set where the tables are filled: a ClassVar
    in the body of a compiled dataclass would be taken for a field.
    """

    descriptor: ClassVar[int] = 0
    type_name: ClassVar[str] = ""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return False
        names = ATTRIBUTES[self.descriptor]
        return all(bool(getattr(self, name) == getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        raise TypeError("a composite is no key")

    def __repr__(self) -> str:
        names = ATTRIBUTES[self.descriptor]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
