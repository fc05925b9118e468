"""The requests of AMQP 0-9-1: the method that each one sends, and the value of its answer."""

from flintmq.client.delivery import Delivery
from flintmq.client.values import LeaseInfo, QueueInfo, StageCommitted, StageInfo, StreamChunk, StreamInfo
from flintmq.client.waiting import Answer, Request
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.committed_attempts import ATTEMPTS_PER_FRAME, encode_attempts
from flintmq.wire.amqp091.methods import Method
from flintmq.wire.amqp091.tables import Table


def declare_exchange(
    name: str,
    type: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    passive: bool,
    arguments: Table | None,
) -> Request[None]:
    return _acknowledged(
        methods.ExchangeDeclare(
            exchange=name,
            type=type,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            passive=passive,
            arguments=arguments or {},
        ),
        methods.ExchangeDeclareOk,
    )


def delete_exchange(name: str, if_unused: bool) -> Request[None]:
    return _acknowledged(methods.ExchangeDelete(exchange=name, if_unused=if_unused), methods.ExchangeDeleteOk)


def declare_queue(
    name: str,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    passive: bool,
    arguments: Table | None,
) -> Request[QueueInfo]:
    method = methods.QueueDeclare(
        queue=name,
        durable=durable,
        exclusive=exclusive,
        auto_delete=auto_delete,
        passive=passive,
        arguments=arguments or {},
    )
    return Request(method, (methods.QueueDeclareOk,), _queue_info)


def delete_queue(name: str, if_unused: bool, if_empty: bool) -> Request[int]:
    method = methods.QueueDelete(queue=name, if_unused=if_unused, if_empty=if_empty)
    return Request(method, (methods.QueueDeleteOk,), _deleted)


def purge_queue(name: str) -> Request[int]:
    return Request(methods.QueuePurge(queue=name), (methods.QueuePurgeOk,), _purged)


def bind(queue: str, exchange: str, routing_key: str, arguments: Table | None) -> Request[None]:
    return _acknowledged(
        methods.QueueBind(queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments or {}),
        methods.QueueBindOk,
    )


def unbind(queue: str, exchange: str, routing_key: str, arguments: Table | None) -> Request[None]:
    return _acknowledged(
        methods.QueueUnbind(queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments or {}),
        methods.QueueUnbindOk,
    )


def bind_exchange(destination: str, source: str, routing_key: str, arguments: Table | None) -> Request[None]:
    return _acknowledged(
        methods.ExchangeBind(
            destination=destination, source=source, routing_key=routing_key, arguments=arguments or {}
        ),
        methods.ExchangeBindOk,
    )


def unbind_exchange(destination: str, source: str, routing_key: str, arguments: Table | None) -> Request[None]:
    return _acknowledged(
        methods.ExchangeUnbind(
            destination=destination, source=source, routing_key=routing_key, arguments=arguments or {}
        ),
        methods.ExchangeUnbindOk,
    )


def select_confirms() -> Request[None]:
    return _acknowledged(methods.ConfirmSelect(), methods.ConfirmSelectOk)


def prefetch(count: int) -> Request[None]:
    return _acknowledged(methods.BasicQos(prefetch_count=count), methods.BasicQosOk)


def get(queue: str, no_ack: bool) -> Request[Delivery | None]:
    return Request(methods.BasicGet(queue=queue, no_ack=no_ack), (methods.BasicGetOk, methods.BasicGetEmpty), _delivery)


def consume(queue: str, no_ack: bool, arguments: Table | None) -> Request[None]:
    """Return the request for a subscription. `ClientChannel.subscribe` sends it, and chooses the consumer tag."""
    return _acknowledged(
        methods.BasicConsume(queue=queue, no_ack=no_ack, arguments=arguments or {}), methods.BasicConsumeOk
    )


def cancel(consumer_tag: str) -> Request[None]:
    return _acknowledged(methods.BasicCancel(consumer_tag=consumer_tag), methods.BasicCancelOk)


