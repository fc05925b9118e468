"""The audit log: administrative acts among the other log lines, and in a file of their own where one is named."""

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
    """A line of JSON for each act is appended to `file`. Raises ConfigurationError where that cannot be opened."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = None if file is None else _opened(file)

    def reopen(self, file: Path | None) -> Callable[[], None]:
        """Open a file, perhaps the same one again where it was moved away; what is returned makes it the one in use.

        Raises ConfigurationError.
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
                # The act is done, and in the other log.
                log.warning("the audit file takes nothing", reason=error.strerror)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _opened(file: Path) -> TextIO:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"log.audit_file: cannot write {file}: {error.strerror}") from error
    # Line by line: what happened last before a crash matters most.
    return os.fdopen(descriptor, "a", buffering=1, encoding="utf-8")
