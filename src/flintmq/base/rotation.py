"""Round robin over a list."""

from typing import TypeVar

T = TypeVar("T")


def behind(items: list[T], last: T | None) -> list[T]:
    """Rotate `items` so that they begin after `last` and end with it, because it had its turn last."""
    if last is None or last not in items:
        return items
    start = items.index(last) + 1
    return items[start:] + items[:start]
