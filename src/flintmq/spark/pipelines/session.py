"""A Spark session for a pipeline, by its master: on this machine, on a cluster, or by Spark Connect."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.spark.pipelines.spark_errors import first_line

JAVA_AT_LEAST: Final = 17
# The longest wait for the end of the JVM, which usually takes a second or two.
_STOP_SECONDS: Final = 30.0
_JAVA_SECONDS: Final = 20.0
_MASTER: Final = re.compile(r"(local(\[(\d+|\*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|(spark|sc|k8s)://.+|yarn)\Z")
_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The default of 200 would start 200 tasks for every batch.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


def check_master(master: str) -> None:
    """Raises ConfigurationError if the master has an unknown form."""
    if not _MASTER.match(master):
        raise ConfigurationError(
            f"{master!r} is not a master: use local[N], local-cluster[N,cores,MB], spark://host:7077, or "
            "sc://host:15002 for Spark Connect"
        )


@contextmanager
def session(name: str, master: str, settings: Mapping[str, str], log: Path | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block. The standard error of the JVM goes to `log`, if set. Raises FlintError."""
    check_master(master)
    with py4j_silenced():
        yield from (
            _remote(name, master, settings) if master.startswith("sc://") else _local(name, master, settings, log)
        )


def _local(name: str, master: str, settings: Mapping[str, str], log: Path | None) -> Iterator[SparkSession]:
    check_java()
    # Without this, workers run the first python3 of the PATH, which may lack FlintMQ.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with _errors_to(log), _interrupts_later():
            spark = _builder(name, {**_DEFAULTS, **_paths(master), **settings}).master(master).getOrCreate()
    except Exception as error:
        _end_jvm()
        raise FlintError(
            f"Spark did not start with the master {master}: {first_line(error)} (see its log, with --log FILE)"
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        _end_jvm()


@contextmanager
def py4j_silenced() -> Iterator[None]:
    """Drop the log messages of Py4J in the block.

    Errors between Python and the JVM end a flow, and are reported as its error. Py4J also logs them with their stack,
    for example if a stop interrupts a batch.
    """
    log = logging.getLogger("py4j")
    nowhere = logging.NullHandler()
    before = log.propagate
    log.addHandler(nowhere)
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = before
        log.removeHandler(nowhere)


def check_java() -> None:
    """Raises FlintError if there is no Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install Java {JAVA_AT_LEAST} or newer, or set JAVA_HOME to where it is"
    if java is None:
        raise FlintError(f"Spark needs Java, and there is no java in the PATH: {advice}")
    try:
        result = subprocess.run(  # noqa: S603 - the Java that Spark is about to run
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FlintError(f"Spark needs Java, and {java} does not run: {advice}") from error
    version = re.search(r'version "(?:1\.)?(\d+)', result.stderr)
    if version is None or int(version[1]) < JAVA_AT_LEAST:
        found = f"is Java {version[1]}" if version else "does not say its version"
        raise FlintError(f"Spark needs Java {JAVA_AT_LEAST}, and {java} {found}: {advice}")


def _remote(name: str, master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    try:
        spark = _builder(name, settings).remote(master).getOrCreate()
        # The first call opens the connection.
        _ = spark.version
    except ImportError as error:
        raise FlintError("Spark Connect needs more packages: pip install 'flintmq[connect]'") from error
    except (PySparkException, OSError) as error:
        raise FlintError(f"Spark Connect cannot be reached at {master}: {first_line(error)}") from error
    try:
        yield spark
    finally:
        with suppress(Exception):
            spark.stop()


def _builder(name: str, settings: Mapping[str, str]) -> SparkSession.Builder:
    return SparkSession.builder.appName(name).config(map={**settings})


def _paths(master: str) -> dict[str, str]:
    """Settings by which executors find FlintMQ in the PYTHONPATH of this process, and local addresses."""
    path = os.environ.get("PYTHONPATH", "")
    whole = os.pathsep.join(str(Path(part).resolve()) for part in path.split(os.pathsep))
    found = {"spark.executorEnv.PYTHONPATH": whole} if path else {}
    if master.startswith("local"):
        # A local Spark listens on the loopback interface only.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        found["spark.driver.host"] = "127.0.0.1"
    return found


def _end_jvm() -> None:
    """End the JVM in any state; otherwise it would run until it notices the end of this process."""
    # PySpark has no public access to the JVM that it started.
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001
    with suppress(Exception):
        if context is not None:
            context.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        SparkContext._gateway = None  # noqa: SLF001
        SparkContext._jvm = None  # noqa: SLF001
        gateway.proc.terminate()
        try:
            gateway.proc.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()


@contextmanager
def _errors_to(file: Path | None) -> Iterator[None]:
    """Give processes that start in the block, such as the JVM, this file as standard error; None changes nothing."""
    if file is None:
        yield
        return
    ours = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(ours, 2)
            os.close(ours)


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the end of the block: a JVM would survive an interruption of its start."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _frame: came.append(number)) for number in numbers]
    try:
        yield
    finally:
        # PySpark has replaced these handlers by its own.
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
