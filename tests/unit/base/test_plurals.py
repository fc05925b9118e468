import pytest

from flintmq.base.plurals import counted


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 batches"), (1, "1 batch"), (2, "2 batches"), (1_200_000, "1,200,000 batches")]
)
def test_counted(count: int, words: str) -> None:
    """One thing is one; none are many, and so are a million."""
    assert counted(count, "batch", "batches") == words
    assert counted(1, "file") == "1 file"
    assert counted(2, "file") == "2 files"
