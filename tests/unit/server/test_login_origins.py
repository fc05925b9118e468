"""Where users have logged in from: which of them are remembered."""

from flintmq.server.login_origins import LoginOrigins

_SECRET = b"s" * 32


def test_origins_in_use_are_remembered() -> None:
    """Where there are too many, the one that was used longest ago is forgotten, and not one that was used since."""
    kept = b""

    def keep(origins: bytes) -> None:
        nonlocal kept
        kept = origins

    origins = LoginOrigins(_SECRET, b"", keep)
    origins.seen("first", "10.0.0.1")
    for number in range(1_023):
        origins.seen(f"user {number}", "10.0.0.2")
    origins.seen("first", "10.0.0.1")
    origins.seen("last", "10.0.0.3")
    for these in (origins, LoginOrigins(_SECRET, kept)):
        assert these.of("first", "10.0.0.1") != "10.0.0.1"
        assert these.of("last", "10.0.0.3") != "10.0.0.3"
        assert these.of("user 0", "10.0.0.2") == "10.0.0.2"
        assert these.of("user 1", "10.0.0.2") != "10.0.0.2"


def test_a_user_of_many_origins_pushes_out_no_others() -> None:
    """Who logs in from more addresses than are kept loses the oldest of these, also after a restart."""
    kept: list[bytes] = []
    origins = LoginOrigins(_SECRET, keep=kept.append)
    origins.seen("modest", "10.0.0.1")
    origins.seen("modest", "10.0.0.2")
    for number in range(1_500):
        origins.seen("greedy", f"10.1.{number // 250}.{number % 250}")
    origins = LoginOrigins(_SECRET, kept[-1], kept.append)
    for number in range(1_500):
        origins.seen("greedier", f"10.2.{number // 250}.{number % 250}")
    assert len(kept[-1]) == 8 * 1_024
    for address in ("10.0.0.1", "10.0.0.2"):
        assert origins.of("modest", address) != address
    held = [
        sum(origins.of(name, f"{net}.{n // 250}.{n % 250}") != f"{net}.{n // 250}.{n % 250}" for n in range(1_500))
        for name, net in (("greedy", "10.1"), ("greedier", "10.2"))
    ]
    assert sum(held) == 1_022
    assert min(held) >= 510
