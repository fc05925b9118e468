"""`python -m tests.cluster.pipeline URLS DIRECTORY`: Spark passes on messages of a queue to another one, once.

The connector is to outlive all that becomes of the cluster. A query that fails nevertheless is started again from its
checkpoint, as whoever watches over it would do, and <DIRECTORY>/failures gets a line.
"""

import os
import sys
import time
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.cluster.with_spark import FAILURES, PIPED, RUNNING, WORK
from tests.spark.jvm import prepare_environment

_NAME: Final = "campaign"
# Less often, Spark leaves processors to the nodes, whose times are measured.
_TRIGGER: Final = "2 seconds"
_RETRY_SECONDS: Final = 1.0


def main(urls: str, directory: Path) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    prepare_environment()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName(_NAME)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    while True:
        try:
            query = _start(spark, urls, directory)
            query.processAllAvailable()
            (directory / RUNNING).touch()
            query.awaitTermination()
        except StreamingQueryException as error:
            with (directory / FAILURES).open("a", encoding="utf-8") as file:
                file.write(f"{' '.join(str(error).split())}\n")
            time.sleep(_RETRY_SECONDS)


def _start(spark: SparkSession, urls: str, directory: Path) -> StreamingQuery:
    rows = spark.readStream.format("flintmq").options(url=urls, queue=WORK, consumerName=_NAME, minPartitions="2")
    return (
        rows.load()
        .select("body")
        .writeStream.format("flintmq")
        .options(url=urls, exchange="", routingKey=PIPED, deliveryMode="exactly-once", transactionalId=_NAME)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(processingTime=_TRIGGER)
        .start()
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
