"""A change of the sources that breaks a rule, and where it applies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parents[3] / "src"
_PACKAGE: Final = "flintmq"


@dataclass(frozen=True)
class Mutation:
    """`old` stands once in `file`, which is below the package; `new` is what breaks the rule."""

    rule: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """The file, below the folder of the sources."""
        return Path(_PACKAGE) / self.file

    def fault(self) -> str:
        """Why the change cannot be made; empty where it can."""
        count = (SOURCES / self.path).read_text(encoding="utf-8").count(self.old)
        return "" if count == 1 else f"{self.rule}: {self.file} has this {count} times, not once: {self.old!r}"

    def apply(self, sources: Path) -> None:
        """Make the change in a copy of the sources, whose files may be links to the originals."""
        file = sources / self.path
        text = file.read_text(encoding="utf-8").replace(self.old, self.new)
        file.unlink()
        file.write_text(text, encoding="utf-8")


def listed(*rows: tuple[str, str, str, str]) -> tuple[Mutation, ...]:
    """Mutations from rows of rule, file, old and new text."""
    return tuple(Mutation(*row) for row in rows)
