"""Options: what is accepted, and one clear error for everything else."""

from pathlib import Path

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.spark.endpoint import Endpoint
from flintmq.spark.options import (
    EARLIEST,
    LATEST,
    batch_read_options,
    read_options,
    stream_read_options,
    write_options,
)

URL = "amqp://guest:secret@localhost/"
READ = {"url": URL, "queue": "q"}


def test_defaults_of_a_batch() -> None:
    """A batch reads all there is."""
    options = batch_read_options(READ)
    assert (options.endpoint.url, options.queue) == (URL, "q")
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert options.fail_on_data_loss
    assert not options.include_properties


def test_defaults_of_a_stream() -> None:
    """A stream starts with what comes next."""
    options = stream_read_options(READ)
    assert options.starting == LATEST
    assert options.max_messages_per_trigger is None


def test_names_have_no_case() -> None:
    """Names are understood however they are spelled, and so are words for offsets."""
    options = stream_read_options({"URL": URL, "QUEUE": "q", "StartingOffsets": "Earliest", "MINPARTITIONS": "3"})
    assert options.starting == EARLIEST
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
        ({**READ, "startingOffsets": "-2"}, "startingOffsets is '-2': it must be earliest, latest or an offset"),
        ({**READ, "startingOffsets": "1", "startingTimestamp": "1"}, "exclude each other"),
        ({**READ, "startingTimestamp": "2013-01-01"}, "milliseconds since 1970"),
        ({**READ, "minPartitions": "0"}, "greater than 0"),
        ({**READ, "fetchBytes": "4m"}, "fetchBytes is '4m'"),
        ({**READ, "failOnDataLoss": "no"}, "true or false"),
    ],
)
def test_wrong_values(options: dict[str, str], expected: str) -> None:
    """A wrong, missing or misplaced option is refused with its name and what it must be."""
    with pytest.raises(ConfigurationError, match=expected):
        batch_read_options(options)


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
