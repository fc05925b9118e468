"""Numbers with what they count, as people say it."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """Such as `1 queue` and `1,200 queues`; `plural` is for nouns that take more than an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
