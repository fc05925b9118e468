"""Disks small enough to be filled, for tests that may mount them."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted_tmpfs(directory: Path, options: str) -> Iterator[None]:
    """A file system in memory on that directory; skips the test where it may not be mounted."""
    mount = shutil.which("mount")
    if mount is None:
        pytest.skip("there is no mount command")
    done = _run(mount, "-t", "tmpfs", "-o", options, "tmpfs", str(directory))
    if done.returncode != 0:
        pytest.skip(f"a small disk can be mounted by root alone: {done.stderr.strip()}")
    try:
        yield
    finally:
        # Lazily: a process that is about to end may still have files open.
        _run("umount", "--lazy", str(directory))


def enlarge(directory: Path, size: str) -> None:
    """Make room, as an operator would."""
    done = _run("mount", "-o", f"remount,size={size}", str(directory))
    assert done.returncode == 0, done.stderr


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - words of this file
