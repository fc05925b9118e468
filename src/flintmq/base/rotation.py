"""Taking turns at something that is shared."""

from typing import TypeVar

T = TypeVar("T")


def behind(items: list[T], last: T | None) -> list[T]:
    """The same items, beginning with the one after `last`, which comes at the end: it had something last."""
    if last is None or last not in items:
        return items
    start = items.index(last) + 1
    return items[start:] + items[:start]
