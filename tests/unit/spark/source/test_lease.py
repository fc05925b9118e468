"""An ordinary queue as a query that goes on sees it: what is leased, settled, and lost."""

from collections.abc import Callable, Iterator
from typing import TypeVar, cast
from unittest.mock import MagicMock

import pytest

import flintmq.client as fc
from flintmq.base.errors import ConfigurationError
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.errors import QueryFailed
from flintmq.spark.source.lease import BATCH_MAX_MESSAGES, Lease, lease_of
from flintmq.spark.source.options import stream_read_options
from flintmq.spark.source.queue_source import EVERYTHING, DataLost

T = TypeVar("T")
FIRST_EPOCH = 7 << 32


class Broker:
    """A lease of one-byte messages, in place of a channel and its connection. It leases and gives five at once."""

    def __init__(self, first: int = 0, next: int = 0, ready: int = 0, gone: frozenset[int] = frozenset()) -> None:
        self.first = first
        self.next = next
        self.ready = ready
        self.epoch = FIRST_EPOCH
        self.gone = gone
        self.fault: fc.ChannelClosed | None = None
        self.asked: list[tuple[int, int]] = []

    def call(self, operation: Callable[[fc.Channel], T]) -> T:
        return operation(cast(fc.Channel, self))

    def lease_open(self, queue: str, name: str, epoch: int, timeout_ms: int) -> fc.LeaseInfo:
        self.fault = None
        self.epoch += 1
        return fc.LeaseInfo(self.epoch, self.first, self.next)

    def _check(self, epoch: int) -> None:
        if self.fault is not None:
            raise self.fault
        assert epoch == self.epoch

    def lease_extend(self, queue: str, name: str, epoch: int, max_messages: int, max_bytes: int) -> fc.LeaseInfo:
        self._check(epoch)
        if max_messages:
            self.asked.append((max_messages, max_bytes))
        taken = min(max_messages, self.ready, 5)
        self.ready -= taken
        self.next += taken
        return fc.LeaseInfo(epoch, self.first, self.next, self.ready, taken)

    def lease_release(self, queue: str, name: str, epoch: int) -> None:
        self._check(epoch)
        self.epoch = (lease_of(epoch) + 1) << 32
        self.ready += self.next - self.first
        self.first = self.next = 0

    def lease_settle(self, queue: str, name: str, epoch: int, up_to: int) -> None:
        self._check(epoch)
        self.first = up_to

    def lease_chunks(
        self, queue: str, name: str, offset: int, end_offset: int, max_bytes: int
    ) -> Iterator[fc.StreamChunk]:
        stop = min(end_offset, self.next)
        while offset < stop:
            found = [at for at in range(offset, stop) if at not in self.gone][:5]
            following = found[-1] + 1 if len(found) == 5 else stop
            yield fc.StreamChunk(offset, following, len(found), bytes(found))
            offset = following


def lease(broker: Broker, **options: str) -> Lease:
    given = {"url": "amqp://h/", "queue": "q", "consumerName": "c", **options}
    return Lease(cast(ReconnectingClient, broker), stream_read_options(given), "q")


def test_a_batch() -> None:
    """Messages are leased call by call, up to the limit or as many as are ready; what Spark has is settled."""
    broker = Broker(ready=12)
    source = lease(broker)
    assert (source.start(), source.end()) == (0, 12)
    assert source.extend(0, 7, EVERYTHING) == 7
    assert source.resume(7, source.lease) == 7
    assert broker.first == 7
    assert source.extend(7, 100, EVERYTHING) == 12
    assert source.extend(12, 100, EVERYTHING) == 12
    assert [count for count, _ in broker.asked] == [7, 2, 100]


def test_a_batch_that_was_leased_before() -> None:
    """Messages that a driver leased before it died, unknown to Spark, are the next batch, within its limit."""
    broker = Broker(first=3, next=9, ready=4)
    source = lease(broker)
    assert source.start() == 3
    assert source.extend(3, 4, EVERYTHING) == 7
    assert broker.asked == []
    assert source.extend(3, 8, EVERYTHING) == 11


def test_limits() -> None:
    """A batch has a million messages at most, and bytes are limited call by call."""
    broker = Broker(ready=5)
    source = lease(broker)
    source.extend(0, EVERYTHING, 1000)
    assert broker.asked == [(16_384, 1000)]
    broker = Broker(next=BATCH_MAX_MESSAGES + 5)
    assert lease(broker).extend(0, EVERYTHING, EVERYTHING) == BATCH_MAX_MESSAGES


def test_bytes() -> None:
    """They are counted as they come: small messages do not end a batch that has room for more."""
    broker = Broker(ready=100)
    assert lease(broker).extend(0, EVERYTHING, 12) == 15
    assert [size for _, size in broker.asked] == [12, 7, 2]


def test_a_query_without_a_batch() -> None:
    """Messages that another query leased under the name are returned and leased again, so that it cannot continue."""
    broker = Broker(first=3, next=9, ready=4)
    source = lease(broker)
    before = source.number
    assert source.begin(source.start(), before) == 0
    assert (source.number, source.end()) == (before + 1, 10)
    assert source.begin(0, before + 1) == 0
    assert source.number == before + 1
    with pytest.raises(DataLost, match="a query with a new checkpoint has begun with this name"):
        lease(broker).resume(9, before)


