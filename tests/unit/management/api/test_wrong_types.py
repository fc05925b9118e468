"""Fields of request bodies with values of other types than theirs: each is a 400 that says which field it is."""

import re
from typing import Any

import msgspec
import pytest

from flintmq.management.api.table import ROUTES
from flintmq.management.http.routes import Route
from flintmq.management.messages.representation import properties_of
from tests.unit.management.fake_node import Api, refused

TEXTS = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type"),
    *("user_id", "app_id", "cluster_id"),
)
NUMBERS = ("delivery_mode", "priority", "timestamp")
# What JSON can say, and what most fields are not; the last one is as deep as it may be.
VALUES: tuple[Any, ...] = (
    *({}, {"a": 1}, {"a": {"b": [1]}}, [], [1], ["a"], [[1]], True, "", "text", 1.5, 1e300, 7, -1, 2**63, 10**30),
    msgspec.json.decode("[" * 900 + "]" * 900),
)
BODIES = [route for route in ROUTES if isinstance(route.takes, type) and issubclass(route.takes, msgspec.Struct)]
PATHS = {
    "vhost": "%2F",
    "name": "q",
    "source": "q",
    "destination": "q",
    "user": "management",
    "component": "operator_policy",
}
GOOD = {
    "routing_key": "k",
    "payload": "p",
    "payload_encoding": "string",
    "properties": {},
    "count": 1,
    "destination": "other",
    "action": "resume",
    "configure": "",
    "write": "",
    "read": "",
    "exchange": "amq.topic",
    "tags": "",
    "users": [],
    "name": "n",
    "pattern": "",
    "definition": {"max-length": 1},
    "value": 1,
}


def publish(api: Api, **properties: object) -> tuple[int, str, str]:
    body = {"routing_key": "q", "payload": "x", "payload_encoding": "string", "properties": properties}
    return refused(api.post("/api/exchanges/%2F/amq.default/publish", body))


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("value", "kind"),
    [({"a": 1}, "an object"), ({}, "an object"), ([], "a list"), (["text"], "a list"), (True, "True")],
)
def test_properties_that_are_strings(name: str, value: object, kind: str) -> None:
    """An object, a list or a truth value is no text, and not published as one."""
    api = Api()
    api.put("/api/queues/%2F/q", {})
    assert publish(api, **{name: value}) == (400, "bad_request", f"the property {name} is a string, not {kind}")
    assert api.broker.vhosts["/"].queues["q"].message_count == 0


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    ("value", "kind"),
    [({"a": 1}, "an object"), ([], "a list"), (True, "True"), ("five", "'five'"), (1.5, "1.5"), ("", "''")],
)
def test_properties_that_are_numbers(name: str, value: object, kind: str) -> None:
    """A number is one, or digits in a text."""
    assert publish(Api(), **{name: value}) == (400, "bad_request", f"the property {name} is a number, not {kind}")


@pytest.mark.parametrize(("value", "kind"), [([1], "a list"), ("x", "'x'"), (True, "True"), (1, "1")])
def test_headers(value: object, kind: str) -> None:
    """Headers are an object; an empty list is one of PHP's."""
    assert publish(Api(), headers=value) == (400, "bad_request", f"the property headers is an object, not {kind}")
    assert properties_of({"headers": []}) == properties_of({"headers": {}})


def test_numbers_for_strings() -> None:
    """Scripts write the expiration, among others, as a number."""
    assert properties_of({"expiration": 60_000}) == properties_of({"expiration": "60000"})


@pytest.mark.parametrize("name", [*TEXTS, *NUMBERS, "headers"])
def test_deep_values(name: str) -> None:
    """A value that is nested as deeply as JSON allows is refused like other wrong values."""
    status, error, _reason = publish(Api(), **{name: VALUES[-1]})
    assert (status, error) == (400, "bad_request")


@pytest.mark.parametrize("route", BODIES, ids=lambda route: f"{route.method} {route.path}")
def test_every_field(route: Route) -> None:
    """Whatever stands in a field, the answer is a success or a refusal; of a type that is not its own, one that names
    the field.
    """
    api = Api()
    api.put("/api/queues/%2F/q", {})
    api.put("/api/exchanges/%2F/q", {})
    path = re.sub(r"{(\w+)}", lambda found: PATHS[found[1]], route.path).replace(
        "-limits/%2F/q", "-limits/%2F/max-queues"
    )
    for field in msgspec.structs.fields(route.takes):
        name = field.encode_name
        others = {other.encode_name for other in msgspec.structs.fields(route.takes)} - {name}
        good = {other: GOOD[other] for other in others & GOOD.keys()}
        for value in VALUES:
            response = api.request(route.method, path, {**good, name: value})
            assert response.status_code in (200, 201, 204, 400, 404), (name, value, response.text)
            if not _is(value, field.type):
                assert response.status_code == 400, (name, value)
                assert f"$.{name}" in response.json()["reason"], (name, value)


def _is(value: object, type: object) -> bool:
    try:
        msgspec.convert(value, type, strict=False)
    except msgspec.ValidationError:
        return False
    return True
