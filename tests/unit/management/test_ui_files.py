"""The files of the web interface: nothing is fetched from elsewhere, nothing is built, and no text becomes markup."""

import hashlib
import re
from pathlib import Path
from typing import Final

import pytest

import flintmq.management

UI: Final = Path(flintmq.management.__file__).parent / "ui"
VENDOR: Final = UI / "vendor"
OURS: Final = sorted(
    path for path in UI.rglob("*") if path.suffix in {".js", ".css", ".html", ".svg"} and VENDOR not in path.parents
)
_IMPORT: Final = re.compile(r"""(?:from|import)\s+"([^"]+)";""")
_REFERENCE: Final = re.compile(r"""(?:href|src)="([^"$#]+)\"""")
_ROW: Final = re.compile(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)
# What would make markup or code of text, or ask another machine for something.
_FORBIDDEN: Final = (
    *(
        "innerHTML",
        "dangerouslySetInnerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "srcdoc",
        "eval(",
        "new Function",
    ),
    *("document.cookie", "//cdn", "https://", "javascript:"),
)


def _named(path: Path) -> str:
    return str(path.relative_to(UI))


def test_vendored_libraries_are_those_of_the_table() -> None:
    """Each file of others has the checksum that vendor/README.md says, and each of its rows has a file."""
    rows = dict(_ROW.findall((VENDOR / "README.md").read_text()))
    files = {path.name for path in VENDOR.iterdir() if path.suffix in {".js", ".css"}}
    assert files == set(rows)
    for name, checksum in rows.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == checksum, name


@pytest.mark.parametrize("path", OURS, ids=_named)
def test_references_lead_to_files_of_the_package(path: Path) -> None:
    """Every import and reference of a file is in the package, so that no internet access is needed."""
    text = path.read_text()
    found = _IMPORT.findall(text) if path.suffix == ".js" else _REFERENCE.findall(text)
    for reference in found:
        assert (path.parent / reference).is_file(), reference


@pytest.mark.parametrize("path", OURS, ids=_named)
def test_text_never_becomes_markup_or_code(path: Path) -> None:
    """No file uses what makes markup or code of text, sets a cookie, or asks another machine."""
    text = path.read_text()
    for word in _FORBIDDEN:
        assert word not in text, word


def test_the_page_has_nothing_inline() -> None:
    """The first page has neither scripts nor styles in itself: the content security policy would refuse them."""
    page = (UI / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
