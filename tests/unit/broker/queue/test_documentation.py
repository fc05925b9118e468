"""The pages about queues and streams have every argument, with its policy key where there is one."""

import re
from pathlib import Path

from flintmq.broker.arguments import QUEUE_COMPARED
from flintmq.broker.policy import policies as policy

_DOCS = Path(__file__).parents[4] / "docs"
# Not compared by, and of streams alone.
_BESIDE = {"x-stream-filter-size-bytes"}


def rows() -> dict[str, str]:
    """The policy column by argument, of all queues and of streams."""
    found = {}
    for line in [line for page in ("streams.md", "queues.md") for line in (_DOCS / page).read_text().splitlines()]:
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and re.fullmatch(r"`x-[a-z-]+`", cells[1]):
            found[cells[1].strip("`")] = cells[3]
    return found


def test_every_argument_is_there() -> None:
    """Those that declarations are compared by, and the others, which they are not."""
    assert rows().keys() == {*QUEUE_COMPARED, "x-paused", "x-lifetime-policy"} | _BESIDE


def test_policy_keys_are_those_there_are() -> None:
    """`none` says that no policy has it."""
    for argument, cell in rows().items():
        key = argument.removeprefix("x-")
        assert cell == (f"`{key}`" if key in policy._KEYS else "none")
