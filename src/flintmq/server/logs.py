"""Log lines: an event and its facts, for people or as JSON; inside another program, records of its `logging`."""

import logging
import sys
from typing import Any, Final, cast, final

import structlog

from flintmq.server.config import LogSettings

# Without the values of variables: these are what peers sent, passwords included.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)

# The processors of structlog between a module and `logging`.
_FRAMES: Final = 4


def get_logger() -> structlog.typing.FilteringBoundLogger:
    """Return the logger of a module. Until `configure`, its lines go to the logger "flintmq" of `logging`."""
    return cast(structlog.typing.FilteringBoundLogger, _Voice())


def configure(settings: LogSettings) -> None:
    """For a process that is a broker and nothing else.

    Lines go to standard error: standard output is for what a command was asked to print.
    """
    global _speaker  # noqa: PLW0603 - a process says where it logs to, once
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
    # Bound: without that, each line would make a logger first, also one that nobody wants to see.
    _speaker = structlog.get_logger().bind()  # noqa: TID251 - it was configured just now


def _printable(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Peers choose their user names, among others: no line may look like two, or drive a terminal."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = ascii(value)
    return event


def _as_record(_logger: object, _method: str, event: structlog.typing.EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """The arguments for `logging`: one line, the traceback there may be, and who says it."""
    text = str(event.pop("event"))
    facts: dict[str, Any] = {"stacklevel": _FRAMES}
    if "exc_info" in event:
        facts["exc_info"] = event.pop("exc_info")
    return (" ".join((text, *(f"{name}={value!r}" for name, value in event.items()))),), facts


def _library_logger() -> structlog.stdlib.BoundLogger:
    """Quiet until the program sets up its logging, as libraries are."""
    logger = logging.getLogger("flintmq")
    logger.addHandler(logging.NullHandler())
    wrapped = structlog.wrap_logger(
        logger,
        processors=[structlog.stdlib.filter_by_level, _printable, _as_record],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return cast(structlog.stdlib.BoundLogger, wrapped)


@final
class _Voice:
    """Modules have theirs before anybody said where lines go."""

    def __getattr__(self, name: str) -> object:
        return getattr(_speaker, name)


_speaker: Any = _library_logger()