def test_messages() -> None:
    """A range is fetched piece by piece; transient messages that ended with their broker are missed by nobody."""
    assert b"".join(lease(Broker(next=20)).chunks(2, 13)) == bytes(range(2, 13))
    assert b"".join(lease(Broker(next=9, gone=frozenset({3, 4, 8}))).chunks(2, 9)) == bytes([2, 5, 6, 7])
    with pytest.raises(DataLost, match="position 4 .* has not reached"):
        list(lease(Broker(next=4)).chunks(2, 13))


@pytest.mark.parametrize(
    ("broker", "offset", "number", "expected"),
    [
        (
            Broker(first=5, next=9),
            3,
            7,
            "is already at position 5: another query continued it",
        ),
        (
            Broker(first=0, next=2),
            3,
            7,
            "the lease was released, a query with a new checkpoint has begun with this name, or the queue",
        ),
        (
            Broker(first=0, next=9),
            3,
            6,
            "the lease was released, a query with a new checkpoint has begun with this name, or the queue",
        ),
    ],
    ids=["another query", "began anew", "another lease of this name"],
)
def test_a_lease_that_is_another(broker: Broker, offset: int, number: int, expected: str) -> None:
    """A place that the lease does not have is an error before anything is settled; or it goes on with what is there."""
    first = broker.first
    for act in (lease(broker).resume, lambda offset, number: lease(broker).available(number, offset, 9)):
        with pytest.raises(DataLost, match=expected):
            act(offset, number)
    assert broker.first == first
    lenient = lease(broker, failOnDataLoss="false")
    assert lenient.resume(offset, number) == first
    # The rest of a planned batch can be read; nothing of a batch of another lease.
    assert lenient.available(number, offset, 8) == ((5, 8) if number == lenient.number else (8, 8))


def test_a_lease_that_is_younger_than_the_checkpoint() -> None:
    """Positions that the checkpoint has had are never those of other messages: a broker from a backup begins anew."""
    source = lease(Broker(first=0, next=2, ready=4), failOnDataLoss="false")
    before = source.number
    assert source.resume(3, before) == 0
    assert source.number != before
    assert source.extend(0, 100, EVERYTHING) == 6


@pytest.mark.parametrize(
    ("code", "text", "error", "expected"),
    [
        (406, "... has been taken over by another reader", QueryFailed, "another query has begun to read queue 'q'"),
        (406, "... has timed out: it was not used", DataLost, "longer one, and start with a new checkpoint"),
        (404, "no lease 'c' of queue 'q'", DataLost, "was released while this query was using it"),
        (404, "no queue 'q'", fc.ChannelClosed, "404 no queue 'q'"),
        (406, "extended too often", fc.ChannelClosed, "extended too often"),
    ],
)
def test_what_ends_a_query(code: int, text: str, error: type[Exception], expected: str) -> None:
    """If a running query loses its lease, there is one error with the reason."""
    broker = Broker(next=3)
    source = lease(broker)
    source.start()
    broker.fault = fc.ChannelClosed(code, text)
    with pytest.raises(error, match=expected):
        source.resume(0, source.lease)


def test_a_lease_with_a_timeout_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """From when it is opened on, under the epoch that it got; one that is opened again ends the renewal before."""
    renewals: list[MagicMock] = []

    def renew(*arguments: object) -> MagicMock:
        renewals.append(MagicMock(arguments=arguments))
        return renewals[-1]

    monkeypatch.setattr("flintmq.spark.source.lease.LeaseRenewal", renew)
    lease(Broker()).start()
    assert renewals == []
    source = lease(Broker(), leaseTimeout="5s")
    source.start()
    source._open()
    source.close()
    assert [made.arguments[1:] for made in renewals] == [("q", "c", FIRST_EPOCH + n, 5000) for n in (1, 2)]
    assert [made.close.call_count for made in renewals] == [1, 1]


def test_going_on_after_a_timeout() -> None:
    """If losing messages is allowed, a query whose lease has timed out continues with those that exist."""
    broker = Broker(next=3)
    source = lease(broker, failOnDataLoss="false")
    source.start()
    broker.fault = fc.ChannelClosed(406, "has timed out")
    broker.first = 3
    assert source.resume(1, source.lease) == 3


def test_epochs() -> None:
    """An epoch tells the lease, so that one of the same name which was made later is not taken for it."""
    assert lease_of(FIRST_EPOCH + 1) == lease_of(FIRST_EPOCH + 99) == 7


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"consumerName": ""}, "the option consumerName is missing: 'q' is not a stream"),
        ({"startingOffsets": "latest"}, "'q' is not a stream: it is always read from its oldest message on"),
        ({"startingOffsetsByTimestamp": "5"}, "Remove the options startingOffsets"),
    ],
)
def test_options(options: dict[str, str], expected: str) -> None:
    """An ordinary queue is read by a name, and from its oldest message on."""
    with pytest.raises(ConfigurationError, match=expected):
        lease(Broker(), **options)
    lease(Broker(), startingOffsets="earliest")
