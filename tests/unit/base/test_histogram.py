from flintmq.base.histogram import BOUNDS_SECONDS, Histogram


def test_what_took_long_is_counted_by_how_long() -> None:
    """A bound belongs to what is below it; what is above all of them has a place of its own."""
    histogram = Histogram()
    for seconds in (0.0, BOUNDS_SECONDS[0], 0.000_11, 5.0, 60.0):
        histogram.observe(seconds)
    counted = {place: count for place, count in enumerate(histogram.counts) if count}
    assert counted == {0: 2, 1: 1, len(BOUNDS_SECONDS) - 1: 1, len(BOUNDS_SECONDS): 1}
    assert round(histogram.total_seconds, 5) == 65.00021
