"""The suite is whole, and its document is up to date."""

import importlib
from collections import Counter
from pathlib import Path

from tests.conformance.amqp10.catalogue import AMQP10, KEYWORDS, PARTS, RULES, section
from tests.conformance.amqp10.document import DOCUMENT, render


def _import_all() -> None:
    """So that every test is tied to its rule, whichever of them run."""
    for file in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"tests.conformance.amqp10.{file.stem}")


def test_every_rule_has_a_test() -> None:
    """Every rule and clause; the decorators see to it that there is no test of anything else."""
    _import_all()
    assert AMQP10.untested() == []


def test_no_rule_is_forgotten() -> None:
    """The rules of each section stand for as many words MUST and SHOULD as the section has: 111 in part 2, 80 in 3."""
    counted: Counter[str] = Counter()
    for rule in RULES.values():
        counted[section(rule.id)] += len(rule.level.split(", "))
    assert dict(counted) == KEYWORDS
    totals = {name: sum(part.KEYWORDS.values()) for name, part in PARTS.items()}
    assert totals == {"2": 111, "3": 80, "4": 30, "1 and 5": 13}


def test_the_document_is_up_to_date() -> None:
    """It tells what the suite would: `make conformance` writes it."""
    _import_all()
    assert DOCUMENT.read_text(encoding="utf-8") == render(AMQP10.expected([""])), "run `make conformance`"
