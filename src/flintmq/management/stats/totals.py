"""What passes through a virtual host or the node, and what it holds: rates, and their course where it is asked for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from flintmq.management.stats import counts
from flintmq.management.stats.sampling import COURSE
from flintmq.management.stats.series import Series, course

_GIVEN: Final = "deliver_get"
_PARTS_OF_GIVEN: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")
_PASSED: Final = (*counts.VHOST, _GIVEN)
_AGE_MAX_SECONDS: Final = 86_400

Query = Mapping[str, str]


def message_stats(series: Sequence[Series], query: Query) -> dict[str, object]:
    return _shown(series, _PASSED, query, "msg_rates")


def queue_totals(series: Sequence[Series], query: Query) -> dict[str, object]:
    return _shown(series, counts.HELD, query, "lengths")


def _shown(series: Sequence[Series], names: Sequence[str], query: Query, what: str) -> dict[str, object]:
    """The sums of several; the course of one only, for each has its own times."""
    series = [each for each in series if each.latest]
    age, increment = _seconds(query, f"{what}_age"), _seconds(query, f"{what}_incr")
    shown: dict[str, object] = {}
    for name in names:
        of = _sum_of(name)
        shown[name] = sum([of(each.latest) for each in series])
        rate = round(sum([of(each.rates) for each in series]), 3)
        details: dict[str, object] = {"rate": rate}
        if len(series) == 1:
            details = course(series[0], of, rate, age, increment)
        shown[f"{name}_details"] = details
    return shown


def _sum_of(name: str) -> Callable[[Sequence[float]], float]:
    places = [COURSE.index(part) for part in (_PARTS_OF_GIVEN if name == _GIVEN else (name,))]

    def of(values: Sequence[float]) -> float:
        return sum([values[place] for place in places])

    return of


def _seconds(query: Query, name: str) -> int:
    """What is no number is as good as nothing (as in RabbitMQ)."""
    text = query.get(name, "")
    return min(int(text), _AGE_MAX_SECONDS) if text.isascii() and text.isdigit() and len(text) < 10 else 0
