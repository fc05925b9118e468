"""Log lines: an event and its facts, for people or as JSON."""

import logging
import sys
from typing import Final

import structlog

from flintmq.server.config import LogSettings

# Without the values of variables: these are what peers sent, passwords included.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure(settings: LogSettings) -> None:
    """Lines go to standard error: standard output is for what a command was asked to print."""
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


def _printable(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Peers choose their user names, among others: no line may look like two, or drive a terminal."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = ascii(value)
    return event
