"""Says which build is tested, and refuses to test the other one by accident."""

import importlib
import os
from pathlib import Path

import pytest

import flintmq

# One module of each compiled package: a build that left one out is not the build we mean.
_HOT_MODULES = ("flintmq.base.limits", "flintmq.broker.message")


def pytest_configure() -> None:
    expected = os.environ.get("FLINTMQ_EXPECT")
    if expected is None:
        return
    suffix = {"compiled": ".so", "interpreted": ".py"}[expected]
    for name in _HOT_MODULES:
        file = importlib.import_module(name).__file__ or ""
        if not file.endswith(suffix):
            raise pytest.UsageError(f"FLINTMQ_EXPECT={expected}, but {name} is {file}")
    source = Path(__file__).parents[1] / "src"
    if flintmq.compiled == Path(flintmq.__file__).is_relative_to(source):
        raise pytest.UsageError(f"FLINTMQ_EXPECT={expected}, but flintmq is {flintmq.__file__}")


def pytest_report_header() -> str:
    build = "compiled" if flintmq.compiled else "interpreted"
    return f"flintmq: {build}, from {Path(flintmq.__file__).parent}"
