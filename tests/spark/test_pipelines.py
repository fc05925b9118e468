"""Pipelines as their users run them: the command, on every kind of master, and what it says when something is wrong."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from flintmq.base.errors import ConfigurationError
from flintmq.spark.pipelines.flow import check
from flintmq.spark.pipelines.pipeline_file import load
from flintmq.spark.pipelines.runner import Stop, run
from flintmq.spark.pipelines.status import PipelineStatus, State
from flintmq.spark.pipelines.status_queue import browse
from tests.servers import BrokerProcess, command, environment, free_port
from tests.spark.conftest import PACKAGES, Queues
from tests.spark.lakes import parquet_files, rows

# A JVM starts, and Spark's workers after it, on a machine that may be busy with other tests.
START_SECONDS = 150
RUN_SECONDS = 240

CARRIERS = """\
pipeline: {name}
checkpoints: state
broker: {{urlEnv: BROKER_URL}}
trigger: 200 milliseconds
spark: {{spark.sql.shuffle.partitions: 2}}
tables:
  airlines: {{format: csv, path: airlines.csv, options: {{header: true}}}}
flows:
  names:
    source:
      flintmq: {{queue: "{queue}", startingOffsets: earliest, minPartitions: 2}}
      decode: {{json: "carrier STRING, delay BIGINT"}}
    sql: |
      SELECT carrier AS routing_key, concat(name, ' ', value.delay) AS body
      FROM source JOIN airlines ON carrier = value.carrier
    sinks:
      - flintmq: {{exchange: "{exchange}", mandatory: true}}
