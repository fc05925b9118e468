"""Log lines hold what peers chose, and stay lines."""

import json
import logging

import pytest

from flintmq.server import logs
from flintmq.server.config import LogSettings


@pytest.fixture(autouse=True)
def _speaks_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test configures writes to a stream that is closed after it."""
    monkeypatch.setattr(logs, "_logger", logs._logger)


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[31mred", "\u202eright to left"])
def test_control_characters_are_escaped(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A user name with line ends or terminal codes is one harmless line."""
    logs.configure(LogSettings())
    logs.get_logger().warning("login refused", user=text)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """With the format json every line is an object with time, level, event and facts."""
    logs.configure(LogSettings(format="json"))
    logs.get_logger().info("connection opened", peer="127.0.0.1:1", user="a")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"], line["peer"]) == ("connection opened", "info", "127.0.0.1:1")
    assert "timestamp" in line


def test_level_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """What is below the level is not written."""
    logs.configure(LogSettings(level="warning"))
    logs.get_logger().info("quiet")
    assert capsys.readouterr().err == ""


def test_in_another_program(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anybody configures them, lines are records of the logger "flintmq", tracebacks included, and harmless."""
    monkeypatch.setattr(logs, "_logger", logs._library_logger())
    caplog.set_level(logging.INFO, "flintmq")
    log = logs.get_logger()
    log.debug("quiet")
    log.info("connection opened 100 %s", user="two\nlines")
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("internal error")
    opened, failed = caplog.records
    assert (opened.levelname, opened.getMessage()) == ("INFO", "connection opened 100 %s user=\"'two\\\\nlines'\"")
    assert opened.filename == "test_logs.py"
    assert failed.exc_info is not None
    assert failed.exc_info[0] is ValueError
    assert capsys.readouterr().out == ""
