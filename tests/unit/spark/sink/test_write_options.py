"""What a user may say about writing, and what a wrong word is answered with."""

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.spark.sink.options import BATCH_MESSAGES, STAGED_MESSAGES, DeliveryMode, write_options

WRITE = {"url": "amqp://guest:secret@h/", "exchange": "x"}
EXACTLY_ONCE = {"deliveryMode": "exactly-once", "transactionalId": "t"}


def test_defaults() -> None:
    """Without a word, each message is confirmed, persistent, and may come twice."""
    options = write_options(WRITE)
    assert options.delivery_mode == DeliveryMode.AT_LEAST_ONCE
    assert options.persistent
    assert not options.mandatory
    assert options.batch_size == BATCH_MESSAGES


def test_exactly_once() -> None:
    """It has a name for what is published, larger pieces, and may have a number for a batch."""
    options = write_options({**WRITE, "deliveryMode": "exactly-once", "transactionalId": "t", "batchId": "7"})
    assert options.is_staged
    assert (options.transactional_id, options.batch_id, options.batch_size) == ("t", 7, STAGED_MESSAGES)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"deliveryMode": "once"}, "deliveryMode is 'once': it must be one of at-least-once, dedup, exactly-once"),
        ({"deliveryMode": "exactly-once"}, "transactionalId is missing: a name under which the broker remembers"),
        ({"transactionalId": "t"}, "transactionalId is for deliveryMode exactly-once only"),
        ({"batchId": "1"}, "batchId is for deliveryMode exactly-once only"),
        ({**EXACTLY_ONCE, "batchId": "x"}, "batchId is 'x': it must be the number of a micro-batch"),
        ({**EXACTLY_ONCE, "persistent": "false"}, "remove the option persistent"),
        ({"batchSize": "0"}, "batchSize is 0: it must be a number greater than 0"),
        ({"mandatory": "yes"}, "mandatory is 'yes': it must be true or false"),
        ({"queue": "q"}, "the option queue is for spark.read and spark.readStream only"),
    ],
)
def test_wrong_values(options: dict[str, str], expected: str) -> None:
    """A wrong value is refused with the option's name and what it must be."""
    with pytest.raises(ConfigurationError, match=expected):
        write_options({**WRITE, **options})
