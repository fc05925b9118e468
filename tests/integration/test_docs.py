"""What the pages for Python developers show works, and prints what they say."""

import re
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from flintmq.embedded import Broker
from flintmq.spark.options import NAMES, Use
from tests.docs_pages import DOCS, follow, side_by_side

TUTORIALS = sorted(
    f"tutorials/{page.name}"
    for page in DOCS.glob("tutorials/*.md")
    if page.stem not in ("spark-pipeline", "three-nodes")
)
PAGES = ["embedded.md", "testing.md", *TUTORIALS]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[int]]]:
    """How many blocks of each page ran."""
    directories = {name: tmp_path_factory.mktemp("page") for name in PAGES}

    def run(name: str) -> int:
        with Broker() as broker:
            return follow(DOCS / name, broker.url, directories[name])

    with side_by_side(run, PAGES) as found:
        yield found


@pytest.mark.parametrize("name", PAGES)
def test_a_page_works(followed: dict[str, Future[int]], name: str) -> None:
    """Whoever does what the page says, in its order, sees what it shows."""
    assert followed[name].result() >= 3


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
