"""Chunks asked for in advance: one after the other, and again where the connection was lost."""

from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import pytest

import flintmq.client as fc
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.source.prefetcher import Prefetcher

T = TypeVar("T")


class Link:
    """A channel that is another one after each loss; numbers up to 10, two in each chunk."""

    def __init__(self) -> None:
        self.channel = object()
        self.begun: list[int] = []
        self.fault: Exception | None = None

    def call(self, operation: Callable[[fc.Channel], T]) -> T:
        return operation(cast(fc.Channel, self.channel))

    def begin(self, channel: fc.Channel, offset: int) -> Iterator[fc.StreamChunk]:
        self.begun.append(offset)
        if self.fault is not None:
            raise self.fault
        for start in range(offset, 10, 2):
            yield fc.StreamChunk(start, start + 2, 2, b"")


def offsets(prefetcher: Prefetcher, start: int) -> list[int]:
    found = []
    while (chunk := prefetcher.chunk(start)) is not None:
        found.append(chunk.first_offset)
        start = chunk.next_offset
    return found


def test_one_after_the_other() -> None:
    """A range is asked for once, however many chunks it has."""
    link = Link()
    assert offsets(Prefetcher(cast(ReconnectingClient, link), link.begin), 0) == [0, 2, 4, 6, 8]
    assert link.begun[:1] == [0]


def test_a_new_connection() -> None:
    """On another channel, and from another offset, it is asked for again from there."""
    link = Link()
    prefetcher = Prefetcher(cast(ReconnectingClient, link), link.begin)
    assert prefetcher.chunk(0) is not None
    link.channel = object()
    assert offsets(prefetcher, 2) == [2, 4, 6, 8]
    assert prefetcher.chunk(7) is not None
    assert link.begun == [0, 2, 7]


def test_a_refusal() -> None:
    """The next call repeats a request that the broker refused."""
    link = Link()
    prefetcher = Prefetcher(cast(ReconnectingClient, link), link.begin)
    assert prefetcher.chunk(0) is not None
    link.fault = fc.ChannelClosed(406, "gone")
    with pytest.raises(fc.ChannelClosed):
        prefetcher.chunk(4)
    link.fault = None
    assert prefetcher.chunk(4) is not None
