"""What went wrong, in a line: Spark wraps an error in those of every layer it came through."""

import re
from typing import Final

from flintmq.spark.pipelines.definition import Flow

# As Python ends a traceback: the error's type, and what it says.
_RAISED: Final = re.compile(r"^(?:[\w.]+: )?(flintmq\.[\w.]+|[\w.]*(?:Error|Exception|Exit)): (\S.*)$", re.MULTILINE)
_OURS: Final = re.compile(r"\bflintmq\.[\w.]+: (\S.*)")
_PLACE_IN_SQL: Final = re.compile(r"\bline (\d+),? pos(?:ition)? \d+")
# Spark's own reports go on with the plan, and with the frames of the JVM.
_MOST: Final = 1000
# Spark's wait cannot be set.
_TOO_SLOW: Final = "Python worker failed to connect back"
_TOO_SLOW_SAID: Final = (
    "a Python process of Spark did not start within 10 s: the machine is busy. Run it again: nothing is lost, and "
    "nothing comes twice"
)


def first_line(error: BaseException) -> str:
    """The first line of what it says, without the class of the error that Spark puts before."""
    text = str(error).strip()
    return text.splitlines()[0][:_MOST] if text else type(error).__name__


def cause(error: BaseException) -> str:
    """What a user needs to know of an error that came through Spark: what FlintMQ said, else what was raised last."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()[:_MOST]
    if _TOO_SLOW in text:
        return _TOO_SLOW_SAID
    raised = _RAISED.findall(text)
    if raised:
        kind, said = raised[-1]
        return f"{kind.rpartition('.')[2]}: {said.strip()}"[:_MOST]
    return first_line(error)


def is_too_slow(error: BaseException) -> bool:
    """Whether all that is wrong is a Python process that Spark did not wait for."""
    return cause(error) == _TOO_SLOW_SAID


def line_of_sql(error: BaseException, flow: Flow) -> int:
    """The line of the file in which the SQL is wrong, or the one on which it begins."""
    place = _PLACE_IN_SQL.search(str(error))
    return flow.sql_line + (int(place[1]) - 1 if place else 0)