"""
AIRLINES = "carrier,name\nUA,United\nDL,Delta\n"


class Carriers:
    """A pipeline from a stream, by a join with a file, into an exchange, and what came out of it."""

    def __init__(self, queues: Queues, directory: Path) -> None:
        self.name = queues.exchange().replace(".exchange", "").partition("[")[0].rpartition(".")[2]
        self.stream = queues.stream()
        self.file = directory / "carriers.yaml"
        self._queues = queues
        self._out = queues.bound(queues.exchange())
        (directory / "airlines.csv").write_text(AIRLINES)
        self.file.write_text(CARRIERS.format(name=self.name, queue=self.stream, exchange=queues.exchange()))

    def add(self, start: int, end: int) -> None:
        bodies = [{"carrier": "UA" if number % 2 else "DL", "delay": number} for number in range(start, end)]
        self._queues.add(self.stream, *(json.dumps(body).encode() for body in bodies))

    def came(self) -> list[str]:
        return sorted(message.body.decode() for message in self._queues.taken(self._out))

    def waiting(self) -> int:
        return self._queues.channel.declare_queue(self._out, passive=True).message_count


def expected(start: int, end: int) -> list[str]:
    return sorted(f"{'United' if number % 2 else 'Delta'} {number}" for number in range(start, end))


@pytest.fixture
def carriers(queues: Queues, tmp_path: Path) -> Carriers:
    return Carriers(queues, tmp_path)


def pipeline(*arguments: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own command
        command("pipeline", *arguments),
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def started(master: str = "local[2]") -> str:
    """What is said before something comes of it, so that nobody takes the wait for an end."""
    return f"Starting Spark ({master}) ...\nStarting 1 flow ...\n"


def until(what: str, holds: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)


def last_word(broker: BrokerProcess, name: str) -> PipelineStatus | None:
    found = {one.pipeline: one for one in browse(broker.url, time.time_ns() // 1_000_000)}
    return found.get(name)


def test_run_and_ask(broker: BrokerProcess, carriers: Carriers) -> None:
    """Ctrl-C, which a whole terminal gets, and SIGTERM end a pipeline in order. The next run goes on from there, does
    what is there, and ends: nothing is lost or doubled. The broker can be asked about it.
    """
    tell_to_end(broker, carriers, signal.SIGINT, 0)
    tell_to_end(broker, carriers, signal.SIGTERM, 80)
    carriers.add(160, 190)
    done = pipeline("run", str(carriers.file), "--available-now", "--json")
    assert (done.returncode, done.stderr) == (0, started())
    assert carriers.came() == expected(0, 190)
    said = json.loads(done.stdout)
    flow = said["flows"][0]
    assert (said["state"], flow["lag"]) == ("finished", 0)
    # Those that were added since, and those for which the run before had no time.
    assert 30 <= flow["rows"] <= 60

    asked = pipeline("status", carriers.name, "--url", broker.url, "--json")
    assert asked.returncode == 0
    assert json.loads(asked.stdout)["flows"][0]["rows"] == flow["rows"]
    listed = pipeline("list", "--url", broker.url, "--json")
    assert carriers.name in [one["pipeline"] for one in json.loads(listed.stdout)]
    shown = pipeline("list", "--url", broker.url)
    assert "finished" in shown.stdout


def is_at_work(broker: BrokerProcess, name: str) -> bool:
    word = last_word(broker, name)
    return word is not None and word.state is State.RUNNING and word.rows >= 50


def tell_to_end(broker: BrokerProcess, carriers: Carriers, number: signal.Signals, start: int) -> None:
    """While it works on 80 messages from the number `start` on."""
    carriers.add(start, start + 50)
    running = subprocess.Popen(  # noqa: S603 - our own command
        command("pipeline", "run", str(carriers.file)),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until("the first batch", lambda: carriers.waiting() >= start + 50)
        until("it says so", lambda: is_at_work(broker, carriers.name))
        carriers.add(start + 50, start + 80)
        if number is signal.SIGINT:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)
        out, errors = running.communicate(timeout=100)
    finally:
        running.kill()
    assert (running.returncode, out) == (0, "")
    assert errors.startswith(started() + f"{carriers.name}.names: stopped, ")
    assert errors.count("\n") == 3
    word = last_word(broker, carriers.name)
    assert word is not None
    assert word.state is State.STOPPED


# -- clusters and servers that run already ----------------------------------------------------------------------


@contextmanager
def spark_class(directory: Path, name: str, *arguments: str, **settings: str) -> Iterator["subprocess.Popen[bytes]"]:
    """One of Spark's own programs, from the wheel."""
    home = str(Path(pyspark.__file__).parent)
    with (directory / f"{name.rpartition('.')[2]}.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 - Spark's own command
            [f"{home}/bin/{'spark-submit' if 'connect' in name else 'spark-class'}", *arguments],
            env=environment(SPARK_HOME=home, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable, **settings),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def standalone(broker: BrokerProcess, tmp_path: Path) -> Iterator[str]:
    """A master and two workers, which know where the broker is from their own environment."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    master, worker = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
    place = ("--host", "127.0.0.1", "--webui-port", "0")
    with spark_class(tmp_path, master, master, *place, "--port", str(port)):
        until("the master listens", lambda: listens(port))
        workers = [tmp_path / "worker-1", tmp_path / "worker-2"]
        arguments = [
            (worker, *place, "--cores", "1", "--memory", "1g", "--work-dir", str(directory), url)
            for directory in workers
        ]
        with spark_class(tmp_path, worker, *arguments[0]), spark_class(tmp_path, worker, *arguments[1]):
            log = tmp_path / "Master.log"
            until("two workers", lambda: log.read_text().count("Registering worker") == 2)
            yield url


@pytest.mark.long
def test_standalone(carriers: Carriers, standalone: str, tmp_path: Path) -> None:
    """On a master with two workers, the same definition runs unchanged, and both of them work."""
    carriers.add(0, 100)
    settings = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"}
    more = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    done = pipeline("run", str(carriers.file), "--available-now", "--master", standalone, *more)
    assert (done.returncode, done.stderr) == (
        0,
        started(standalone) + f"{carriers.name}.names: finished, 100 rows read in 1 batch, 100 rows written\n",
    )
    assert carriers.came() == expected(0, 100)
    used = [directory for directory in tmp_path.glob("worker-*") if any(directory.iterdir())]
    assert len(used) == 2


@pytest.fixture
def connect(broker: BrokerProcess, tmp_path: Path) -> Iterator[str]:
    """A server of Spark Connect."""
    pytest.importorskip("grpc", reason="Spark Connect is not installed: pip install 'flintmq[connect]'")
    port = free_port()
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    more = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    path = os.pathsep.join((PACKAGES, os.environ.get("PYTHONPATH", "")))
    with spark_class(tmp_path, name, "--class", name, *more, "spark-internal", PYTHONPATH=path) as process:
        until("the server listens", lambda: listens(port) or process.poll() is not None)
        assert process.poll() is None, (tmp_path / "SparkConnectServer.log").read_text()[-2000:]
        yield f"sc://127.0.0.1:{port}"


BOTH = """\
pipeline: {name}
checkpoints: state
broker: {{urlEnv: BROKER_URL}}
trigger: availableNow
flows:
  copy:
    source: {{flintmq: {{queue: "{queue}", startingOffsets: earliest}}}}
    sinks:
      - lake: {{path: lake}}
      - flintmq: {{exchange: "{exchange}"}}
"""


@pytest.mark.long
def test_spark_connect(carriers: Carriers, connect: str, queues: Queues, tmp_path: Path) -> None:
    """With Spark Connect, only the definition is here, and all of Spark is elsewhere. Several sinks know whose a batch
    is there, too: with a new checkpoint, the first one of all is no repetition.
    """
    carriers.add(0, 100)
    done = pipeline("run", str(carriers.file), "--available-now", "--master", connect)
    assert (done.returncode, done.stderr) == (
        0,
        started(connect) + f"{carriers.name}.names: finished, 100 rows read in 1 batch, 100 rows written\n",
    )
    assert carriers.came() == expected(0, 100)
    exchange = queues.exchange()
    out = queues.bound(exchange, name="both")
    file = tmp_path / "both.yaml"
    file.write_text(BOTH.format(name="both", queue=queues.stream(b"one", b"two", name="two"), exchange=exchange))
    for count in (1, 2):
        done = pipeline("run", str(file), "--master", connect, "--checkpoints", str(tmp_path / f"state-{count}"))
        assert (done.returncode, done.stderr) == (
            0,
            started(connect) + "both.copy: finished, 2 rows read in 1 batch, 2 rows written, 1 file\n",
        )
        assert sorted(message.body for message in queues.taken(out)) == [b"one", b"two"]
        assert rows(tmp_path / "lake", "parquet", "body") == sorted([(b"one",), (b"two",)] * count)


# -- within one Spark -------------------------------------------------------------------------------------------

TWO_SINKS = """\
pipeline: {name}
checkpoints: state
broker: {{urlEnv: BROKER_URL}}
trigger: availableNow
flows:
  copy:
    source: {{flintmq: {{queue: "{queue}", startingOffsets: earliest}}}}
    transform: transforms.py:shouted
    sinks:
      - lake: {{path: lake}}
      - flintmq: {{exchange: "{exchange}"}}
      - console
"""
TRANSFORMS = """\
from pyspark.sql.functions import udf


@udf("string")
def shout(body):
    return body.decode().upper()


def shouted(messages):
    return messages.select(shout("body").alias("body"))
"""


def test_several_sinks(spark: SparkSession, queues: Queues, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a transform in a Python file makes of messages goes to each of a flow's sinks."""
    exchange = queues.exchange()
    out = queues.bound(exchange)
    file = tmp_path / "copy.yaml"
    file.write_text(TWO_SINKS.format(name="several", queue=queues.stream(b"one", b"two"), exchange=exchange))
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    seen: list[State] = []
    status = run(load(str(file)), spark, Stop(), lambda status: seen.append(status.state))
    assert (status.state, status.error) == (State.FINISHED, "")
    assert sorted(message.body for message in queues.taken(out)) == [b"ONE", b"TWO"]
    assert rows(tmp_path / "lake", "parquet", "body") == [("ONE",), ("TWO",)]
    (lake,) = status.flows[0].lakes
    assert (status.flows[0].written, lake.rows, lake.files) == (2, 2, 1)
    assert lake.size_bytes == sum(path.stat().st_size for path in parquet_files(Path(lake.path)))
    assert status.flows[0].files == 1
    assert "| ONE|" in capsys.readouterr().out
    assert seen[0] is State.STARTING
    assert seen[-1] is State.FINISHED


@pytest.mark.parametrize(
    ("wrong", "right", "line", "text"),
    [
        ("FROM source", "FROM sources", 15, "sources"),
        ("value.delay) AS body", "value.dely) AS body", 14, "dely"),
        ("SELECT carrier", "SELEKT carrier", 14, "SELEKT"),
        ("'carrier STRING", "'carrier STRNG", 9, "STRNG"),
        (" AS body", " AS text", 9, "the column text is nothing that a message has"),
    ],
)
def test_what_spark_does_not_understand(
    spark: SparkSession, tmp_path: Path, wrong: str, right: str, line: int, text: str
) -> None:
    """SQL that is wrong, and columns that are no message's, are errors that name the file and the line."""
    whole = (
        CARRIERS.format(name="wrong", queue="none", exchange="none")
        .replace('"carrier', "'carrier")
        .replace('T"}', "T'}")
    )
    assert wrong in whole
    file = tmp_path / "wrong.yaml"
    file.write_text(whole.replace(wrong, right, 1))
    (tmp_path / "airlines.csv").write_text(AIRLINES)
    wrong_one = load(str(file))
    with pytest.raises(ConfigurationError) as caught:
        check(wrong_one, wrong_one.flows[0], spark)
    said = str(caught.value)
    assert said.startswith(f"{file}:{line}: the flow names"), said
    assert text in said
    assert "\n" not in said


COPY = """\
pipeline: copy
checkpoints: {state}
broker: {{urlEnv: BROKER_URL}}
trigger: availableNow
flows:
  copy:
    source: {{flintmq: {{queue: "{queue}", startingOffsets: earliest}}}}
    sinks: [{{parquet: {{path: lake}}}}]
"""


def test_a_directory_of_another_checkpoint(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    """Spark would leave out batches whose numbers its directory of Parquet knows: such a flow does not start."""
    queue = queues.stream(b"one", b"two")
    file = tmp_path / "copy.yaml"

    def copied(state: str) -> int:
        file.write_text(COPY.format(queue=queue, state=state))
        status = run(load(str(file)), spark, Stop(), lambda _status: None)
        assert status.state is State.FINISHED, status.error
        return spark.read.parquet(str(tmp_path / "lake")).count()

    assert copied("state") == 2
    queues.add(queue, b"three")
    assert copied("state") == 3
    with pytest.raises(
        ConfigurationError, match=r"copy.yaml:\d+: the flow copy would lose messages: .* up to number 1 of"
    ):
        copied("new")
    queues.add(queue, b"four")
    assert copied("state") == 4


def test_a_flow_that_fails(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    """One flow's failure ends the pipeline, and is said in one line that names the flow."""
    file = tmp_path / "copy.yaml"
    text = TWO_SINKS.format(name="fails", queue=queues.stream(b"one"), exchange="there.is.none")
    file.write_text(text.replace("trigger: availableNow", "trigger: 1 second"))
    (tmp_path / "transforms.py").write_text(TRANSFORMS)
    status = run(load(str(file)), spark, Stop(), lambda _: None)
    assert status.state is State.FAILED
    assert status.error.startswith("the flow copy failed: ")
    assert "no exchange 'there.is.none' in vhost '/'" in status.error
    assert "\n" not in status.error


# -- what is missing --------------------------------------------------------------------------------------------


def test_no_broker(carriers: Carriers) -> None:
    """Without a broker, a pipeline fails, and says where none was found."""
    done = pipeline("run", str(carriers.file), "--available-now", BROKER_URL="amqp://guest:secret@127.0.0.1:1/%2f")
    assert done.returncode == 1
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("flintmq: the flow names failed: ")
    assert "127.0.0.1:1" in last
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


def test_no_java(carriers: Carriers) -> None:
    """Without Java, the error says so, and what to do."""
    done = pipeline("run", str(carriers.file), JAVA_HOME="", PATH=str(Path(sys.executable).parent))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Starting Spark (local[2]) ...\n"
        "flintmq: Spark needs Java, and there is no java in the PATH: install Java 17 or newer, or set JAVA_HOME to "
        "where it is\n"
    )


def test_no_pyspark(carriers: Carriers, tmp_path: Path) -> None:
    """Where PySpark is not installed, the command says how to install it."""
    hidden = tmp_path / "hidden" / "pyspark"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('no', name='pyspark')\n")
    path = os.pathsep.join((str(hidden.parent), PACKAGES))
    done = pipeline("run", str(carriers.file), PYTHONPATH=path)
    assert done.returncode == 2
    assert done.stderr == "flintmq: pipelines need pyspark, which is not installed: pip install 'flintmq[spark]'\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--master", "localhost:7077"), "'localhost:7077' is not a master: use local[N]"),
        (("--available-now", "--every", "1 second"), "--available-now and --every exclude each other"),
        (("--every", "often"), "'often' is not an interval for a trigger"),
        (("--flow", "others"), "there is no flow others in"),
        (("--conf", "spark.ui.enabled"), "--conf spark.ui.enabled: write it as KEY=VALUE"),
    ],
)
def test_wrong_arguments(carriers: Carriers, arguments: tuple[str, ...], text: str) -> None:
    """What no run can be made of is an error before Spark starts, with the exit code of a wrong call."""
    done = pipeline("run", str(carriers.file), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"flintmq: {text}")


def test_nobody_to_ask_about(broker: BrokerProcess) -> None:
    """A pipeline that never ran here has no status."""
    done = pipeline("status", "nobody", "--url", broker.url)
    assert done.returncode == 1
    assert done.stderr.startswith("flintmq: no pipeline nobody has reported its state to this broker")