def stream_query(queue: str, timestamp_ms: int) -> Request[StreamInfo]:
    return Request(methods.StreamQuery(queue=queue, timestamp=timestamp_ms), (methods.StreamQueryOk,), _stream_info)


def stream_fetch(queue: str, offset: int, end_offset: int, max_bytes: int) -> Request[StreamChunk]:
    method = methods.StreamFetch(queue=queue, offset=offset, end_offset=end_offset, max_bytes=max_bytes)
    return Request(method, (methods.StreamFetchOk,), _chunk)


def stream_span(queue: str, offset: int, end_offset: int, max_bytes: int) -> Request[int]:
    method = methods.StreamSpan(queue=queue, offset=offset, end_offset=end_offset, max_bytes=max_bytes)
    return Request(method, (methods.StreamSpanOk,), _span_end)


def lease_open(queue: str, name: str, epoch: int, timeout_ms: int) -> Request[LeaseInfo]:
    method = methods.LeaseOpen(queue=queue, consumer=name, epoch=epoch, timeout=timeout_ms)
    return Request(method, (methods.LeaseOpenOk,), _lease_opened)


def lease_extend(queue: str, name: str, epoch: int, max_messages: int, max_bytes: int) -> Request[LeaseInfo]:
    method = methods.LeaseExtend(
        queue=queue, consumer=name, epoch=epoch, max_messages=max_messages, max_bytes=max_bytes
    )
    return Request(method, (methods.LeaseExtendOk,), lambda answer: _lease_extended(epoch, answer))


def lease_fetch(queue: str, name: str, offset: int, end_offset: int, max_bytes: int) -> Request[StreamChunk]:
    method = methods.LeaseFetch(queue=queue, consumer=name, offset=offset, end_offset=end_offset, max_bytes=max_bytes)
    return Request(method, (methods.LeaseFetchOk,), _chunk)


def lease_settle(queue: str, name: str, epoch: int, up_to: int) -> Request[None]:
    return _acknowledged(
        methods.LeaseSettle(queue=queue, consumer=name, epoch=epoch, up_to=up_to), methods.LeaseSettleOk
    )


def lease_release(queue: str, name: str, epoch: int) -> Request[int]:
    return Request(
        methods.LeaseRelease(queue=queue, consumer=name, epoch=epoch), (methods.LeaseReleaseOk,), _lease_released
    )


def lease_query(queue: str, name: str) -> Request[LeaseInfo]:
    return Request(methods.LeaseQuery(queue=queue, consumer=name), (methods.LeaseQueryOk,), _lease_queried)


def stage_open(transactional_id: str, owner: str) -> Request[StageInfo]:
    method = methods.StageOpen(transactional_id=transactional_id, owner=owner)
    return Request(method, (methods.StageOpenOk,), _stage_info)


def stage_select(transactional_id: str, epoch: int, batch: int, partition: int, attempt: int) -> Request[bool]:
    method = methods.StageSelect(
        transactional_id=transactional_id, epoch=epoch, batch=batch, partition=partition, attempt=attempt
    )
    return Request(method, (methods.StageSelectOk,), _selected)


def stage_ready() -> Request[int]:
    return Request(methods.StageReady(), (methods.StageReadyOk,), _staged)


def stage_commits(
    transactional_id: str, epoch: int, batch: int, winners: dict[int, int]
) -> list[Request[StageCommitted]]:
    """Return the requests of one commit, to be sent in order. The last one commits, and has the answer."""
    pairs = list(winners.items())
    parts = [dict(pairs[at : at + ATTEMPTS_PER_FRAME]) for at in range(0, len(pairs), ATTEMPTS_PER_FRAME)] or [{}]
    found = []
    for number, part in enumerate(parts, 1):
        method = methods.StageCommit(
            transactional_id=transactional_id,
            epoch=epoch,
            batch=batch,
            attempts=encode_attempts(part),
            more=number < len(parts),
        )
        found.append(Request(method, (methods.StageCommitOk,), _committed))
    return found


