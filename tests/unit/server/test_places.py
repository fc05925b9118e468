"""Where users have logged in from: which of them are remembered."""

from flintmq.server.places import Places

_SECRET = b"s" * 32


def test_places_in_use_are_remembered() -> None:
    """Where there are too many, the one that was used longest ago is forgotten, and not one that was used since."""
    kept = b""

    def keep(places: bytes) -> None:
        nonlocal kept
        kept = places

    places = Places(_SECRET, b"", keep)
    places.seen("first", "10.0.0.1")
    for number in range(1_023):
        places.seen(f"user {number}", "10.0.0.2")
    places.seen("first", "10.0.0.1")
    places.seen("last", "10.0.0.3")
    for these in (places, Places(_SECRET, kept)):
        assert these.of("first", "10.0.0.1") != "10.0.0.1"
        assert these.of("last", "10.0.0.3") != "10.0.0.3"
        assert these.of("user 0", "10.0.0.2") == "10.0.0.2"
        assert these.of("user 1", "10.0.0.2") != "10.0.0.2"
