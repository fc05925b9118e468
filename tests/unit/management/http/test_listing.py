"""Lists as RabbitMQ's API gives them: pages, names, orders and columns."""

import weakref
from typing import Any, final

import pytest
from starlette.responses import Response

from flintmq.management.http.access import Right
from flintmq.management.http.call import Call
from flintmq.management.http.listing import listed
from flintmq.management.http.routes import Route
from tests.unit.management.fake_node import Api, refused

NAMES = [f"q{number}" for number in range(250)]


def _described(name: str) -> dict[str, Any]:
    number = int(name[1:])
    return {"name": name, "number": number, "odd": number % 2 == 1, "in": {"it": -number, "other": 0}}


async def _list(call: Call) -> Response:
    return await listed(call, NAMES, _described, lambda name: name)


@pytest.fixture(scope="module")
def api() -> Api:
    return Api([Route("GET", "/api/list", _list, Right.USER, "Lists.")])


def names(found: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in found]


def test_everything_in_order(api: Api) -> None:
    """Without a page all objects are listed by name; the filter applies to pages only."""
    found = api.found("/api/list?name=q77")
    assert names(found) == sorted(NAMES)
    assert found[0] == _described("q0")


def test_pages(api: Api) -> None:
    """A page says which part of the whole it is."""
    found = api.found("/api/list?page=3&page_size=100")
    assert names(found.pop("items")) == sorted(NAMES)[200:]
    assert found == {
        "total_count": 250,
        "item_count": 50,
        "filtered_count": 250,
        "page": 3,
        "page_size": 100,
        "page_count": 3,
    }
    assert api.found("/api/list?page=1")["item_count"] == 100


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name=Q24", ["q24", *(f"q24{digit}" for digit in range(10))]),
        ("name=^q24$&use_regex=true", ["q24"]),
        ("name=^Q(1|2)$&use_regex=true", ["q1", "q2"]),
        ("name=^(?!Q1$)q(1|2)$&use_regex=true", ["q2"]),
        ("name=%5B&use_regex=false", []),
    ],
)
def test_names(api: Api, query: str, found: list[str]) -> None:
    """A part of the name, or a pattern, in any case of letters."""
    page = api.found(f"/api/list?page=1&{query}")
    assert names(page["items"]) == found
    assert (page["filtered_count"], page["total_count"]) == (len(found), 250)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("page=4", ("page_out_of_range", "Page out of range, page: 4 page size: 100, len: 250")),
        ("page=x", ("bad_request", "Pagination parameters are invalid")),
        ("page=0", ("invalid_pagination_parameters", "Invalid pagination parameters: page number 0, page size 100")),
        (
            "page=1&page_size=501",
            ("invalid_pagination_parameters", "Invalid pagination parameters: page number 1, page size 501"),
        ),
        (
            f"page=1&use_regex=true&name={'a' * 1025}",
            ("invalid_pagination_parameters", "name filter regex is too long"),
        ),
    ],
)
def test_pages_there_are_not(api: Api, query: str, words: tuple[str, str]) -> None:
    """RabbitMQ's words."""
    assert refused(api.get(f"/api/list?{query}")) == (400, *words)


def test_a_pattern_that_is_none(api: Api) -> None:
    """An invalid pattern is refused before it costs anything."""
    assert refused(api.get("/api/list?page=1&use_regex=true&name=("))[:2] == (400, "invalid_pagination_parameters")


def test_orders(api: Api) -> None:
    """Lists are sorted by any field, also a nested one, in both directions."""
    assert names(api.found("/api/list?sort=number"))[:3] == ["q0", "q1", "q2"]
    assert names(api.found("/api/list?sort=in.it"))[:3] == ["q249", "q248", "q247"]
    assert names(api.found("/api/list?sort=number&sort_reverse=true"))[:2] == ["q249", "q248"]
    assert names(api.found("/api/list?sort_reverse=true"))[0] == max(NAMES)
    assert {each["odd"] for each in api.found("/api/list?sort=odd")[:125]} == {False}
    assert len(api.found("/api/list?sort=nothing")) == 250


def test_columns(api: Api) -> None:
    """Only those that are asked for, on pages, too."""
    assert api.found("/api/list?columns=name,in.it")[0] == {"name": "q0", "in": {"it": 0}}
    assert api.found("/api/list?page=1&page_size=1&columns=number")["items"] == [{"number": 0}]


@final
class _Object:
    def __init__(self, number: int) -> None:
        self.name = f"o{number:04}"


@pytest.mark.parametrize("query", ["", "?sort=name&sort_reverse=true"])
def test_objects_are_freed_one_by_one(query: str) -> None:
    """Objects that exist for the list only are freed as they are written: all at once would take milliseconds."""
    known: list[weakref.ref[_Object]] = []
    alive: list[int] = []

    def described(item: _Object) -> dict[str, Any]:
        alive.append(sum(ref() is not None for ref in known))
        return {"name": item.name}

    async def of_objects(call: Call) -> Response:
        objects = [_Object(number) for number in range(200)]
        known.extend(map(weakref.ref, objects))
        return await listed(call, [objects.pop() for _ in range(200)], described, lambda item: item.name)

    api = Api([Route("GET", "/api/objects", of_objects, Right.USER, "Lists.")])
    assert len(api.found(f"/api/objects{query}")) == 200
    assert alive[-200:] == list(range(200, 0, -1))
