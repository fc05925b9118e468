"""docs/conformance-amqp10.md: each rule, its test, and whether it holds."""

from itertools import groupby
from pathlib import Path
from typing import Final

from tests.conformance.amqp10.catalogue import AMQP10, CLAUSES, PARTS, RULES, broker, section
from tests.conformance.catalogue import HOLDS, Rule, Verdicts

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "conformance-amqp10.md"
_TITLES: Final = {
    "2": "Part 2: transport",
    "3": "Part 3: messaging",
    "4": "Part 4: transactions",
    "1 and 5": "Parts 1 and 5: types and security",
}
_HEAD: Final = """\
# Conformance to AMQP 1.0

Written by `make conformance`. Whatever the specification says with MUST, MUST NOT, SHOULD or SHOULD NOT that concerns a
broker or its peer is a rule here, and each rule has one test, named after it, in which bytes go to a broker and come
back. What it defines without these words has a test, too, where a client would notice: those have no level.
Where RabbitMQ lets pass what the specification forbids, a test runs in the dialect strict ([dialects.md](dialects.md)).

An id begins with the section in which a rule stands; the words are ours. The tests are in `tests/conformance/amqp10`;
those of rules for clients talk to our own client. A test that needs no process talks to a broker in memory, on a clock
of the test's; restarts, crashes, TCP and TLS are shown over sockets, and one file runs both ways.
`make mutations` breaks each rule in a copy of the sources, and sees its test fail. `test_inputs.py` has further inputs.
"""


def render(verdicts: Verdicts) -> str:
    parts = [_HEAD, _summary(verdicts)]

    def said(id: str) -> str:
        return verdicts.get((id, ""), "not run")

    for name, part in PARTS.items():
        parts.append(f"\n## {_TITLES[name]}\n")
        rules = sorted([*part.RULES.values(), *part.CLAUSES.values()], key=_place)
        for title, of_section in groupby(rules, lambda rule: section(rule.id)):
            parts.append(f"\n### §{title}\n\n{AMQP10.table(of_section, {'verdict': said})}")
    parts.append("\n## A broker's own\n\nWhat the specification leaves open, and RabbitMQ documents.\n\n")
    parts.append(AMQP10.table(broker.ADDITIONS.values(), {"verdict": said}, level=False))
    missing = AMQP10.not_yet()
    if missing:
        parts.append("\n## What does not hold yet\n\n| rule | why |\n|---|---|\n")
        parts.extend(f"| `{id}` | {why} |\n" for id, why in missing.items())
    return "".join(parts)


def _place(rule: Rule) -> list[int]:
    """Sections in their order; within one, rules stay in ours, those with a level first."""
    return [int(number) for number in section(rule.id).split(".")]


def _summary(verdicts: Verdicts) -> str:
    lines = ["\n| part | rules that hold | other clauses that hold |\n|---|---|---|\n"]
    for name, part in PARTS.items():
        columns = [_held(part.RULES, verdicts), _held(part.CLAUSES, verdicts)]
        lines.append(f"| {name} | {' | '.join(columns)} |\n")
    lines.append(f"| all | {_held(RULES, verdicts)} | {_held(CLAUSES, verdicts)} |\n")
    return "".join(lines)


def _held(rules: dict[str, Rule], verdicts: Verdicts) -> str:
    held = [id for id in rules if verdicts.get((id, "")) == HOLDS]
    return f"{len(held)} of {len(rules)}"
