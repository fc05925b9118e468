"""The pages of all queues: in memory up to a limit, and beyond it on the disk."""

from typing import final

from flintmq.broker.message import ContentCodec, Entry
from flintmq.broker.ports import JournalRanges, Page, Pages, journal_ranges
from flintmq.storage.pages.packer import Content, PackedPage, Packer, ranges_of_run
from flintmq.storage.pages.spill import Spill


@final
class PageStore(Pages):
    """The pages of all queues. `memory_max` is the number of bytes of pages that stay in memory, without those that are
    being written to the disk.
    """

    def __init__(self, codecs: dict[int, ContentCodec], spill: Spill, memory_max: int) -> None:
        self._packer = Packer(codecs)
        self._spill = spill
        self._memory_max = memory_max
        self.memory_bytes = 0

    @property
    def held_bytes(self) -> int:
        return self.memory_bytes

    def pack(self, entries: list[Entry]) -> Page:
        page = PackedPage()
        self._fill(page, entries)
        return page

    def _fill(self, page: PackedPage, entries: list[Entry]) -> None:
        self._packer.pack(entries, page)
        content = page.content
        if self.memory_bytes + content.size > self._memory_max:
            self._put_out(content)
        else:
            self.memory_bytes += content.size

    def _put_out(self, content: Content) -> None:
        if self._spill.accepts():
            self._spill.put(content)
        else:
            self.memory_bytes += content.size

    def put_out(self, data: bytes) -> Page:
        page = PackedPage()
        page.content = Content(b"", [data])
        self._put_out(page.content)
        return page

    def bring_back(self, page: Page) -> bytes:
        assert isinstance(page, PackedPage)
        content = page.content
        parts = content.parts
        try:
            return parts[1][0] if parts is not None else self._spill.read(content)
        finally:
            self.drop(page)

    def unpack(self, page: Page) -> list[Entry]:
        entries = self.read(page)
        self.drop(page)
        return entries

    def read(self, page: Page) -> list[Entry]:
        assert isinstance(page, PackedPage)
        content = page.content
        parts = content.parts
        if parts is not None:
            return self._packer.unpack(parts[0], content.packed_size, parts[1])
        return self._packer.unpack(self._spill.read(content), content.packed_size, None)

    def repack(self, page: Page, entries: list[Entry]) -> None:
        assert isinstance(page, PackedPage)
        self._release(page)
        self._fill(page, entries)

    def ranges(self, page: Page) -> JournalRanges:
        assert isinstance(page, PackedPage)
        return ranges_of_run(page) if page.is_run else journal_ranges(self.read(page))

    def drop(self, page: Page) -> None:
        assert isinstance(page, PackedPage)
        self._release(page)
        page.is_gone = True
        page.content = Content(b"", [])

    def _release(self, page: PackedPage) -> None:
        content = page.content
        if content.file == 0:
            self.memory_bytes -= content.size
        else:
            self._spill.release(content)

    def will_need(self, page: Page) -> None:
        assert isinstance(page, PackedPage)
        if page.content.parts is None:
            self._spill.will_need(page.content)