def stage_abort(transactional_id: str, epoch: int, batch: int) -> Request[None]:
    method = methods.StageAbort(transactional_id=transactional_id, epoch=epoch, batch=batch)
    return _acknowledged(method, methods.StageAbortOk)


def stage_forget(transactional_id: str) -> Request[None]:
    return _acknowledged(methods.StageForget(transactional_id=transactional_id), methods.StageForgetOk)


def _acknowledged(method: Method, answer: type[Method]) -> Request[None]:
    return Request(method, (answer,), _nothing)


# -- values of answers ------------------------------------------------------------------------------------------


def _nothing(answer: Answer) -> None:
    """Return nothing: the answer has no content but its arrival."""


def _queue_info(answer: Answer) -> QueueInfo:
    method = answer.method
    assert isinstance(method, methods.QueueDeclareOk)
    return QueueInfo(method.queue, method.message_count, method.consumer_count)


def _deleted(answer: Answer) -> int:
    method = answer.method
    assert isinstance(method, methods.QueueDeleteOk)
    return method.message_count


def _purged(answer: Answer) -> int:
    method = answer.method
    assert isinstance(method, methods.QueuePurgeOk)
    return method.message_count


def _delivery(answer: Answer) -> Delivery | None:
    method = answer.method
    if isinstance(method, methods.BasicGetEmpty):
        return None
    assert isinstance(method, methods.BasicGetOk)
    return Delivery(
        method.delivery_tag,
        method.redelivered,
        method.exchange,
        method.routing_key,
        answer.properties,
        answer.body,
    )


def _stream_info(answer: Answer) -> StreamInfo:
    method = answer.method
    assert isinstance(method, methods.StreamQueryOk)
    return StreamInfo(method.first_offset, method.next_offset, method.offset_at, method.stream)


def _chunk(answer: Answer) -> StreamChunk:
    method = answer.method
    assert isinstance(method, (methods.StreamFetchOk, methods.LeaseFetchOk))
    return StreamChunk(method.first_offset, method.next_offset, method.record_count, answer.body)


def _span_end(answer: Answer) -> int:
    method = answer.method
    assert isinstance(method, methods.StreamSpanOk)
    return method.end_offset


def _lease_opened(answer: Answer) -> LeaseInfo:
    method = answer.method
    assert isinstance(method, methods.LeaseOpenOk)
    return LeaseInfo(method.epoch, method.first, method.next)


def _lease_extended(epoch: int, answer: Answer) -> LeaseInfo:
    method = answer.method
    assert isinstance(method, methods.LeaseExtendOk)
    return LeaseInfo(epoch, method.first, method.next, method.ready, method.size)


def _lease_queried(answer: Answer) -> LeaseInfo:
    method = answer.method
    assert isinstance(method, methods.LeaseQueryOk)
    return LeaseInfo(method.epoch, method.first, method.next, method.ready, fetched=method.fetched)


def _lease_released(answer: Answer) -> int:
    method = answer.method
    assert isinstance(method, methods.LeaseReleaseOk)
    return method.message_count


def _stage_info(answer: Answer) -> StageInfo:
    method = answer.method
    assert isinstance(method, methods.StageOpenOk)
    return StageInfo(method.epoch, method.next_batch - 1)


def _selected(answer: Answer) -> bool:
    method = answer.method
    assert isinstance(method, methods.StageSelectOk)
    return not method.already


def _staged(answer: Answer) -> int:
    method = answer.method
    assert isinstance(method, methods.StageReadyOk)
    return method.message_count


def _committed(answer: Answer) -> StageCommitted:
    method = answer.method
    assert isinstance(method, methods.StageCommitOk)
    return StageCommitted(method.message_count, method.already)
