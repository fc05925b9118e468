"""Rules as rows: the table of each kind of rule, its columns, and the conversion between records and rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from flintmq.broker.ports import (
    LimitRecord,
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    Rule,
    TopicPermissionRecord,
)
from flintmq.storage.definitions.schema import dump_table, load_table

Row = tuple[Any, ...]


@dataclass(frozen=True)
class RuleTable:
    """The table of a kind of rule. `key` are the columns that identify a rule and come first; `values` are the other
    columns.
    """

    name: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    write: Callable[[Any], Row]
    read: Callable[..., Rule]

    @property
    def select(self) -> str:
        columns = ", ".join((*self.key, *self.values))
        return f"SELECT {columns} FROM {self.name} ORDER BY {', '.join(self.key)}"  # noqa: S608 - constant names

    @property
    def put(self) -> str:
        columns = (*self.key, *self.values)
        marks = ", ".join("?" * len(columns))
        return f"INSERT OR REPLACE INTO {self.name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608

    @property
    def delete(self) -> str:
        return f"DELETE FROM {self.name} WHERE {' AND '.join(f'{column} = ?' for column in self.key)}"  # noqa: S608


_TABLES: Final[dict[type[Any], RuleTable]] = {
    PermissionRecord: RuleTable(
        "permissions",
        ("vhost", "user"),
        ("configure", "write", "read"),
        lambda rule: (rule.vhost, rule.user, rule.configure, rule.write, rule.read),
        PermissionRecord,
    ),
    TopicPermissionRecord: RuleTable(
        "topic_permissions",
        ("vhost", "user", "exchange"),
        ("write", "read"),
        lambda rule: (rule.vhost, rule.user, rule.exchange, rule.write, rule.read),
        TopicPermissionRecord,
    ),
    PolicyRecord: RuleTable(
        "policies",
        ("vhost", "operator", "name"),
        ("pattern", "apply_to", "priority", "definition"),
        lambda rule: (
            *(rule.vhost, rule.operator, rule.name),
            *(rule.pattern, rule.apply_to, rule.priority, dump_table(rule.definition)),
        ),
        lambda vhost, operator, name, pattern, apply_to, priority, definition: PolicyRecord(
            vhost, name, pattern, load_table(definition), apply_to, priority, bool(operator)
        ),
    ),
    LimitRecord: RuleTable(
        "limits",
        ("scope", "owner", "name"),
        ("value",),
        lambda rule: (rule.scope, rule.owner, rule.name, rule.value),
        LimitRecord,
    ),
    ParameterRecord: RuleTable(
        "parameters",
        ("vhost", "component", "name"),
        ("value",),
        lambda rule: (rule.vhost, rule.component, rule.name, dump_table({"value": rule.value})),
        lambda vhost, component, name, value: ParameterRecord(vhost, component, name, load_table(value)["value"]),
    ),
}
# Statements that delete the rules of a virtual host, and those of a user.
OF_VHOST: Final = (
    *(f"DELETE FROM {table} WHERE vhost = ?" for table in ("exchanges", "queues", "bindings")),  # noqa: S608
    *(f"DELETE FROM {table.name} WHERE vhost = ?" for table in _TABLES.values() if "vhost" in table.key),  # noqa: S608
    "DELETE FROM limits WHERE scope = 'vhost' AND owner = ?",
)
OF_USER: Final = (
    *(f"DELETE FROM {table.name} WHERE user = ?" for table in _TABLES.values() if "user" in table.key),  # noqa: S608
    "DELETE FROM limits WHERE scope = 'user' AND owner = ?",
)


def read_rules(run: Callable[[str], Iterator[Row]]) -> list[Rule]:
    """Read all rules; `run` executes a query."""
    return [table.read(*row) for table in _TABLES.values() for row in run(table.select)]


def statement_to_put(rule: Rule) -> tuple[str, Row]:
    table = _TABLES[type(rule)]
    return table.put, table.write(rule)


def statement_to_delete(rule: Rule) -> tuple[str, Row]:
    table = _TABLES[type(rule)]
    return table.delete, table.write(rule)[: len(table.key)]
