"""The limit of a connection for messages that its links receive in part."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import ResourceLimitExceeded
from flintmq.protocol.reassembly import Reassembly


@final
class ReassemblyBudget(Reassembly):
    """Counts the bytes of incomplete messages on the links of one connection."""

    def hold(self, size: i64) -> None:
        """Count a part of an incomplete message. Raises ResourceLimitExceeded if the connection holds too much."""
        if not self.add(size):
            raise ResourceLimitExceeded(
                f"messages begun on all links of this connection hold {self.held} bytes, at most {self.held_max} "
                "are kept: end some before beginning others"
            )
