"""Spark on this machine, as the benchmark wants it."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import flintmq
from benchmarks.spark.null import NullSource

_PACKAGES = (Path(__file__).parents[2], Path(flintmq.__file__).parents[1])


@contextlib.contextmanager
def session(directory: Path, tasks: int) -> Iterator[SparkSession]:
    """As many tasks at a time as there are cores to measure with; nothing else of Spark's is changed that counts."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, _PACKAGES))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = (
        SparkSession.builder.master(f"local[{tasks}]")
        .appName("flintmq-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.sql.shuffle.partitions", str(tasks))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(NullSource)
    try:
        yield spark
    finally:
        spark.stop()
