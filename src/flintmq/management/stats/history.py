"""What counts were over time, in the shape and under the names of RabbitMQ, where a request asks for it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

from flintmq.management.errors import BadRequest
from flintmq.management.slices import each
from flintmq.management.stats.counts import DELIVER_GET, HELD, Counts, Names, Point, read

_AGE_MAX_SECONDS: Final = 86_400
# RabbitMQ's: increments that a course may have.
_RANGE_MAX: Final = 500
# What a request may ask the course of; of data_rates and node_stats there is none here.
KINDS: Final = ("lengths", "msg_rates", "data_rates", "node_stats")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")

Query = Mapping[str, str]


@final
class Range:
    """How far back a course goes from its newest point, and how far apart its points are at least."""

    def __init__(self, age_s: int, increment_s: int) -> None:
        self.age_ms = age_s * 1000
        self.increment_ms = increment_s * 1000

    def picked(self, newest_first: Iterable[Point]) -> list[Point]:
        """In the same order."""
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
    """None where no course is asked for: `what` is one of KINDS. Raises BadRequest, in RabbitMQ's words, for one that
    is none, or of more points than anybody looks at.
    """
    age_s, increment_s = _seconds(query, f"{what}_age"), _seconds(query, f"{what}_incr")
    if age_s is None or increment_s is None:
        return None
    if age_s <= 0 or increment_s <= 0 or age_s // increment_s > _RANGE_MAX:
        raise BadRequest(f"Invalid range parameters: age {age_s}, incr {increment_s}")
    return Range(min(age_s, _AGE_MAX_SECONDS), min(increment_s, _AGE_MAX_SECONDS))


def _seconds(query: Query, name: str) -> int | None:
    """What is no number is as good as nothing (as in RabbitMQ)."""
    text = query.get(name, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def history(points: Sequence[Point], of: Callable[[Counts], float]) -> dict[str, object]:
    """What RabbitMQ's details have besides the rate: samples and what they are on average."""
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
    """Adds them to what is shown of one object; in slices, for ten minutes of a queue are a thousand samples."""
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
