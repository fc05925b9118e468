"""What the channels of a connection may take in, each and together."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import ResourceError
from flintmq.base.limits import ASSEMBLY_MAX_BYTES, COUNTED_FRAME_BYTES
from flintmq.protocol.assembling import Assembling


@final
class Intake:
    """`message_max` bounds a body, `header_max` a content header's payload; `held` is what all bodies that have begun
    and not ended hold at present. All are bytes.
    """

    def __init__(self, message_max: i64, header_max: i64, assembling: Assembling | None = None) -> None:
        # What all connections hold together.
        self._assembling = assembling or Assembling()
        self.message_max: i64 = message_max
        self.header_max: i64 = header_max
        self.held: i64 = 0
        # What came of a frame that is not complete.
        self._frame: i64 = 0
        # Two of the largest messages fit at once, however large these are.
        self._held_max: i64 = max(ASSEMBLY_MAX_BYTES, 2 * message_max)

    def hold(self, size: i64) -> None:
        """A part of a body came, and there is more to come. Raises ResourceError when it is too much."""
        self.held += size
        self._assembling.held += size
        if self.held > self._held_max:
            raise ResourceError(
                f"messages begun on all channels of this connection hold {self.held} bytes, at most {self._held_max} "
                "are kept: end some before beginning others"
            )

    def release(self, size: i64) -> None:
        """Of a body, so much is not kept any more: it ended, or its channel did."""
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
