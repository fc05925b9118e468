"""A count of bytes that many objects share, with a limit."""

from typing import Final, final

from mypy_extensions import i64

# An unreachable number of bytes.
_NO_LIMIT: Final = 1 << 62


@final
class Budget:
    """`held` and `most` are bytes. The sharers decide what happens above `most`."""

    def __init__(self) -> None:
        self.held: i64 = 0
        self.most: i64 = _NO_LIMIT
