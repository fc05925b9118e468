"""Sets of small numbers, beside Python's own."""

from hypothesis import given
from hypothesis import strategies as st

from flintmq.storage.journal.bits import Bits, Counts
from flintmq.storage.journal.recovery import SeqSet

NUMBERS = st.integers(0, 300)
RUNS = st.lists(st.tuples(NUMBERS, st.integers(1, 100)))


@given(RUNS, st.lists(NUMBERS))
def test_bits(runs: list[tuple[int, int]], removed: list[int]) -> None:
    """Runs and single numbers are in the set until they are removed, and what was new in a run is counted."""
    bits = Bits()
    model: set[int] = set()
    for first, length in runs:
        run = set(range(first, first + length))
        if length == 1:
            assert bits.add(first) == (first not in model)
        else:
            assert bits.add_run(first, first + length) == len(run - model)
        model |= run
    for number in removed:
        bits.remove(number)
        model.discard(number)
    assert [number for number in range(1000) if bits.has(number)] == sorted(model)


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 600))), st.lists(NUMBERS))
def test_counts(pairs: list[tuple[int, int]], kept: list[int]) -> None:
    """The last count of each number holds, however large; of those not kept it is 0."""
    counts = Counts()
    model: dict[int, int] = {}
    for number, count in pairs:
        counts.set(number, count)
        model[number] = count
    assert [counts.get(number) for number in range(400)] == [model.get(number, 0) for number in range(400)]
    counts.keep(kept)
    assert [counts.get(number) for number in kept] == [model.get(number, 0) for number in kept]


def test_long_runs_of_seqs() -> None:
    """A range of any length is in the set, and nothing beside it."""
    seqs = SeqSet()
    seqs.add_run(70_000, 1_000_000_000)
    assert not any(seqs.add(seq) for seq in (70_000, 131_072, 5_000_000, 999_999_999))
    assert all(seqs.add(seq) for seq in (69_999, 1_000_000_000, 0))
    assert not seqs.add(69_999)


def test_seqs_are_looked_up_in_any_order() -> None:
    """A part that was looked at last is not taken for another, complete parts and missing ones included."""
    seqs = SeqSet()
    seqs.add(5)
    seqs.add_run(65_536, 196_608)
    found = [seq for seq in (5, 65_536, 6, 200_000, 5, 131_072, 65_541) if seqs.has(seq)]
    assert found == [5, 65_536, 5, 131_072, 65_541]
    assert not seqs.add(65_541)
    assert seqs.add(200_000)
    assert seqs.has(200_000)
    assert not seqs.has(200_001)
