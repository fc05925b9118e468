"""Tables of arguments as JSON: every AMQP type comes back as itself."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.base.values import INTEGER_TYPES, Timestamp
from flintmq.broker.message import Table
from flintmq.storage.definitions.schema import dump_table, load_table

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.builds(Timestamp, st.integers(0, 2**64 - 1))
    | st.sampled_from([kind(number) for kind in INTEGER_TYPES.values() for number in (kind.least, kind.most)])
)
KEYS = st.text() | st.sampled_from(["$bytes", "$table", "$decimal", "$timestamp", "$uint", "$"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=10
)


def test_snapshot() -> None:
    """Values without a JSON type are tagged."""
    table: Table = {
        "b": b"\x00\xff",
        "d": Decimal("1.50"),
        "t": Timestamp(9),
        "n": [None, True, {"$bytes": "text"}],
    }
    assert dump_table(table) == (
        '{"b":{"$bytes":"AP8="},"d":{"$decimal":"1.50"},"n":[null,true,{"$table":{"$bytes":"text"}}],'
        '"t":{"$timestamp":9}}'
    )


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_every_table_comes_back(table: Table) -> None:
    """Every table is restored exactly, with all types."""
    loaded = load_table(dump_table(table))
    assert loaded == table
    assert _types(loaded) == _types(table)


def test_equal_tables_have_one_text() -> None:
    """The order of keys makes no difference: bindings are compared by this text."""
    assert dump_table({"a": 1, "b": {"c": 1, "d": 2}}) == dump_table({"b": {"d": 2, "c": 1}, "a": 1})


def test_what_no_table_holds_is_refused() -> None:
    """A value without an AMQP type is our own fault and not stored as something else."""
    with pytest.raises(TypeError, match="cannot hold"):
        dump_table({"set": {1, 2}})


@pytest.mark.parametrize("text", ["[]", "1", "{", '{"a":{"$bytes":"?"}}'])
def test_other_json_is_refused(text: str) -> None:
    """JSON that is not an encoded table is refused."""
    with pytest.raises((ValueError, TypeError)):
        load_table(text)


def _types(value: object) -> object:
    if isinstance(value, dict):
        return {key: _types(item) for key, item in value.items()}
    return [_types(item) for item in value] if isinstance(value, list) else type(value)
