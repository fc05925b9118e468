"""An account of bytes that many share."""

from typing import Final, final

from mypy_extensions import i64

# Nobody holds so much.
_NO_LIMIT: Final = 1 << 62


@final
class Budget:
    """`held` is in bytes; what is done above `most`, whoever shares it decides."""

    def __init__(self) -> None:
        self.held: i64 = 0
        self.most: i64 = _NO_LIMIT

    @property
    def is_overdrawn(self) -> bool:
        return self.held > self.most
