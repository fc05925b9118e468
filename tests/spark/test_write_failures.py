"""What a user is told when rows cannot be published: one error, which names the matter and the way out.

Tasks run here without Spark, which adds only where they ran.
"""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StringType, StructField, StructType

from flintmq.base.errors import FlintError
from flintmq.spark.sink import staged_publish
from flintmq.spark.sink.options import write_options
from flintmq.spark.sink.publisher import publish
from flintmq.spark.sink.rows import RowEncoder
from flintmq.spark.sink.staged_publish import Batch
from tests.servers import BrokerProcess
from tests.spark.conftest import Queues

TEXT: DataType = StringType()
MODES = ("at-least-once", "exactly-once")


def write(url: str, mode: str, row: dict[str, object], transactional_id: str = "failures", **options: str) -> None:
    given = {"url": url, "deliveryMode": mode, **options}
    if mode == "exactly-once":
        given["transactionalId"] = transactional_id
    checked = write_options(given)
    schema = StructType([StructField(name, TEXT) for name in row])
    encoder = RowEncoder(schema, checked)
    batch = pa.RecordBatch.from_pylist([row], to_arrow_schema(schema))
    if mode == "exactly-once":
        staged_publish.stage(checked, encoder, iter([batch]), Batch("query", 0), 0)
    else:
        publish(checked, encoder, iter([batch]))


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_wrong_password(broker: BrokerProcess, mode: str) -> None:
    """The password is not shown; where it comes from is."""
    url = broker.url.replace("guest:guest", "guest:secret")
    assert url != broker.url
    with pytest.raises(FlintError, match="check the user and the password in the option url") as told:
        write(url, mode, {"body": "x"}, exchange="amq.direct")
    assert "secret" not in str(told.value)


def test_unknown_virtual_host(broker: BrokerProcess, mode: str) -> None:
    """What is wrong stands in the URL."""
    with pytest.raises(FlintError, match="check the option url"):
        write(broker.url.rpartition("/")[0] + "/nowhere", mode, {"body": "x"}, exchange="amq.direct")


def test_no_such_exchange(broker: BrokerProcess, mode: str) -> None:
    """The broker says which one it does not have."""
    with pytest.raises(FlintError, match="no exchange 'nowhere' in vhost '/'.*declare it, or correct the name"):
        write(broker.url, mode, {"body": "x"}, exchange="nowhere")


def test_an_expiration_that_is_no_number(broker: BrokerProcess, mode: str) -> None:
    """A property that the broker refuses is an error of the row, with what it said."""
    with pytest.raises(FlintError, match="invalid expiration 'soon'"):
        write(broker.url, mode, {"body": "x", "expiration": "soon"}, exchange="amq.direct")


def test_nobody_takes_a_mandatory_message(broker: BrokerProcess, mode: str) -> None:
    """It is returned, and the error says from where."""
    with pytest.raises(FlintError, match="the server returned 1 message, .*routing key 'k'"):
        write(broker.url, mode, {"body": "x", "routing_key": "k"}, exchange="amq.direct", mandatory="true")


def test_a_full_queue_refuses(broker: BrokerProcess, queues: Queues) -> None:
    """A message that is refused fails its task."""
    exchange = queues.exchange()
    queues.bound(exchange, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    write(broker.url, "at-least-once", {"body": "x"}, exchange=exchange)
    with pytest.raises(FlintError, match="the server refused 1 message,"):
        write(broker.url, "at-least-once", {"body": "x"}, exchange=exchange)
    with pytest.raises(FlintError):
        write(broker.url, "exactly-once", {"body": "x"}, exchange=exchange)


def test_no_broker(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """A task waits for a broker that restarts, and says in the end what to look at."""
    monkeypatch.setattr("flintmq.spark.client.PATIENCE_SECONDS", 0.3)
    with pytest.raises(FlintError, match="is the broker running, and is the option url its address"):
        write("amqp://127.0.0.1:1/", mode, {"body": "x"}, exchange="amq.direct")
