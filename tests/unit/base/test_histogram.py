from flintmq.base.histogram import BOUNDS_SECONDS, PERIOD_SECONDS, Histogram, LastMinute


def test_what_took_long_is_counted_by_how_long() -> None:
    """A bound belongs to what is below it; what is above all of them has a place of its own."""
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_SECONDS[0], 0.000_11, 5.0, 60.0):
        histogram.observe(seconds)
    counted = {place: count for place, count in enumerate(histogram.counts) if count}
    assert counted == {0: 2, 1: 1, len(BOUNDS_SECONDS) - 1: 1, len(BOUNDS_SECONDS): 1}
    assert round(histogram.total_seconds, 5) == 65.00021


def test_the_longest_is_taken_once() -> None:
    """The longest duration is that since it was last asked for."""
    histogram = Histogram()
    for seconds in (0.5, 0.7, 0.6):
        histogram.observe(seconds)
    assert histogram.take_longest() == 0.7
    assert histogram.take_longest() == 0.0


def test_quantiles_of_the_last_minute() -> None:
    """A quantile is the bound of the duration, and the longest duration if it exceeds all bounds."""
    histogram = Histogram()
    last_minute = LastMinute(histogram)
    assert last_minute.quantile_seconds(0.5) == last_minute.longest_seconds == 0.0
    for seconds in [0.000_2] * 98 + [0.003, 70.0]:
        histogram.observe(seconds)
    last_minute.note_longest(histogram.take_longest())
    assert last_minute.quantile_seconds(0.5) == 0.000_25
    assert last_minute.quantile_seconds(0.98) == 0.000_25
    assert last_minute.quantile_seconds(0.99) == 0.005
    assert last_minute.quantile_seconds(1.0) == last_minute.longest_seconds == 70.0


def test_the_last_minute_forgets() -> None:
    """After a minute, neither the counts nor the longest duration of a period are part of the last minute."""
    histogram = Histogram()
    last_minute = LastMinute(histogram)
    histogram.observe(0.7)
    last_minute.note_longest(histogram.take_longest())
    for _ in range(round(60 / PERIOD_SECONDS) - 1):
        last_minute.turn()
        assert last_minute.longest_seconds == 0.7
        assert last_minute.quantile_seconds(0.5) == 1.0
    last_minute.turn()
    assert last_minute.longest_seconds == last_minute.quantile_seconds(0.5) == 0.0
