"""The suite is whole, and its document is up to date."""

import importlib
from pathlib import Path

from tests.conformance.amqp091.document import DIALECTS, DOCUMENT, render
from tests.conformance.amqp091.rules import AMQP091, CONTRADICTED, DIFFERENCES, RULES


def _import_all() -> None:
    """So that every test is tied to its rule, whichever of them run."""
    for file in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"tests.conformance.amqp091.{file.stem}")


def test_every_rule_has_a_test() -> None:
    """All 115 rules, and every addition; the decorators see to it that there is no test of anything else."""
    _import_all()
    assert len(RULES) == 115
    assert AMQP091.untested() == []


def test_differences_are_rules() -> None:
    """RabbitMQ differs from rules only, and says why."""
    assert set(DIFFERENCES) <= set(AMQP091.rules)
    assert all(reason.startswith("RabbitMQ: ") for reason in DIFFERENCES.values())


def test_a_contradiction_names_both_rules() -> None:
    """The rule that cannot hold as a whole, and in the words the one that it would have to break."""
    for id, words in CONTRADICTED.items():
        assert id in RULES
        assert any(f"`{other}`" in words for other in RULES if other != id)


def test_the_document_is_up_to_date() -> None:
    """It tells what the suite would: `make conformance` writes it."""
    _import_all()
    assert DOCUMENT.read_text(encoding="utf-8") == render(AMQP091.expected(DIALECTS)), "run `make conformance`"
