"""Limits of a connection for messages that its channels receive in part."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import ResourceError
from flintmq.protocol.reassembly import NodeReassembly, Reassembly


@final
class ReassemblyBudget(Reassembly):
    """The reassembly limits of a connection, in bytes: `message_max` of a body, `header_max` of a header's payload."""

    def __init__(self, message_max: i64, header_max: i64, node: NodeReassembly | None = None) -> None:
        super().__init__(message_max, node)
        self.message_max: i64 = message_max
        self.header_max: i64 = header_max

    def hold(self, size: i64) -> None:
        """Count a part of an incomplete body. Raises ResourceError if the connection holds too much."""
        if not self.add(size):
            raise ResourceError(
                f"messages begun on all channels of this connection hold {self.held} bytes, at most {self.held_max} "
                "are kept: end some before beginning others"
            )
