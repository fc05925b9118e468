"""Log lines with an event and its facts, as text or JSON; inside another program, records of its `logging`."""

import logging
import sys
from collections.abc import Callable
from typing import Any, Final, cast, final

import structlog

from flintmq.server.config import LogSettings

# Tracebacks do not show the values of variables, because these include passwords that peers sent.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)

# The processors of structlog between a module and `logging`.
_FRAMES: Final = 4


def get_logger() -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a module. Until `configure`, its lines go to the logger "flintmq" of `logging`."""
    return cast(structlog.typing.FilteringBoundLogger, _LazyLogger())


def configure(settings: LogSettings) -> None:
    """Set up logging for a process that is only a broker.

    Lines go to standard error, because standard output is for the result of a command.
    """
    global _logger  # noqa: PLW0603 - a process sets up its log once
    renderer: structlog.typing.Processor
    if settings.format == "json":
        renderer = structlog.processors.JSONRenderer()
        exceptions: list[structlog.typing.Processor] = [_TRACEBACKS]
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), pad_event_to=24, exception_formatter=structlog.dev.plain_traceback
        )
        exceptions = []
    structlog.configure(
        processors=[
            _printable,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            *exceptions,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, settings.level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # The logger is bound: otherwise each line would first create a logger, also a line below the log level.
    _logger = structlog.get_logger().bind()  # noqa: TID251 - structlog has just been configured


def send_to(level: str, send: Callable[[structlog.typing.EventDict], None]) -> None:
    """Set up logging for a process that has no log of its own: `send` takes each line, with its `level`."""
    global _logger  # noqa: PLW0603 - a process sets up its log once

    def pass_on(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        send(event)
        raise structlog.DropEvent

    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.format_exc_info, pass_on],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
    )
    _logger = structlog.get_logger().bind()  # noqa: TID251 - structlog has just been configured


def _printable(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape control characters: peers choose values such as user names, and must not forge lines."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = ascii(value)
    return event


def _as_record(_logger: object, _method: str, event: structlog.typing.EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """Return the arguments for `logging`: the line, the traceback, if any, and the caller."""
    text = str(event.pop("event"))
    facts: dict[str, Any] = {"stacklevel": _FRAMES}
    if "exc_info" in event:
        facts["exc_info"] = event.pop("exc_info")
    return (" ".join((text, *(f"{name}={value!r}" for name, value in event.items()))),), facts


def _library_logger() -> structlog.stdlib.BoundLogger:
    """Return the logger "flintmq", which is silent until the program sets up its logging, like those of libraries."""
    logger = logging.getLogger("flintmq")
    logger.addHandler(logging.NullHandler())
    wrapped = structlog.wrap_logger(
        logger,
        processors=[structlog.stdlib.filter_by_level, _printable, _as_record],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return cast(structlog.stdlib.BoundLogger, wrapped)


@final
class _LazyLogger:
    """The logger of a module, which is created before logging is set up."""

    def __getattr__(self, name: str) -> object:
        return getattr(_logger, name)


_logger: Any = _library_logger()
