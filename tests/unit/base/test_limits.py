"""Limits are promises: each is in the documentation."""

from pathlib import Path

from flintmq.base import limits

DOCUMENT = Path(__file__).parents[3] / "docs/limits.md"


def test_every_limit_is_documented() -> None:
    """docs/limits.md names each limit there is, and none that is not."""
    text = DOCUMENT.read_text(encoding="utf-8")
    words = {word.strip("`,.;:()") for word in text.split() if "`" in word}
    named = {word for word in words if word.isupper() and "_" in word}
    there = {name for name in vars(limits) if name.isupper()}
    assert named == there
