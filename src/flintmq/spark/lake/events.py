"""An event for each file that a lake has got: consumers of a queue learn of it without looking at directories."""

import json
from hashlib import sha256
from typing import Final

import flintmq.client as fc
from flintmq.spark.client import ReconnectingClient
from flintmq.spark.lake.data_file import Batch, DataFile
from flintmq.spark.lake.options import Events, LakeLocation

FILE_CREATED: Final = "lake.file.created"


def announce(events: Events, place: LakeLocation, batch: Batch) -> None:
    """Publish them, all or none, and once for a batch of a streaming query. Raises FlintError.

    Their message-ids are the names of the files: a batch that has no query to go on with is published with confirms,
    and a queue that deduplicates drops what comes again.
    """
    messages = [_event(events, place, batch, file) for file in batch.files]
    with ReconnectingClient(events.endpoint, confirms=True, patient=True) as client:
        if batch.goes_on:
            name = f"lake.events.{_digest(place)}.{batch.query}"
            client.call(lambda channel: _publish_once(channel, name, batch, messages))
        else:
            client.call(lambda channel: channel.publish_batch(messages))


def _digest(place: LakeLocation) -> str:
    """One query may write to several lakes, each of which has its batches' events, however its path is written."""
    return sha256(f"{place.root}\n{place.table}".encode()).hexdigest()[:16]


def _publish_once(channel: fc.Channel, name: str, batch: Batch, messages: list[fc.Publish]) -> None:
    """Staged, and committed as the batch that it is: the broker knows the last one of each query and lake."""
    stage = channel.stage_open(name, batch.query)
    if stage.last_batch >= batch.number or not channel.stage_select(name, stage.epoch, batch.number, 0, 0):
        return
    channel.publish_batch(messages)
    channel.stage_ready()
    channel.stage_commit(name, stage.epoch, batch.number, {0: 0})


def _event(events: Events, place: LakeLocation, batch: Batch, file: DataFile) -> fc.Publish:
    said = {
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
    body = json.dumps(said).encode()
    return fc.Publish(events.exchange, events.routing_key, body, fc.encode_properties(properties))


def _identity(file: DataFile) -> str:
    """Names of files are random, and so alike in no two lakes."""
    return file.path.rpartition("/")[2]
