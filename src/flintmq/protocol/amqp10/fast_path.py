"""The fast path for transfers: those of one frame, without state, not resumed or aborted, are read without objects."""

from typing import Final, final

from librt.strings import read_i32_be
from mypy_extensions import i64

_NULL: Final = 0x40
_TRUE: Final = 0x41
_FALSE: Final = 0x42
_UINT0: Final = 0x43
_SMALLUINT: Final = 0x52
_UINT: Final = 0x70
_BINARY8: Final = 0xA0
_LIST8: Final = 0xC0
_TAG_MAX_BYTES: Final = 32
# The fields of a transfer (amqp-1.0 part 2 §2.7.5): the fast path needs the first five; the last, batchable, is a hint.
_NEEDED: Final = 5
_FIELDS: Final = 11


@final
class FastTransfer:
    """The fields that `scan` found; one object serves all transfers of a connection."""

    def __init__(self) -> None:
        self.handle: i64 = 0
        self.delivery_id: i64 = 0
        self.tag_start: i64 = 0
        self.tag_stop: i64 = 0
        self.message_format: i64 = 0
        self.settled: bool = False
        self._number: i64 = 0

    def scan(self, data: bytes, pos: i64, stop: i64) -> i64:
        """Read the fields of a transfer, whose list begins at `pos` in a frame that ends at `stop`.

        Returns where the payload begins, or 0 if the transfer has other fields or is malformed.
        """
        if stop - pos < 3 or data[pos] != _LIST8:
            return 0
        end: i64 = pos + 2 + i64(data[pos + 1])
        count: i64 = data[pos + 2]
        if end > stop or count < _NEEDED or count > _FIELDS:
            return 0
        pos = self._uint(data, pos + 3, end)
        if pos == 0:
            return 0
        self.handle = self._number
        pos = self._uint(data, pos, end)
        if pos == 0 or pos + 2 > end or data[pos] != _BINARY8 or data[pos + 1] > _TAG_MAX_BYTES:
            return 0
        self.delivery_id = self._number
        self.tag_start = pos + 2
        pos += 2 + i64(data[pos + 1])
        self.tag_stop = pos
        pos = self._uint(data, pos, end)
        if pos == 0 or pos >= end:
            return 0
        self.message_format = self._number
        code: i64 = data[pos]
        if code == _TRUE:
            self.settled = True
        elif code == _FALSE or code == _NULL:
            self.settled = False
        else:
            return 0
        pos += 1
        if pos + count - _NEEDED != end:
            return 0
        left: i64 = count - _NEEDED
        while left > 0:
            code = data[pos]
            if code != _NULL and code != _FALSE and (code != _TRUE or count != _FIELDS or left != 1):
                return 0
            pos += 1
            left -= 1
        return end

    def _uint(self, data: bytes, pos: i64, end: i64) -> i64:
        """Read a uint into `_number`. Returns the position after it, or 0 if there is no uint at `pos`."""
        if pos >= end:
            return 0
        code: i64 = data[pos]
        if code == _UINT0:
            self._number = 0
            return pos + 1
        if code == _SMALLUINT:
            if pos + 2 > end:
                return 0
            self._number = data[pos + 1]
            return pos + 2
        if code == _UINT:
            if pos + 5 > end:
                return 0
            self._number = i64(read_i32_be(data, pos + 1)) & 0xFFFF_FFFF
            return pos + 5
        return 0
