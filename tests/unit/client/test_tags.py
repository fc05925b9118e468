"""Which delivery tags are done with, against a set of numbers."""

from hypothesis import given
from hypothesis import strategies as st

from flintmq.client.tags import Tags

TAG = st.integers(1, 40)
STEPS = st.lists(st.tuples(st.sampled_from(["one", "run", "up to"]), TAG, TAG), max_size=40)


@given(STEPS)
def test_tags_are_those_that_were_added(steps: list[tuple[str, int, int]]) -> None:
    """Whatever the order and the overlaps: exactly the added tags are in, and the floor is as high as can be."""
    tags = Tags()
    model: set[int] = set()
    for kind, a, b in steps:
        if kind == "one":
            tags.add(a, a)
            model.add(a)
        elif kind == "run":
            tags.add(min(a, b), max(a, b))
            model.update(range(min(a, b), max(a, b) + 1))
        else:
            tags.add_up_to(a)
            model.update(range(1, a + 1))
        floor = next(tag - 1 for tag in range(1, 100) if tag not in model)
        assert tags.floor == floor
        assert {tag for tag in range(1, 60) if tag in tags} == model


def test_runs_that_grow_together_take_no_room() -> None:
    """What is held does not grow with the number of tags behind one that stays open."""
    tags = Tags()
    for tag in range(2, 10_000):
        tags.add(tag, tag)
    assert tags.floor == 0
    assert len(tags._firsts) == 1
