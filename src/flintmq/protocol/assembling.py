"""What the messages of a node hold that have begun to come and have not ended, whatever protocol they come by."""

from typing import Final, final

from mypy_extensions import i64

# No node holds so much.
_NO_LIMIT: Final = 1 << 62


@final
class Assembling:
    """`held` is in bytes. Above `most` the connections they come by are read from one at a time.

    All connections of a node share one; each adds what it holds.
    """

    def __init__(self) -> None:
        self.held: i64 = 0
        self.most: i64 = _NO_LIMIT

    @property
    def is_full(self) -> bool:
        return self.held > self.most
