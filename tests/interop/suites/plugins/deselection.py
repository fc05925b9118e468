"""A pytest plugin for the other projects' environments: leaves out what is listed, and says where the list is wrong.

It imports nothing of this project, whose code is not there.
"""

import json
import os
import re
from pathlib import Path

import pytest

# A file with the patterns of what is left out; with ONLY set, nothing but these runs.
PATTERNS = "INTEROP_DESELECTED"
ONLY = "INTEROP_ONLY_DESELECTED"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    patterns = json.loads(Path(os.environ[PATTERNS]).read_text())
    expressions = [(pattern, _expression(pattern)) for pattern in patterns]
    stale = [text for text, expression in expressions if not any(expression.fullmatch(item.nodeid) for item in items)]
    # Someone who names tests runs a part, in which some patterns find nothing.
    if stale and not config.option.keyword:
        raise pytest.UsageError(f"deselected, but there are no such tests: {', '.join(stale)}")
    listed = [item for item in items if any(expression.fullmatch(item.nodeid) for _, expression in expressions)]
    others = [item for item in items if item not in listed]
    items[:], left_out = (listed, others) if ONLY in os.environ else (others, listed)
    config.hook.pytest_deselected(items=left_out)


def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))
