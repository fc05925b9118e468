"""Log lines hold what peers chose, and stay lines."""

import json

import pytest
import structlog

from flintmq.server import logs
from flintmq.server.config import LogSettings


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[31mred", "\u202eright to left"])
def test_control_characters_are_escaped(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A user name with line ends or terminal codes is one harmless line."""
    logs.configure(LogSettings())
    structlog.get_logger().warning("login refused", user=text)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """With the format json every line is an object with time, level, event and facts."""
    logs.configure(LogSettings(format="json"))
    structlog.get_logger().info("connection opened", peer="127.0.0.1:1", user="a")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"], line["peer"]) == ("connection opened", "info", "127.0.0.1:1")
    assert "timestamp" in line


def test_level_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """What is below the level is not written."""
    logs.configure(LogSettings(level="warning"))
    structlog.get_logger().info("quiet")
    assert capsys.readouterr().err == ""
