"""Where a suite runs: its source distribution, unpacked, beside a virtual environment with what it needs."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.suites.suite import Suite

ROOT: Final = Path(__file__).parents[3] / ".interop"
# The same for all suites: a project's own pins serve its own CI, and may not go together with this Python.
PYTEST: Final = ("pytest==9.*", "pytest-timeout==2.*")


@dataclass(frozen=True)
class Place:
    """`sources` is where pytest is started, by `python`."""

    sources: Path
    python: Path


def prepare(name: str, suite: Suite, checkout: Path | None) -> Place:
    """Download and install what is not there yet."""
    pinned = f"{name}=={suite.version}"
    folder = ROOT / f"{name}-{suite.version}"
    requirements = [pinned, *PYTEST, *suite.requires]
    stamp = folder / "stamp"
    wanted = hashlib.sha256("\n".join([*requirements, sys.version]).encode()).hexdigest()
    python = folder / "venv" / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"==> Installing {pinned} and what its tests need", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        venv.create(folder / "venv", with_pip=True)
        _pip(python, "install", *requirements)
        if not suite.checkout:
            _unpack(python, name, pinned, folder)
        stamp.write_text(wanted)
    return Place(checkout or folder / "sources", python)


def _unpack(python: Path, name: str, pinned: str, folder: Path) -> None:
    _pip(python, "download", "--no-deps", "--no-binary", name, "--dest", str(folder), pinned)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (top,) = (folder / "unpacked").iterdir()
    top.rename(folder / "sources")


def _pip(python: Path, *arguments: str) -> None:
    subprocess.run(  # noqa: S603 - our own command
        [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True
    )
