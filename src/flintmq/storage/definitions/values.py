"""Tables of arguments as columns of text."""

import json

from flintmq.base.json_values import from_json, to_json
from flintmq.broker.message import Table


def dump_table(table: Table) -> str:
    """The same text for equal tables, in whatever order their keys are. Raises TypeError for what no table can hold."""
    return json.dumps({key: to_json(value) for key, value in table.items()}, separators=(",", ":"), sort_keys=True)


def load_table(text: str) -> Table:
    """Raises ValueError, KeyError or TypeError when `dump_table` did not write it."""
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise TypeError("arguments are not a table")
    return {key: from_json(value) for key, value in fields.items()}
