"""A session of Spark, as far as it needs no Spark."""

import logging

import pytest

from flintmq.spark.pipelines.session import py4j_silenced


def test_what_the_gateway_logs(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """What is told as an error of a flow is not shown with its stack as well, and other logs are as they were."""

    def log() -> None:
        for name in ("py4j.java_gateway", "other"):
            logging.getLogger(name).error("failed")

    with py4j_silenced():
        log()
    assert [record.name for record in caplog.records] == ["other"]
    log()
    assert [record.name for record in caplog.records] == ["other", "py4j.java_gateway", "other"]
    assert capsys.readouterr().err == ""
