"""Pauses before a message that came back is delivered again, which grow with how often it did (x-delayed-retry-...).

RabbitMQ 4.3's arguments. The n-th pause is n times the least one; with a multiplier, which LavinMQ has, it is the least
one times the multiplier, n - 1 times over. None is longer than the greatest.
"""

from typing import Final

from mypy_extensions import i64

from flintmq.base.limits import DELAY_MAX_MS
from flintmq.broker.queue.settings import QueueSettings

# The least pause where none is given.
_MIN_MS: Final = 1_000


def pause_ms(settings: QueueSettings, returns: i64) -> i64:
    """The pause after so many returns, the last one included."""
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
