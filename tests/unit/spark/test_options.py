"""Options: what is accepted, and one clear error for everything else."""

from pathlib import Path

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.spark.columns import MESSAGE
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.sink.options import write_options
from flintmq.spark.source.options import (
    EARLIEST,
    LATEST,
    AtTime,
    batch_read_options,
    read_options,
    stream_read_options,
)

URL = "amqp://guest:secret@localhost/"
READ = {"url": URL, "queue": "q"}


def test_defaults_of_a_batch() -> None:
    """A batch reads all there is, and makes the columns that every message has."""
    options = batch_read_options(READ)
    assert (options.endpoint.url, options.queues) == (URL, ("q",))
    assert (options.starting, options.ending) == ({}, {})
    assert options.fail_on_data_loss
    assert options.columns == tuple(MESSAGE)


def test_defaults_of_a_stream() -> None:
    """A query that goes on has no limits, and holds its leases for ever."""
    options = stream_read_options(READ)
    assert (options.max_messages_per_trigger, options.max_bytes_per_trigger) == (None, None)
    assert (options.consumer_name, options.lease_timeout_ms) == ("", 0)


def test_several_queues() -> None:
    """Queues are separated by commas, or a JSON list; an offset is for all of them, or JSON by queue."""
    options = batch_read_options({**READ, "queue": "a, b", "startingOffsets": "latest", "endingOffsets": "7"})
    assert options.queues == ("a", "b")
    assert options.starting == {"a": LATEST, "b": LATEST}
    assert options.ending == {"a": 7, "b": 7}
    options = batch_read_options({**READ, "queue": '["a,b", "c"]', "startingOffsets": '{"c": 5, "a,b": "Earliest"}'})
    assert options.queues == ("a,b", "c")
    assert options.starting == {"c": 5, "a,b": EARLIEST}


def test_times() -> None:
    """Where to start and to end may be said by time, for all queues or each."""
    given = {**READ, "queue": "a,b", "startingOffsetsByTimestamp": "17", "endingOffsetsByTimestamp": '{"a":1,"b":2}'}
    options = batch_read_options(given)
    assert options.starting == {"a": AtTime(17), "b": AtTime(17)}
    assert options.ending == {"a": AtTime(1), "b": AtTime(2)}


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("30s", 30_000), ("10 m", 600_000), ("2H", 7_200_000)])
def test_durations(text: str, ms: int) -> None:
    """A time has a unit."""
    assert stream_read_options({**READ, "leaseTimeout": text}).lease_timeout_ms == ms


def test_columns_of_choice() -> None:
    """Columns are named one by one, or by kind."""
    assert batch_read_options({**READ, "columns": "offset, message_id"}).columns == ("offset", "message_id")
    columns = batch_read_options({**READ, "includeHeaders": "true", "includeProperties": "true"}).columns
    assert {"body", "message_id", "headers"} < set(columns)


def test_names_have_no_case() -> None:
    """Names are understood however they are spelled, and so are words for offsets."""
    options = stream_read_options({"URL": URL, "QUEUE": "q", "StartingOffsets": "Earliest", "MINPARTITIONS": "3"})
    assert options.starting == {"q": EARLIEST}
    assert options.min_partitions == 3


def test_defaults_of_writing() -> None:
    """Messages are persistent unless the user says otherwise; rows say where they go."""
    options = write_options({"url": URL, "checkpointLocation": "/c", "queryName": "n"})
    assert options.persistent
    assert not options.mandatory
    assert (options.exchange, options.routing_key) == (None, None)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("startingTimestamp", "startingOffsetsByTimestamp"),
        ("maxOffsetsPerTrigger", "maxMessagesPerTrigger"),
        ("kafka.bootstrap.servers", "url"),
        ("subscribe", "queue"),
        ("path", "queue"),
    ],
)
def test_unknown_name(given: str, meant: str) -> None:
    """An unknown name is refused with the one that was probably meant, also when it is another connector's."""
    with pytest.raises(ConfigurationError, match=rf"no option {given.lower()}: did you mean {meant}\?"):
        read_options({**READ, given: "1"})


