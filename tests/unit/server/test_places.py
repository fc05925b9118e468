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


def test_a_user_of_many_places_pushes_out_no_others() -> None:
    """Who logs in from more addresses than are kept loses the oldest of these, also after a restart."""
    kept: list[bytes] = []
    places = Places(_SECRET, keep=kept.append)
    places.seen("modest", "10.0.0.1")
    places.seen("modest", "10.0.0.2")
    for number in range(1_500):
        places.seen("greedy", f"10.1.{number // 250}.{number % 250}")
    places = Places(_SECRET, kept[-1], kept.append)
    for number in range(1_500):
        places.seen("greedier", f"10.2.{number // 250}.{number % 250}")
    assert len(kept[-1]) == 8 * 1_024
    for address in ("10.0.0.1", "10.0.0.2"):
        assert places.of("modest", address) != address
    held = [
        sum(places.of(name, f"{net}.{n // 250}.{n % 250}") != f"{net}.{n // 250}.{n % 250}" for n in range(1_500))
        for name, net in (("greedy", "10.1"), ("greedier", "10.2"))
    ]
    assert sum(held) == 1_022
    assert min(held) >= 510
