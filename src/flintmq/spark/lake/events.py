"""Events about new files of a lake, for consumers that would otherwise have to list directories."""

import json
from hashlib import sha256
from typing import Final

import flintmq.client as fc
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.lake.data_file import Batch, DataFile
from flintmq.spark.lake.options import Events, LakeLocation

FILE_CREATED: Final = "lake.file.created"


def announce(events: Events, place: LakeLocation, batch: Batch) -> None:
    """Publish an event for each file of a batch. Raises FlintError.

    The events of a streaming query are published exactly once, all together. Those of a batch query are published with
    confirms, at least once. Their message-ids are the names of the files, so that queues can deduplicate them.
    """
    messages = [_event(events, place, batch, file) for file in batch.files]
    with ReconnectingClient(events.endpoint, confirms=True, patient=True) as client:
        if batch.goes_on:
            name = f"lake.events.{_digest(place)}.{batch.query}"
            client.call(lambda channel: _publish_once(channel, name, batch, messages))
        else:
            client.call(lambda channel: channel.publish_batch(messages))


def _digest(place: LakeLocation) -> str:
    """A digest that identifies a lake, because one query may write to several lakes."""
    return sha256(f"{place.root}\n{place.table}".encode()).hexdigest()[:16]


def _publish_once(channel: fc.Channel, name: str, batch: Batch, messages: list[fc.Publish]) -> None:
    """Stage and commit the events under the number of the batch, which the broker remembers for each query and lake."""
    stage = channel.stage_open(name, batch.query)
    if stage.last_batch >= batch.number or not channel.stage_select(name, stage.epoch, batch.number, 0, 0):
        return
    channel.publish_batch(messages)
    channel.stage_ready()
    channel.stage_commit(name, stage.epoch, batch.number, {0: 0})


def _event(events: Events, place: LakeLocation, batch: Batch, file: DataFile) -> fc.Publish:
    content = {
        "event": FILE_CREATED,
        "lake": place.path,
        "format": place.format,
        "path": file.path,
        "query": batch.query,
        "batch": batch.number,
        "rows": file.rows,
        "size_bytes": file.size_bytes,
        "partition": file.partition,
        "queue": file.queue,
        "first_offset": file.first_offset,
        "last_offset": file.last_offset,
        "first_timestamp_us": file.first_timestamp_us,
        "last_timestamp_us": file.last_timestamp_us,
        "generation": file.generation,
    }
    properties = fc.Properties(
        content_type="application/json", delivery_mode=2, message_id=_identity(file), type=FILE_CREATED
    )
    body = json.dumps(content).encode()
    return fc.Publish(events.exchange, events.routing_key, body, fc.encode_properties(properties))


def _identity(file: DataFile) -> str:
    """The name of the file, which is random and therefore unique among all lakes."""
    return file.path.rpartition("/")[2]
