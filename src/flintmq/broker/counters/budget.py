"""An account of bytes that many share."""

from typing import Final, final

from mypy_extensions import i64

# Nobody holds so much.
_NO_LIMIT: Final = 1 << 62


@final
class Budget:
    """`held` and `most` are in bytes; who shares the account decides what happens above `most`."""

    def __init__(self) -> None:
        self.held: i64 = 0
        self.most: i64 = _NO_LIMIT