def test_unknown_name_like_no_other() -> None:
    """Where nothing is near, the error lists what there is."""
    with pytest.raises(ConfigurationError, match="known are url, .*exchange, routingKey"):
        write_options({"url": URL, "zzz": "1"})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({**READ, "maxMessagesPerTrigger": "5"}, "maxMessagesPerTrigger is for spark.readStream only"),
        ({**READ, "exchange": "e"}, "exchange is for writing only"),
        ({"queue": "q"}, "exactly one of the options url"),
        ({**READ, "urlEnv": "X"}, "exactly one of the options url"),
        ({"url": URL}, "option queue is missing"),
        ({**READ, "queue": " , "}, "option queue is missing"),
        ({**READ, "queue": "a,b,a"}, "option queue has a twice"),
        ({**READ, "queue": "[1]"}, "must be strings"),
        ({**READ, "startingOffsets": "-2"}, "startingOffsets is '-2': it must be earliest, latest or an offset"),
        ({**READ, "startingOffsets": "1", "startingOffsetsByTimestamp": "1"}, "exclude each other"),
        ({**READ, "startingOffsetsByTimestamp": "2013-01-01"}, "ms since 1970"),
        ({**READ, "startingOffsets": '{"q": 1, "r": 2}'}, "has the queue r, which the option queue has not"),
        ({**READ, "queue": "q,r", "startingOffsets": '{"q": 1}'}, "lacks the queue r"),
        ({**READ, "startingOffsets": "{q: 1}"}, "startingOffsets is not JSON"),
        ({**READ, "columns": "body", "includeHeaders": "true"}, "columns and includeHeaders exclude each other"),
        ({**READ, "minPartitions": "0"}, "greater than 0"),
        ({**READ, "fetchBytes": "4m"}, "fetchBytes is '4m'"),
        ({**READ, "failOnDataLoss": "no"}, "true or false"),
    ],
)
def test_wrong_values(options: dict[str, str], expected: str) -> None:
    """A wrong, missing or misplaced option is refused with its name and what it must be."""
    with pytest.raises(ConfigurationError, match=expected):
        batch_read_options(options)


@pytest.mark.parametrize("value", ["30", "0s", "soon", "1.5h"])
def test_wrong_durations(value: str) -> None:
    """What is no time is refused, and so is none."""
    with pytest.raises(ConfigurationError, match="leaseTimeout is .* a time such as 30s, 10m or 2h"):
        stream_read_options({**READ, "leaseTimeout": value})


def test_ending_of_a_stream() -> None:
    """A stream has no end to choose."""
    with pytest.raises(ConfigurationError, match=r"endingOffsets is for spark\.read only"):
        stream_read_options({**READ, "endingOffsets": "latest"})


def test_url_by_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL can come from a variable or a file, read where it is used."""
    monkeypatch.setenv("BROKER", URL)
    file = tmp_path / "url"
    file.write_text(URL + "\n")
    assert Endpoint(env="BROKER").resolve() == URL
    assert Endpoint(file=str(file)).resolve() == URL


def test_url_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the variable or the file is missing, the error says what executors need."""
    monkeypatch.delenv("BROKER", raising=False)
    with pytest.raises(ConfigurationError, match=r"set spark\.executorEnv\.BROKER"):
        Endpoint(env="BROKER").resolve()
    with pytest.raises(ConfigurationError, match="every executor need"):
        Endpoint(file=str(tmp_path / "none")).resolve()


def test_the_url_is_not_shown() -> None:
    """Nothing that prints the options shows the password."""
    assert "secret" not in repr(read_options(READ))


def test_a_window() -> None:
    """A micro-batch that waits for a size waits for a time at most, and is not larger than it may be."""
    window = {**READ, "minMessagesPerTrigger": "10", "maxTriggerDelay": "30s"}
    options = stream_read_options(window)
    assert (options.min_messages_per_trigger, options.max_trigger_delay_ms) == (10, 30_000)
    for name in ("minMessagesPerTrigger", "maxTriggerDelay"):
        with pytest.raises(ConfigurationError, match="go together"):
            stream_read_options({key: value for key, value in window.items() if key != name})
    with pytest.raises(ConfigurationError, match="is 10, and maxMessagesPerTrigger is 9"):
        stream_read_options({**window, "maxMessagesPerTrigger": "9"})
