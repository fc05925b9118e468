"""docs/queues.md has every argument that queues understand, with its policy key where there is one."""

import re
from pathlib import Path

from flintmq.broker import policy
from flintmq.broker.arguments import QUEUE_COMPARED

_PAGE = Path(__file__).parents[4] / "docs" / "queues.md"
# Of streams alone, and named beside the table.
_BESIDE = {"x-max-age"}


def rows() -> dict[str, str]:
    """The policy column by argument."""
    found = {}
    for line in _PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and re.fullmatch(r"`x-[a-z-]+`", cells[1]):
            found[cells[1].strip("`")] = cells[3]
    return found


def test_every_argument_is_there() -> None:
    """Those that declarations are compared by, and x-paused, which they are not."""
    assert rows().keys() == {*QUEUE_COMPARED, "x-paused"} - _BESIDE


def test_policy_keys_are_those_there_are() -> None:
    """`none` says that no policy has it."""
    for argument, cell in rows().items():
        key = argument.removeprefix("x-")
        assert cell == (f"`{key}`" if key in policy._KEYS else "none")
