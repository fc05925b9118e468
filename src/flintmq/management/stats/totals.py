"""Totals of virtual hosts or of the node: counts and rates of messages, and their history if it is requested."""

from collections.abc import Sequence
from typing import Final

from flintmq.management.stats import counts
from flintmq.management.stats.counts import read
from flintmq.management.stats.history import Query, history, range_of
from flintmq.management.stats.sampler import HISTORY
from flintmq.management.stats.series import Series

_PASSED: Final = (*counts.VHOST, counts.DELIVER_GET)


def message_stats(series: Sequence[Series], query: Query) -> dict[str, object]:
    return _shown(series, _PASSED, query, "msg_rates")


def queue_totals(series: Sequence[Series], query: Query) -> dict[str, object]:
    return _shown(series, counts.HELD, query, "lengths")


def _shown(series: Sequence[Series], names: Sequence[str], query: Query, what: str) -> dict[str, object]:
    """The sums of several series. A history is given for a single series only, because each has its own times."""
    series = [each for each in series if each.latest]
    wanted = range_of(query, what) if len(series) == 1 else None
    points = [] if wanted is None else wanted.picked(series[0].newest_first(wanted))
    shown: dict[str, object] = {}
    for name in names:
        of = read(HISTORY, name)
        shown[name] = sum([of(each.latest) for each in series])
        details: dict[str, object] = {"rate": round(sum([of(each.rates) for each in series]), 3)}
        if wanted is not None:
            details |= history(points, of)
        shown[f"{name}_details"] = details
    return shown
