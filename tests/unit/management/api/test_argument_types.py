"""Types of integers in arguments: the API takes, shows, exports and imports them, beside numbers as RabbitMQ writes."""

import pytest

from flintmq.base.values import Int32, TypedInt, UInt8, UInt32
from tests.unit.management.fake_node import Api, refused

ARGUMENTS = {"n": 5, "long": 5, "inner": {"list": [1, 2]}}
TYPES = {"n": "uint", "inner": {"list": {"1": "ubyte"}}}


@pytest.fixture
def api() -> Api:
    made = Api()
    made.put("/api/queues/%2F/q", {"durable": True, "arguments": {"x-max-length": 7, "x-expires": 1000}})
    made.put("/api/exchanges/%2F/x", {"type": "headers", "durable": True})
    return made


def _bind(api: Api) -> None:
    api.post("/api/bindings/%2F/e/x/q/q", {"arguments": ARGUMENTS, "argument_types": TYPES})


def _bound(api: Api) -> dict[str, object]:
    (binding,) = api.broker.vhosts["/"].exchanges.by_name["x"].each_binding()
    return binding.arguments


def _kinds(value: object) -> object:
    if isinstance(value, dict):
        return {name: _kinds(item) for name, item in value.items()}
    return [_kinds(item) for item in value] if isinstance(value, list) else type(value)


def test_types_are_taken_and_shown(api: Api) -> None:
    """A binding is listed with the argument types that it was declared with; numbers stay numbers."""
    _bind(api)
    assert _bound(api) == ARGUMENTS
    assert _kinds(_bound(api)) == {"n": UInt32, "long": int, "inner": {"list": [int, UInt8]}}
    shown = [each for each in api.found("/api/bindings") if each["source"] == "x"]
    assert [(each["arguments"], each["argument_types"]) for each in shown] == [(ARGUMENTS, TYPES)]


def test_types_of_queues_and_exchanges(api: Api) -> None:
    """Arguments of queues and exchanges have types, too; without types, the field is missing."""
    wanted = {"durable": True, "arguments": {"x-max-length": 7}, "argument_types": {"x-max-length": "int"}}
    api.put("/api/queues/%2F/typed", wanted)
    api.put("/api/exchanges/%2F/typed", {"type": "fanout", "arguments": {"n": 1}, "argument_types": {"n": "byte"}})
    assert isinstance(api.broker.vhosts["/"].queues["typed"].arguments["x-max-length"], Int32)
    assert api.found("/api/queues/%2F/typed")["argument_types"] == {"x-max-length": "int"}
    assert api.found("/api/exchanges/%2F/typed")["argument_types"] == {"n": "byte"}
    assert "argument_types" not in api.found("/api/queues/%2F/q")
    assert "argument_types" not in api.found("/api/exchanges/%2F/x")


def test_a_binding_is_found_by_what_is_shown(api: Api) -> None:
    """The properties_key depends on values only, so a listed binding can be unbound by it."""
    _bind(api)
    (shown,) = [each for each in api.found("/api/bindings") if each["source"] == "x"]
    api.request("DELETE", f"/api/bindings/%2F/e/x/q/q/{shown['properties_key']}")
    assert not api.broker.vhosts["/"].exchanges.by_name["x"].bindings


def test_types_survive_an_export(api: Api) -> None:
    """A broker that imports the export of another has the same types; the numbers are those RabbitMQ reads."""
    _bind(api)
    exported = api.found("/api/definitions")
    (binding,) = exported["bindings"]
    assert (binding["arguments"], binding["argument_types"]) == (ARGUMENTS, TYPES)
    other = Api()
    other.post("/api/definitions", exported)
    assert _kinds(_bound(other)) == _kinds(_bound(api))


@pytest.mark.parametrize(
    "types",
    [
        {"n": "integer"},
        {"n": "uint", "none": "uint"},
        {"n": 1},
        {"inner": "uint"},
        {"long": "ubyte"},
        {"n": {"m": "int"}},
    ],
)
def test_types_that_cannot_be(api: Api, types: dict[str, object]) -> None:
    """A type there is not, of what is not there, or that the value does not fit, is refused at both doors."""
    arguments = {**ARGUMENTS, "long": 256}
    body = {"arguments": arguments, "argument_types": types}
    assert refused(api.request("POST", "/api/bindings/%2F/e/x/q/q", body))[0] == 400
    entry = {"source": "x", "vhost": "/", "destination": "q", **body}
    assert refused(api.request("POST", "/api/definitions", {"bindings": [entry]}))[0] == 400
    assert not api.broker.vhosts["/"].exchanges.by_name["x"].bindings


def test_a_type_is_a_number_everywhere_else() -> None:
    """Code that does not ask for the type sees a plain integer."""
    assert isinstance(UInt32(5), TypedInt)
    assert (UInt32(5), hash(UInt32(5)), repr(UInt32(5)), f"{UInt32(5)}") == (5, hash(5), "5", "5")
