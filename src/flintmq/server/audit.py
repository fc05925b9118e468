"""The audit log: administrative acts, in the general log and, if one is set, in a file of their own."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO, final

from flintmq.base.errors import ConfigurationError
from flintmq.gateway.audit import AuditEvent
from flintmq.server import logs

log = logs.get_logger()


@final
class AuditLog:
    """Appends a line of JSON to `file` for each act. Raises ConfigurationError if the file cannot be opened."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = None if file is None else _opened(file)

    def reopen(self, file: Path | None) -> Callable[[], None]:
        """Open a file, or the same one again if it was rotated, and return a function that begins to use it.

        Raises ConfigurationError if the file cannot be opened.
        """
        opened = None if file is None else _opened(file)

        def use() -> None:
            self.close()
            self._file = opened

        return use

    def record(self, event: AuditEvent) -> None:
        facts = {
            "user": event.user,
            "peer": event.peer,
            "interface": event.interface,
            "vhost": event.vhost,
            "act": event.action,
        }
        facts |= {"name": event.name, "result": event.refusal or "done"}
        if event.given:
            facts["given"] = event.given
        log.info("audit", **facts)
        if self._file is not None:
            line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts})
            try:
                self._file.write(line + "\n")
            except OSError as error:
                # The act is done, and the general log has it.
                log.warning("the audit file takes nothing", reason=error.strerror)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _opened(file: Path) -> TextIO:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"log.audit_file: cannot write {file}: {error.strerror}") from error
    # Buffered by line, because the last acts before a crash matter most.
    return os.fdopen(descriptor, "a", buffering=1, encoding="utf-8")
