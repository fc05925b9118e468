"""Handlers of lease.*: FlintMQ's own class of methods, for readers that want repeatable batches of a queue.

Methods that extend, settle or take over a lease are answered once that is on the disk, so a crash cannot undo them.
Leased messages can be fetched over any connection. All methods need `read`: a user who may consume from a queue may
also take over a lease of another client.
"""

from typing import Final

from mypy_extensions import i64

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.lease.lease import Lease
from flintmq.gateway.amqp091.channel import ServerChannel
from flintmq.gateway.amqp091.chunk import NO_PROPERTIES, Chunk
from flintmq.gateway.amqp091.handlers import Handlers
from flintmq.wire.amqp091.methods import (
    LeaseExtend,
    LeaseExtendOk,
    LeaseFetch,
    LeaseFetchOk,
    LeaseOpen,
    LeaseOpenOk,
    LeaseQuery,
    LeaseQueryOk,
    LeaseRelease,
    LeaseReleaseOk,
    LeaseSettle,
    LeaseSettleOk,
)

# Numbers on the wire are unsigned with 64 bits; higher ones are cut to this.
_HIGHEST: Final = 2**63 - 1
# The longest timeout in milliseconds, which no clock reaches.
_LONGEST_MS: Final = 2**53

METHODS: Final[Handlers] = Handlers()


@METHODS.handles(LeaseOpen)
def open_lease(channel: ServerChannel, method: LeaseOpen) -> None:
    channel.check_read(method.queue)
    channel.check_storage()
    queue = channel.queue(method.queue)
    timeout_ms = min(method.timeout, _LONGEST_MS)
    lease = channel.vhost.leases.open(queue, method.consumer, min(method.epoch, _HIGHEST), timeout_ms)
    channel.reply_when_stored(LeaseOpenOk(epoch=lease.epoch, first=lease.first, next=lease.next))


@METHODS.handles(LeaseExtend)
def extend(channel: ServerChannel, method: LeaseExtend) -> None:
    channel.check_read(method.queue)
    channel.check_storage()
    lease = _find(channel, method.queue, method.consumer)
    taken = lease.extend(
        min(method.epoch, _HIGHEST), min(method.max_messages, _HIGHEST), min(method.max_bytes, _HIGHEST)
    )
    if taken == 0 and lease.queue.is_behind:
        channel.handle_again(method)
        return
    channel.spend(taken)
    channel.reply_when_stored(
        LeaseExtendOk(first=lease.first, next=lease.next, ready=lease.queue.message_count, size=lease.extended_bytes)
    )


@METHODS.handles(LeaseFetch)
def fetch(channel: ServerChannel, method: LeaseFetch) -> None:
    """Fetch messages from a position on, as one content; empty when the range is empty."""
    channel.check_read(method.queue)
    lease = _find(channel, method.queue, method.consumer)
    lease.used()
    start = min(method.offset, _HIGHEST)
    stop: i64 = min(method.end_offset, int(lease.next))
    if start < lease.first:
        raise PreconditionFailed(
            f"position {start} of the lease '{method.consumer}' of queue '{lease.queue.name}' in vhost "
            f"'{channel.vhost.name}' is settled, or has gone back to the queue: the first one leased is {lease.first}"
        )
    chunk = Chunk(method.max_bytes)
    following = _fill(chunk, lease, start, stop)
    channel.spend(chunk.count)
    answer = LeaseFetchOk(first_offset=start, next_offset=following, record_count=chunk.count)
    if not channel.gateway.failure and lease.fetched_before(following):
        channel.reply_with_when_stored(answer, NO_PROPERTIES, chunk.take())
    else:
        channel.reply_with(answer, NO_PROPERTIES, chunk.take())


def _fill(chunk: Chunk, lease: Lease, start: i64, stop: i64) -> i64:
    """Fill a chunk with leased messages from `start` up to `stop`. Returns the position to continue at."""
    following = start
    while following < stop:
        leased = lease.read(following)
        if leased is None:
            return stop
        entries = leased.entries
        index = leased.index(following)
        while index < len(entries):
            position = leased.position(index)
            if position >= stop:
                return stop
            entry = entries[index]
            if chunk.is_full or not chunk.push(position, entry.message, entry.redelivered):
                return following
            following = position + 1
            index += 1
    return following


@METHODS.handles(LeaseSettle)
def settle(channel: ServerChannel, method: LeaseSettle) -> None:
    channel.check_read(method.queue)
    channel.check_storage()
    lease = _find(channel, method.queue, method.consumer)
    lease.settle(min(method.epoch, _HIGHEST), min(method.up_to, _HIGHEST))
    channel.reply_when_stored(LeaseSettleOk())


@METHODS.handles(LeaseRelease)
def release(channel: ServerChannel, method: LeaseRelease) -> None:
    channel.check_read(method.queue)
    channel.check_storage()
    count = _find(channel, method.queue, method.consumer).release(min(method.epoch, _HIGHEST))
    channel.reply_when_stored(LeaseReleaseOk(message_count=count))


@METHODS.handles(LeaseQuery)
def query(channel: ServerChannel, method: LeaseQuery) -> None:
    """The state of a lease. Asking does not extend the lease."""
    channel.check_read(method.queue)
    lease = _find(channel, method.queue, method.consumer)
    channel.reply(
        LeaseQueryOk(
            epoch=lease.epoch,
            first=lease.first,
            next=lease.next,
            ready=lease.queue.message_count,
            fetched=lease.fetched,
        )
    )


def _find(channel: ServerChannel, queue: str, consumer: str) -> Lease:
    return channel.vhost.leases.find(channel.queue(queue), consumer)
