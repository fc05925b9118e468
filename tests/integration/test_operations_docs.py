"""Every command in the documents is one that there is, and those of docs/operations.md work, one after the other."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import check_line, run_here
from tests.servers import BrokerProcess

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPERATIONS = ROOT / "docs" / "operations.md"
README = ROOT / "README.md"


def calls(text: str) -> Iterator[str]:
    """Lines of code that begin with `flintmq`, and what is left of pipes and comments."""
    joined = text.replace("\\\n", " ")
    for line in re.findall(r"^(?: {4})?(?:\$ )?(?:\.venv/bin/)?(flintmq .*)$", joined, re.MULTILINE):
        if "[--" in line:
            # It says what there is to choose from.
            continue
        yield re.split(r" [|#>&] ?|;", line.split(" # ")[0])[0].strip()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_in_documents_are_commands(document: Path) -> None:
    """Words, flags and arguments of each are understood."""
    for line in calls(document.read_text(encoding="utf-8")):
        try:
            check_line(line)
        except BaseException as error:
            raise AssertionError(f"{document.name}: {line}") from error


def test_the_day_to_day_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As written, in their order, on a broker that is new."""
    section = re.split(r"^## ", OPERATIONS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (day,) = [part for part in section if part.startswith("Day to day")]
    (tmp_path / "anna.password").write_text("secret\n")
    with BrokerProcess(tmp_path / "data") as broker:
        api = broker.wait_for_log("listening", matches=lambda line: "http" in line)["http"]
        monkeypatch.chdir(tmp_path)
        for line in calls(day):
            ran = run_here(
                *shlex.split(line)[1:],
                FLINTMQ_URL=broker.url,
                FLINTMQ_API=api.replace("http://", "http://guest:guest@"),
            )
            assert ran.returncode == 0, f"{line}\n{ran.stderr}"
            assert "Traceback" not in ran.stderr


def test_the_quick_start_works(tmp_path: Path) -> None:
    """The commands of the README, on the broker that its first command starts: what is published is consumed."""
    section = re.split(r"^## ", README.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (start,) = [part for part in section if part.startswith("Quick start")]
    printed = ""
    with BrokerProcess(tmp_path / "data") as broker:
        for line in calls(start):
            ran = run_here(*shlex.split(line)[1:], FLINTMQ_URL=broker.url)
            assert ran.returncode == 0, f"{line}\n{ran.stderr}"
            printed += ran.stdout
    assert "on the disk" in printed
