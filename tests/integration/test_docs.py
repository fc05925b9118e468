"""What the pages for Python developers show works, and prints what they say."""

import re
from pathlib import Path

import pytest

from flintmq.embedded import Broker
from flintmq.spark.options import NAMES, Use
from tests.docs_pages import DOCS, follow

PAGES = ["embedded.md", "testing.md", *sorted(f"tutorials/{page.name}" for page in DOCS.glob("tutorials/*.md"))]


@pytest.mark.parametrize("name", [name for name in PAGES if "spark" not in name])
def test_a_page_works(name: str, tmp_path: Path) -> None:
    """Whoever does what the page says, in its order, sees what it shows."""
    with Broker() as broker:
        assert follow(DOCS / name, broker.url, tmp_path) >= 3


def test_every_page_is_in_the_contents() -> None:
    """The front page of the site leads to each page."""
    contents = re.findall(r"^([\w/-]+)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")} - {"index"}
    assert sorted(contents) == sorted(pages)


def test_every_option_of_spark_is_in_the_reference() -> None:
    """The table has each option, and where it may be given."""
    rows = re.findall(r"^\| `(\w+)` \|(.*?)\|(.*?)\|(.*?)\|$", (DOCS / "reference/spark.md").read_text(), re.MULTILINE)
    uses = (Use.BATCH_READ, Use.STREAM_READ, Use.WRITE)
    shown = {name: {use for use, cell in zip(uses, cells, strict=True) if cell.strip()} for name, *cells in rows}
    assert shown == {name: set(where) for name, where in NAMES.items()}
