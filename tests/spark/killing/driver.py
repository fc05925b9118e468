"""`python -m tests.spark.killing.driver JOB DIRECTORY OPTIONS`: a driver on a small cluster, that others kill.

It runs a job until all that was on the queue when it began is done, and ends with 0. Started again, it goes on.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import flintmq
from tests.spark.jvm import prepare_environment
from tests.spark.killing import exchange
from tests.spark.killing.points import GROUP, POINTS, DyingLakeSource, DyingSource

Options = dict[str, str]


def to_lake(format: str, spark: SparkSession, directory: Path, options: Options) -> StreamingQuery:
    """A queue as files."""
    rows = spark.readStream.format("dying").options(**options).load().select("offset", "body")
    return (
        rows.writeStream.format("dying_lake")
        .option("path", str(directory / "lake"))
        .option("lakeFormat", format)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def to_exchange(spark: SparkSession, directory: Path, options: Options) -> StreamingQuery:
    """A queue through a shuffle, whose rows come in another order each time, to several queues behind an exchange."""
    rows = spark.readStream.format("dying").options(**options).load().select("body").repartition(3)
    keyed = rows.selectExpr(
        "body", f"cast(cast(cast(body AS string) AS long) % {exchange.QUEUES} AS string) AS routing_key"
    )
    return (
        keyed.writeStream.format("dying")
        .option("url", options["url"])
        .option("exchange", exchange.EXCHANGE)
        .option("deliveryMode", "exactly-once")
        .option("transactionalId", "killed")
        .option("batchSize", "1000")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


JOBS: dict[str, Callable[[SparkSession, Path, Options], StreamingQuery]] = {
    "parquet": partial(to_lake, "parquet"),
    "delta": partial(to_lake, "delta"),
    "exchange": to_exchange,
}


def session(directory: Path) -> SparkSession:
    """Two executors of one core each. What fails is tried again for as long as it takes."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    prepare_environment()
    os.environ[GROUP] = str(os.getpgrp())
    os.environ[POINTS] = str(directory / "points")
    # The tests as well: executors unpickle what is defined in them.
    packages = os.pathsep.join([str(Path(flintmq.__file__).parents[1]), str(Path(__file__).parents[3])])
    os.environ["PYTHONPATH"] = packages
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .appName("killing")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executorEnv.PYTHONPATH", packages)
        .config(f"spark.executorEnv.{GROUP}", os.environ[GROUP])
        .config(f"spark.executorEnv.{POINTS}", os.environ[POINTS])
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.task.maxFailures", "1000")
        .config("spark.stage.maxConsecutiveAttempts", "1000")
        .config("spark.deploy.maxExecutorRetries", "-1")
        .config("spark.excludeOnFailure.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(DyingSource)
    spark.dataSource.register(DyingLakeSource)
    return spark


def main(job: str, directory: Path, options: Options) -> None:
    query = JOBS[job](session(directory), directory, options)
    # What tells the story that it can kill.
    (directory / "running").touch()
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
