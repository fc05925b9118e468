"""Rules of a specification as data, each tied to the one test that shows whether it holds, and tables of both."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])

HOLDS: Final = "holds"
NOT_YET: Final = "not yet"
FAILS: Final = "**fails**"
# By rule and variant: what a catalogue's tests are parametrised with, "" where they are not.
Verdicts = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Rule:
    """`id` says where the rule stands; `level` is the strongest word of the rule, "" where there is none."""

    id: str
    level: str
    words: str


@dataclass(frozen=True)
class Tested:
    """A test, by its file and function; `not_yet` says why it does not hold."""

    file: str
    function: str
    not_yet: str


class Catalogue:
    """`rules` of a specification, `additions` to them, and `tests`: filled when the modules with them are imported."""

    def __init__(self, name: str, rules: dict[str, Rule], additions: dict[str, Rule]) -> None:
        self.name = name
        self.rules = rules
        self.additions = additions
        self.tests: dict[str, Tested] = {}

    def rule(self, id: str, not_yet: str = "") -> Callable[[Test], Test]:
        """This test shows whether that rule holds."""
        assert id in self.rules, f"there is no rule {id}"
        return self._tie(id, not_yet)

    def addition(self, id: str, not_yet: str = "") -> Callable[[Test], Test]:
        """This test shows whether that addition works."""
        assert id in self.additions, f"there is no addition {id}"
        return self._tie(id, not_yet)

    def untested(self) -> list[str]:
        return sorted({*self.rules, *self.additions} - set(self.tests))

    def not_yet(self) -> dict[str, str]:
        """What does not hold, and why."""
        all_of_them = (*self.rules, *self.additions)
        return {id: self.tests[id].not_yet for id in all_of_them if id in self.tests and self.tests[id].not_yet}

    def expected(self, variants: Iterable[str]) -> Verdicts:
        """What a run says when every test does as its decorator says."""
        names = tuple(variants)
        return {
            (id, variant): NOT_YET if tested.not_yet else HOLDS
            for id, tested in self.tests.items()
            for variant in names
        }

    def _tie(self, id: str, not_yet: str) -> Callable[[Test], Test]:
        def tie(test: Test) -> Test:
            name = "test_" + re.sub(r"[^a-z0-9]", "_", id)
            assert test.__name__ == name, f"the test of {id} is to be called {name}"
            assert id not in self.tests, f"{id} has a test already"
            self.tests[id] = Tested(test.__module__.rpartition(".")[2] + ".py", name, not_yet)
            marked: Test = pytest.mark.conformance(self.name, id)(test)
            return pytest.mark.xfail(strict=True, reason=not_yet)(marked) if not_yet else marked

        return tie

    def table(self, rules: Iterable[Rule], verdicts: Mapping[str, Callable[[str], str]], level: bool = True) -> str:
        """A table of these rules; `verdicts` has, by the heads of their columns, what is said of a rule."""
        heads = ["rule" if level else "addition", "in our words", *(["level"] if level else []), *verdicts, "test"]
        lines = [f"| {' | '.join(heads)} |\n", f"|{'---|' * len(heads)}\n"]
        for rule in rules:
            tested = self.tests.get(rule.id)
            test = f"`{tested.file}::{tested.function}`" if tested else "none"
            said = [verdict(rule.id) for verdict in verdicts.values()]
            columns = [f"`{rule.id}`", rule.words, *([rule.level] if level else []), *said, test]
            lines.append(f"| {' | '.join(columns)} |\n")
        return "".join(lines)


def listed(*rows: tuple[str, str, str]) -> dict[str, Rule]:
    """Rules by their ids, from rows of id, level and words."""
    found = {id: Rule(id, level, words) for id, level, words in rows}
    assert len(found) == len(rows), "an id is there twice"
    return found
