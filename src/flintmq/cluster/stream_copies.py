"""Streams as a follower has them: it answers fetches of its clients, which the leader has checked, out of its files."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, final

from flintmq.base.errors import StorageError
from flintmq.broker.message import ContentCodec
from flintmq.cluster.ports import Directory
from flintmq.gateway.amqp091.delegated_fetch import FETCH_AHEAD_BYTES, decode
from flintmq.server import logs
from flintmq.server.relay.client import NOT_FETCHED, Fetched
from flintmq.storage.content import ContentReader
from flintmq.storage.stream.copied_segment import CopiedSegment

log = logs.get_logger()

# A few readers keep a disk busy. Others wait.
_THREADS_MAX: Final = 4


@final
class StreamCopies:
    """The streams in the directory of a follower. They are read on threads: the disk may stall."""

    def __init__(self, directory: Directory, codecs: dict[int, ContentCodec]) -> None:
        self._directory = directory
        self._codecs = codecs
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "streams")

    def answer(self, delegated: bytes, answer: Callable[[Fetched], None]) -> None:
        """Answer a delegated fetch: call `answer` in a later turn of the event loop."""
        reading = asyncio.get_running_loop().run_in_executor(self._threads, self.fetch, delegated)

        def done(_: asyncio.Future[Fetched]) -> None:
            if reading.cancelled():
                return
            error = reading.exception()
            if error is not None:
                log.error("internal error", exc_info=error)
            answer(NOT_FETCHED if error is not None else reading.result())

        reading.add_done_callback(done)

    def fetch(self, delegated: bytes) -> Fetched:
        """Answer a delegated fetch. Without an answer, the leader reads the messages itself: retention may have removed
        the file meanwhile, and a damaged copy must hide no message.
        """
        asked = decode(delegated)
        content = ContentReader(self._codecs)
        segment = CopiedSegment(self._directory.disk, self._directory.root, asked.place, content)
        try:
            answer = Fetched(*asked.answer(segment.cursor(asked.start, FETCH_AHEAD_BYTES)))
        except StorageError:
            return NOT_FETCHED
        finally:
            segment.close()
        return NOT_FETCHED if segment.is_damaged else answer

    def close(self) -> None:
        """Answer no more fetches."""
        self._threads.shutdown(wait=False, cancel_futures=True)
