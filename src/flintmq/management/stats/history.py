"""The history of counts in RabbitMQ's format, if a request asks for it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

from flintmq.management.errors import BadRequest
from flintmq.management.slices import each
from flintmq.management.stats.counts import DELIVER_GET, HELD, Counts, Names, Point, read

_AGE_MAX_SECONDS: Final = 86_400
# RabbitMQ's limit for the number of increments.
_RANGE_MAX: Final = 500
# The kinds of history that a request may ask for; there is no history for data_rates and node_stats here.
KINDS: Final = ("lengths", "msg_rates", "data_rates", "node_stats")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")

Query = Mapping[str, str]


@final
class Range:
    """The range of a history: its age from the newest point, and the minimum distance of its points."""

    def __init__(self, age_s: int, increment_s: int) -> None:
        self.age_ms = age_s * 1000
        self.increment_ms = increment_s * 1000

    def picked(self, newest_first: Iterable[Point]) -> list[Point]:
        """Select the points of the range, in the same order."""
        points: list[Point] = []
        oldest_ms = due_ms = 0
        for at_ms, counts in newest_first:
            if not points:
                oldest_ms, due_ms = at_ms - self.age_ms, at_ms
            if at_ms < oldest_ms or len(points) > _RANGE_MAX:
                break
            if at_ms <= due_ms:
                points.append((at_ms, counts))
                due_ms = at_ms - self.increment_ms
        return points


def range_of(query: Query, what: str) -> Range | None:
    """The requested range for a kind of history, which is one of KINDS; None if none is requested. Raises BadRequest,
    with RabbitMQ's text, if the range is invalid or has too many points.
    """
    age_s, increment_s = _seconds(query, f"{what}_age"), _seconds(query, f"{what}_incr")
    if age_s is None or increment_s is None:
        return None
    if age_s <= 0 or increment_s <= 0 or age_s // increment_s > _RANGE_MAX:
        raise BadRequest(f"Invalid range parameters: age {age_s}, incr {increment_s}")
    return Range(min(age_s, _AGE_MAX_SECONDS), min(increment_s, _AGE_MAX_SECONDS))


def _seconds(query: Query, name: str) -> int | None:
    """A parameter of the query as a number of seconds; None if it is not a number, as in RabbitMQ."""
    text = query.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def history(points: Sequence[Point], of: Callable[[Counts], float]) -> dict[str, object]:
    """The fields that RabbitMQ's details have beside the rate: samples, their average, and the average rate."""
    samples = [{"sample": of(counts), "timestamp": at_ms} for at_ms, counts in points]
    if not samples:
        return {"samples": samples}
    newest, oldest = samples[0], samples[-1]
    ms = newest["timestamp"] - oldest["timestamp"]
    return {
        "samples": samples,
        "avg": round(sum([sample["sample"] for sample in samples]) / len(samples), 3),
        "avg_rate": round((newest["sample"] - oldest["sample"]) * 1000 / ms, 3) if ms else 0.0,
    }


async def add_histories(
    shown: dict[str, Any], names: Names, newest_first: Callable[[], list[Point]], query: Query
) -> None:
    """Add histories to the fields of one object, in slices, because ten minutes of a queue are a thousand samples."""
    spans = {what: range_of(query, what) for what in ("lengths", "msg_rates")}
    if not any(spans.values()):
        return
    points = newest_first()
    picked = {what: wanted.picked(points) for what, wanted in spans.items() if wanted is not None}

    def add(name: str) -> None:
        place, what = (shown, "lengths") if name in HELD else (shown.get("message_stats", {}), "msg_rates")
        details = place.get(f"{name}_details")
        if details is not None and what in picked:
            details |= history(picked[what], read(names, name))

    await each((*names, DELIVER_GET), add)
