"""The cause of an error of Spark in one line: Spark wraps it in the errors of all layers."""

import re
from typing import Final

from flintmq.spark.pipelines.definition import Flow

# The last line of a traceback of Python: the type and the text of the error.
_RAISED: Final = re.compile(r"^(?:[\w.]+: )?(flintmq\.[\w.]+|[\w.]*(?:Error|Exception|Exit)): (\S.*)$", re.MULTILINE)
_OURS: Final = re.compile(r"\bflintmq\.[\w.]+: (\S.*)")
_PLACE_IN_SQL: Final = re.compile(r"\bline (\d+),? pos(?:ition)? \d+")
# The most characters of an error, because Spark appends the plan and the stack of the JVM.
_CHARACTERS_MAX: Final = 1000
# Spark's error if a Python process starts too slowly; its timeout cannot be set.
_TOO_SLOW: Final = "Python worker failed to connect back"
_TOO_SLOW_ADVICE: Final = (
    "a Python process of Spark did not start within 10 s: the machine is busy. Run it again: nothing is lost, and "
    "nothing comes twice"
)


def first_line(error: BaseException) -> str:
    """The first line of the error's text, or its type if it has none."""
    text = str(error).strip()
    return text.splitlines()[0][:_CHARACTERS_MAX] if text else type(error).__name__


def cause(error: BaseException) -> str:
    """The cause of an error that came through Spark: the error of FlintMQ, or else the last error of Python."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()[:_CHARACTERS_MAX]
    if _TOO_SLOW in text:
        return _TOO_SLOW_ADVICE
    raised = _RAISED.findall(text)
    if raised:
        kind, said = raised[-1]
        return f"{kind.rpartition('.')[2]}: {said.strip()}"[:_CHARACTERS_MAX]
    return first_line(error)


def is_too_slow(error: BaseException) -> bool:
    """Whether the cause is only a Python process that started too slowly."""
    return cause(error) == _TOO_SLOW_ADVICE


def line_of_sql(error: BaseException, flow: Flow) -> int:
    """The line of the pipeline's file that has the error in its SQL, or the first line of the SQL."""
    place = _PLACE_IN_SQL.search(str(error))
    return flow.sql_line + (int(place[1]) - 1 if place else 0)
