"""Pauses before a returned message is delivered again (queue arguments x-delayed-retry-... of RabbitMQ 4.3).

The n-th pause is n times the minimum. With a multiplier, as in LavinMQ, it is the minimum times the multiplier to the
power of n - 1. No pause is longer than the maximum.
"""

from typing import Final

from mypy_extensions import i64

from flintmq.base.limits import DELAY_MAX_MS
from flintmq.broker.queue.settings import QueueSettings

# The default of the minimum.
_MIN_MS: Final = 1_000


def pause_ms(settings: QueueSettings, returns: i64) -> i64:
    """The pause in milliseconds after `returns` returns, including the last one."""
    least: i64 = settings.retry_min_ms
    if least < 0:
        least = _MIN_MS
    greatest: i64 = settings.retry_max_ms
    if greatest < 0:
        greatest = DELAY_MAX_MS
    multiplier: i64 = settings.retry_multiplier
    if multiplier < 0:
        return greatest if least > greatest // returns else least * returns
    pause = least
    done: i64 = 1
    while done < returns and 0 < pause < greatest and multiplier > 1:
        pause *= multiplier
        done += 1
    return min(pause, greatest)
