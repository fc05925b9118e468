import pytest
from rich.console import Console

from flintmq.cli.tables import Column, in_words, table_of, time_in_words

COLUMNS = (Column("name", "name", rank=0), Column("in", "stats.rate", "rate"), Column("policy", "policy"))


def shown(items: list[dict[str, object]], width: int = 40) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(table_of(items, COLUMNS))
    return captured.get()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (3_661, "1 h 1 min"), (90_000, "1 d 1 h"), (864_000, "10 d 0 h")],
)
def test_times(seconds: int, words: str) -> None:
    """A duration has its two largest units."""
    assert time_in_words(seconds) == words


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (None, "count", ""),
        (True, "text", "yes"),
        (0, "count", "0"),
        (1234567, "count", "1,234,567"),
        (2.34, "rate", "2.3/s"),
        (1234.5, "rate", "1,234/s"),
        (1023, "bytes", "1,023 bytes"),
        (1536, "bytes", "1.5 KiB"),
        (64 << 20, "bytes", "64.0 MiB"),
        ((1 << 30) - 1, "bytes", "1.0 GiB"),
        (3 << 40, "bytes", "3.0 TiB"),
        (1, "bytes", "1 byte"),
        (61_000, "milliseconds", "1 min 1 s"),
        (["a", "b"], "text", "a, b"),
        ({"x": {"y": 1}}, "text", "x=y=1"),
    ],
)
def test_values(value: object, kind: str, words: str) -> None:
    """Each kind of value has its unit; a missing value is empty, and zero is 0."""
    assert in_words(value, kind) == words


def test_columns_that_nothing_has_are_left_out() -> None:
    """Columns without any value are left out; an empty table has all headings."""
    assert "policy" not in shown([{"name": "q", "stats": {"rate": 0}}])
    assert "policy" in shown([{"name": "q"}, {"name": "r", "policy": "p"}])
    assert "policy" in shown([])


RANKED = (
    Column("name", "name", rank=0),
    Column("in", "in", "rate", rank=1),
    Column("ready", "ready", "count", rank=3),
    Column("bytes", "bytes", "bytes", rank=2),
)


@pytest.mark.parametrize(
    ("width", "headings"),
    [(60, ["name", "in", "ready", "bytes"]), (50, ["name", "in", "bytes"]), (40, ["name", "in"]), (30, ["name"])],
)
def test_what_matters_least_goes_first(width: int, headings: list[str]) -> None:
    """A narrow terminal shows whole names and the columns of the lowest ranks that fit."""
    items = [{"name": "warehouse.shipments", "in": 1_234_567, "ready": at, "bytes": 1500} for at in range(3)]
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(table_of(items, RANKED, width))
    assert captured.get().split("\u2500")[0].split() == headings
    assert captured.get().count("warehouse.shipments") == 3


def test_names_are_never_cut_off() -> None:
    """On a narrow terminal, long names wrap."""
    text = shown([{"name": "x" * 50, "stats": {"rate": 1.0}}], width=30)
    assert text.count("x") == 50
    assert "\u2026" not in text
