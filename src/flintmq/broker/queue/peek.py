"""A look at what is ready on a queue, piece by piece: nothing is acquired, and what is chosen may leave."""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from flintmq.broker.message import Entry
from flintmq.broker.ports import Page

if TYPE_CHECKING:
    from flintmq.broker.queue.ready import Fifo


@final
class Look:
    """Entries in the order of delivery, of one `part` of the queue; the next look is behind the last one's position.

    Those of a `page` are copies, for a look only; `paged` is all that the page holds, also what is before the place
    that was looked from. It holds until anything happens to the queue.
    """

    def __init__(
        self, part: i64, entries: list[Entry], fifo: "Fifo | None", page: Page | None, paged: list[Entry]
    ) -> None:
        self.part: i64 = part
        self.entries = entries
        self.fifo = fifo
        self.page = page
        self.paged = paged
