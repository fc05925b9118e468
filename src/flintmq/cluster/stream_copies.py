"""Streams as a follower has them: it answers fetches of its clients, which the leader has checked, out of its files."""

from typing import final

from flintmq.base.errors import StorageError
from flintmq.broker.message import ContentCodec
from flintmq.cluster.ports import Directory
from flintmq.gateway.amqp091.delegated_fetch import FETCH_AHEAD_BYTES, decode
from flintmq.server.relay.client import NOT_FETCHED, Fetched
from flintmq.storage.content import ContentReader
from flintmq.storage.stream.copied_segment import CopiedSegment


@final
class StreamCopies:
    """The streams in the directory of a follower."""

    def __init__(self, directory: Directory, codecs: dict[int, ContentCodec]) -> None:
        self._directory = directory
        self._content = ContentReader(codecs)

    def fetch(self, delegated: bytes) -> Fetched:
        """Answer a delegated fetch. Without an answer, the leader reads the messages itself: retention may have removed
        the file meanwhile, and a damaged copy must hide no message.
        """
        asked = decode(delegated)
        segment = CopiedSegment(self._directory.disk, self._directory.root, asked.place, self._content)
        try:
            answer = Fetched(*asked.answer(segment.cursor(asked.start, FETCH_AHEAD_BYTES)))
        except StorageError:
            return NOT_FETCHED
        finally:
            segment.close()
        return NOT_FETCHED if segment.is_damaged else answer
