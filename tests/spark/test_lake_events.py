"""An event for each file of a lake, as a consumer gets it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import flintmq.client as fc
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.lake.data_file import Batch, DataFile
from flintmq.spark.lake.events import announce
from flintmq.spark.lake.options import Events, LakeFormat, LakeLocation
from tests.servers import BrokerProcess
from tests.spark.conftest import Queues

PLACE = LakeLocation("/lake/orders", LakeFormat.DELTA, "", "flintmq.orders")
FILES = tuple(
    DataFile(f"data/{n}.parquet", 10, 99, {"day": "2026-11-22"}, "orders", n * 10, n * 10 + 9) for n in range(3)
)


@pytest.fixture
def events(broker: BrokerProcess, queues: Queues) -> Events:
    exchange = queues.exchange()
    queues.bound(exchange)
    return Events(Endpoint(broker.url), exchange, "lake.new")


def taken(queues: Queues, events: Events) -> list[fc.Delivery]:
    return queues.taken(events.exchange.replace(".exchange", ".bound"))


def test_what_an_event_says(queues: Queues, events: Events) -> None:
    """An event says where a file is and what is in it, and its message-id is the file's name."""
    announce(events, PLACE, Batch("query", 7, FILES[:1], goes_on=True))
    (event,) = taken(queues, events)
    assert json.loads(event.body) == {
        "event": "lake.file.created",
        "lake": "/lake/orders",
        "format": "delta",
        "path": "data/0.parquet",
        "query": "query",
        "batch": 7,
        "rows": 10,
        "size_bytes": 99,
        "partition": {"day": "2026-11-22"},
        "queue": "orders",
        "generation": None,
        "first_offset": 0,
        "last_offset": 9,
        "first_timestamp_us": None,
        "last_timestamp_us": None,
    }
    said = event.properties
    assert (said.message_id, said.type, said.content_type, said.delivery_mode) == (
        "0.parquet",
        "lake.file.created",
        "application/json",
        2,
    )


def test_once_for_a_batch(queues: Queues, events: Events) -> None:
    """The events of a batch that is done again are not published again; those of the next one are."""
    name = events.exchange
    for number, files in ((0, FILES[:2]), (0, FILES[:2]), (1, FILES[2:]), (0, FILES[:2])):
        announce(events, PLACE, Batch(name, number, files, goes_on=True))
    assert [event.properties.message_id for event in taken(queues, events)] == ["0.parquet", "1.parquet", "2.parquet"]


def test_two_lakes_of_one_query(queues: Queues, events: Events) -> None:
    """A batch that goes to several lakes has events of each: one does not pass for the other."""
    for place, files in ((PLACE, FILES[:1]), (replace(PLACE, path="/lake/copy"), FILES[1:])):
        for _ in range(2):
            announce(events, place, Batch(f"{events.exchange}.two", 0, files, goes_on=True))
    lakes = [json.loads(event.body)["lake"] for event in taken(queues, events)]
    assert lakes == ["/lake/orders", "/lake/copy", "/lake/copy"]


def test_nobody_there(queues: Queues, events: Events, tmp_path: Path) -> None:
    """An exchange that there is not fails the batch, in both ways to publish."""
    missing = Events(events.endpoint, "nowhere", "")
    for goes_on in (True, False):
        with pytest.raises(fc.ChannelClosed, match="no exchange 'nowhere'"):
            announce(missing, PLACE, Batch("another", 0, FILES, goes_on=goes_on))
