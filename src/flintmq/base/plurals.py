"""Counts with a noun in the singular or plural, for texts that people read."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: `1 queue`, `1,200 queues`. `plural` is for nouns whose plural is not formed with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
