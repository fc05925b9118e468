"""The Prometheus text format, written in slices. A library would build all samples at once."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from flintmq.base.histogram import BOUNDS_SECONDS, Histogram
from flintmq.management.slices import Slice

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
GAUGE: Final = "gauge"
COUNTER: Final = "counter"
# So many samples of a family are written at once.
_SAMPLES_PER_PIECE: Final = 512
_OBJECTS_PER_LOOK: Final = 8
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_HELP_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n"})

T = TypeVar("T")
Number = int | float


@dataclass(frozen=True)
class Family(Generic[T]):
    """A metric of many objects. `value` reads it from an object; `group` is its family at /metrics/detailed.

    `has` tells which objects have the metric; None stands for all.
    """

    group: str
    name: str
    kind: str
    help: str
    value: Callable[[T], Number]
    has: Callable[[T], bool] | None = None


def labels(pairs: Mapping[str, str]) -> str:
    """Labels with braces; empty without labels."""
    if not pairs:
        return ""
    return "{" + ",".join([f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items()]) + "}"


def header(name: str, kind: str, text: str) -> str:
    return f"# TYPE {name} {kind}\n# HELP {name} {text.translate(_HELP_ESCAPES)}\n"


def single(name: str, kind: str, text: str, value: Number, said: Mapping[str, str] | None = None) -> str:
    """A family with one sample."""
    return f"{header(name, kind, text)}{name}{labels(said or {})} {value}\n"


def several(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], Number]]) -> str:
    """A family with few samples."""
    return header(name, kind, text) + "".join([f"{name}{labels(said)} {value}\n" for said, value in samples])


def histogram(name: str, text: str, measured: Histogram) -> str:
    # Another thread may change the histogram meanwhile; the copied buckets stay consistent.
    counts = list(measured.counts)
    lines = [header(name, "histogram", text)]
    below = 0
    for bound, count in zip(BOUNDS_SECONDS, counts, strict=False):
        below += count
        lines.append(f'{name}_bucket{{le="{bound}"}} {below}\n')
    below += counts[-1]
    lines.append(f'{name}_bucket{{le="+Inf"}} {below}\n{name}_count {below}\n{name}_sum {measured.total_seconds}\n')
    return "".join(lines)


async def each_of(
    prefix: str, families: Sequence[Family[T]], objects: Sequence[T], describe: Callable[[T], Mapping[str, str]]
) -> AsyncIterator[str]:
    """One sample per object and family, in slices."""
    if not objects or not families:
        return
    said: list[str] = []
    now = Slice()
    for at, each in enumerate(objects):
        said.append(labels(describe(each)))
        if at % _OBJECTS_PER_LOOK == 0 and now.is_over:
            await now.pause()
    for family in families:
        name = prefix + family.name
        piece = [header(name, family.kind, family.help)]
        value, has = family.value, family.has
        for at, each in enumerate(objects):
            if has is None or has(each):
                piece.append(f"{name}{said[at]} {value(each)}\n")
            if at % _OBJECTS_PER_LOOK == 0 and now.is_over:
                await now.pause()
            if len(piece) >= _SAMPLES_PER_PIECE:
                yield "".join(piece)
                piece.clear()
                # The time until the client has read is not work.
                now.waited()
        yield "".join(piece)
        now.waited()


async def sums_of(prefix: str, families: Sequence[Family[T]], objects: Sequence[T]) -> str:
    """One sample per family: the sum over all objects."""
    sums: list[Number] = [0] * len(families)
    readers = list(enumerate(families))
    now = Slice()
    for at, each in enumerate(objects):
        for place, family in readers:
            if family.has is None or family.has(each):
                sums[place] += family.value(each)
        if at % _OBJECTS_PER_LOOK == 0 and now.is_over:
            await now.pause()
    return "".join(
        [
            single(prefix + family.name, family.kind, family.help, total)
            for family, total in zip(families, sums, strict=True)
        ]
    )
