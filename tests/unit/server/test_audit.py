import json
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.gateway.audit import AuditEvent
from flintmq.server.audit import AuditLog

ACT = AuditEvent("u", "10.0.0.1:5", "amqp 0-9-1", "/", "queue.delete", "queue 'q\n'", "access refused")


def test_acts_are_appended(tmp_path: Path) -> None:
    """A line of JSON per act, after those that were there, for the owner alone to read."""
    file = tmp_path / "audit.log"
    for _ in range(2):
        audit = AuditLog(file)
        audit.record(ACT)
        audit.close()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 2
    assert lines[1].pop("time").endswith("+00:00")
    assert lines[1] == {
        "user": "u",
        "peer": "10.0.0.1:5",
        "interface": "amqp 0-9-1",
        "vhost": "/",
        "act": "queue.delete",
        "name": "queue 'q\n'",
        "result": "access refused",
    }
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_was_given_is_told(tmp_path: Path) -> None:
    """Who gave which rights matters; acts that give none have no such field."""
    file = tmp_path / "audit.log"
    audit = AuditLog(file)
    audit.record(replace(ACT, given="tags: administrator"))
    audit.close()
    assert json.loads(file.read_text())["given"] == "tags: administrator"


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The setting is named."""
    with pytest.raises(ConfigurationError, match="log.audit_file: cannot write"):
        AuditLog(tmp_path / "missing" / "audit.log")


def test_the_file_is_opened_anew(tmp_path: Path) -> None:
    """One that was moved away, to be rotated, is left alone from then on."""
    file, moved = tmp_path / "audit.log", tmp_path / "audit.log.1"
    audit = AuditLog(file)
    audit.record(ACT)
    file.rename(moved)
    audit.reopen(file)()
    audit.record(ACT)
    audit.record(ACT)
    audit.close()
    assert len(moved.read_text().splitlines()) == 1
    assert len(file.read_text().splitlines()) == 2
