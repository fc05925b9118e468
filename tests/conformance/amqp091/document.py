"""docs/conformance-amqp091.md: each rule, its test, and whether it holds in each dialect."""

from collections import Counter
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.conformance.amqp091.rules import AMQP091, CLAUSES, CONTRADICTED, DIFFERENCES, EXTENSIONS, RULES
from tests.conformance.catalogue import HOLDS, Verdicts

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "conformance-amqp091.md"
DIALECTS: Final = ("strict", "rabbitmq")

_RABBITMQS: Final = "*RabbitMQ's*"
# A rule that cannot hold as a whole beside another one: its test shows the rest of it.
_CONTRADICTED: Final = "*contradicted*"
_HEAD: Final = """\
# Conformance to AMQP 0-9-1

Written by `make conformance`. Each rule of the specification has one test, named after it, that runs against a server
in both dialects of a virtual host:

- **strict**: the specification to the letter;
- **rabbitmq**, the default: where RabbitMQ documents another meaning, that wins. For these rules, marked *RabbitMQ's*,
  the test shows RabbitMQ's behaviour, and the last table says what it is.

One rule is *contradicted* by another, so that no broker can hold both; its test shows the rest of it.

The specification's rules are paraphrased, not quoted; MUST includes MUST NOT. The tests are in
`tests/conformance/amqp091`. Those that need no process talk to a broker in memory, the others to one over sockets, and
one file runs both ways.
"""


def render(verdicts: Verdicts) -> str:
    columns = {dialect: partial(_verdict, verdicts, dialect) for dialect in DIALECTS}
    parts = [_HEAD, _summary(verdicts)]
    for name, rules in groupby(RULES.values(), lambda rule: rule.id.partition(".")[0]):
        parts.append(f"\n## {name}\n\n{AMQP091.table(rules, columns)}")
    parts.append("\n## Beside the rules\n\nSentences of the specification that it does not mark as rules.\n\n")
    parts.append(AMQP091.table(CLAUSES.values(), columns))
    parts.append("\n## RabbitMQ's additions\n\nThe same in both dialects.\n\n")
    parts.append(AMQP091.table(EXTENSIONS.values(), columns, level=False))
    parts.append("\n## Where RabbitMQ's meaning wins\n\n| rule | in `rabbitmq` |\n|---|---|\n")
    parts.extend(f"| `{id}` | {reason} |\n" for id, reason in DIFFERENCES.items())
    parts.append("\n## A contradiction\n\n| rule | what contradicts it |\n|---|---|\n")
    parts.extend(f"| `{id}` | {why} |\n" for id, why in CONTRADICTED.items())
    missing = AMQP091.not_yet()
    if missing:
        parts.append("\n## What does not hold yet\n\n| rule | why |\n|---|---|\n")
        parts.extend(f"| `{id}` | {why} |\n" for id, why in missing.items())
    return "".join(parts)


def _summary(verdicts: Verdicts) -> str:
    heads = ["dialect", "rules that hold", "contradicted by another rule", "RabbitMQ's meaning instead"]
    heads += ["sentences beside the rules", "additions that work"]
    lines = [f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"]
    for dialect in DIALECTS:
        said = Counter(_verdict(verdicts, dialect, id) for id in RULES)
        beside = [id for id in CLAUSES if _verdict(verdicts, dialect, id) == HOLDS]
        added = [id for id in EXTENSIONS if verdicts.get((id, dialect)) == HOLDS]
        counts = [f"{said[HOLDS]} of {len(RULES)}", str(said[_CONTRADICTED]), str(said[_RABBITMQS])]
        counts += [f"{len(beside)} of {len(CLAUSES)}", f"{len(added)} of {len(EXTENSIONS)}"]
        lines.append(f"| {dialect} | {' | '.join(counts)} |\n")
    return "".join(lines)


def _verdict(verdicts: Verdicts, dialect: str, id: str) -> str:
    found = verdicts.get((id, dialect), "not run")
    if found != HOLDS:
        return found
    if dialect == "rabbitmq" and id in DIFFERENCES:
        return _RABBITMQS
    return _CONTRADICTED if id in CONTRADICTED else found
