"""How JVMs of Spark start in tests: many do, each for half a minute.

`python -m tests.spark.jvm` keeps an archive of the classes that they load, beside the Python they run with. A JVM that
finds its classes there has started in less than half of the time; one that does not fit it starts as ever.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import flintmq.client as fc
from flintmq.embedded import Broker

_PLACE: Final = Path(sys.prefix) / "spark"
_CLASSES: Final = _PLACE / "classes.jsa"
# It is among the paths that classes come from: an archive wants it to be empty, and the same.
_CONF: Final = _PLACE / "conf"
# Compiling with the second compiler what runs for so short a time takes longer than it gains.
_BRIEF: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# An archive that was made for other paths is passed over without a word on standard output.
_ARCHIVED: Final = f"{_BRIEF} -XX:SharedArchiveFile={_CLASSES} -Xlog:disable"


def prepare_environment() -> None:
    """Of every Spark that this process starts from now on, also by commands."""
    options = _ARCHIVED if _CLASSES.exists() else _BRIEF
    _set_environment(driver=options, others=options)


def _set_environment(driver: str, others: str) -> None:
    os.environ["SPARK_CONF_DIR"] = str(_CONF)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{driver} '-Dspark.executor.extraJavaOptions={others}'"
    os.environ["SPARK_DAEMON_JAVA_OPTS"] = others


def _archive() -> None:
    """Do in one JVM what many do in tests; the classes that it has loaded are written when it ends."""
    _CONF.mkdir(parents=True, exist_ok=True)
    made = _CLASSES.with_suffix(".new")
    made.unlink(missing_ok=True)
    _set_environment(driver=f"{_BRIEF} -XX:ArchiveClassesAtExit={made} -Xlog:disable", others=_BRIEF)
    # Its output ends with the JVM, and not before.
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.jvm", "work"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or not made.exists():
        raise SystemExit(f"no archive of Spark's classes was made:\n{done.stdout}{done.stderr}")
    made.replace(_CLASSES)


def _work() -> None:
    """Read a stream, write and read files, shuffle, and ask in SQL."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    with tempfile.TemporaryDirectory() as directory, Broker() as broker, builder.getOrCreate() as spark:
        with fc.connect(broker.url) as connection:
            channel = connection.channel(confirms=True)
            channel.declare_queue("stream", arguments={"x-queue-type": "stream"})
            channel.publish_batch([("", "stream", b'{"a": 1}')] * 10)
        frame = spark.readStream.format("flintmq").options(url=broker.url, queue="stream", startingOffsets="earliest")
        writer = frame.load().selectExpr("offset", "cast(body as string) body").writeStream.format("parquet")
        writer = writer.option("path", f"{directory}/lake").option("checkpointLocation", f"{directory}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()
        spark.read.parquet(f"{directory}/lake").createOrReplaceTempView("lake")
        found = spark.sql("SELECT from_json(body, 'a INT').a AS a, count(*) AS n FROM lake GROUP BY 1 ORDER BY 1")
        assert [tuple(row) for row in found.collect()] == [(1, 10)]
        rows = spark.createDataFrame([(1, "one"), (2, "two")], "number INT, name STRING")
        rows.join(rows.groupBy("number").count(), "number").write.json(f"{directory}/joined")


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        _work()
    else:
        _archive()
