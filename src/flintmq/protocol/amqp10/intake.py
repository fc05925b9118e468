"""What the links of a connection may take in together."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import ResourceLimitExceeded
from flintmq.base.limits import ASSEMBLY_MAX_BYTES, COUNTED_FRAME_BYTES
from flintmq.protocol.assembling import Assembling


@final
class Intake:
    """`held` is what all messages that have begun and not ended hold at present, in bytes."""

    def __init__(self, message_max: i64, assembling: Assembling | None = None) -> None:
        # What all connections hold together.
        self._assembling = assembling or Assembling()
        self.held: i64 = 0
        # What came of a frame that is not complete.
        self._frame: i64 = 0
        # Two of the largest messages fit at once, however large these are.
        self._held_max: i64 = max(ASSEMBLY_MAX_BYTES, 2 * message_max)

    def hold(self, size: i64) -> None:
        """A part of a message came, and there is more to come. Raises ResourceLimitExceeded when it is too much."""
        self.held += size
        self._assembling.held += size
        if self.held > self._held_max:
            raise ResourceLimitExceeded(
                f"messages begun on all links of this connection hold {self.held} bytes, at most {self._held_max} "
                "are kept: end some before beginning others"
            )

    def release(self, size: i64) -> None:
        self.held -= size
        self._assembling.held -= size

    def hold_frame(self, size: i64, needed: i64) -> None:
        """Of a frame with so many bytes, so many came: of a small one nothing is counted. It holds until it is said
        again; 0 says that there is none.
        """
        if size < COUNTED_FRAME_BYTES or size >= needed:
            size = 0
        self._assembling.held += size - self._frame
        self._frame = size

    @property
    def all_held(self) -> i64:
        """With what came of a frame."""
        return self.held + self._frame
