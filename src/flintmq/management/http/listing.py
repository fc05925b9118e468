"""Lists of objects: sorted, filtered, and limited to pages and columns as in RabbitMQ's API; written in slices.

Without `page`, all objects are listed. With it, `name` filters by name (as a pattern if `use_regex` is true), and the
answer has the numbers of pages and objects. `sort` names a field, `columns` several, with dots for nested objects.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from flintmq.base.errors import ConfigurationError
from flintmq.broker.pattern import Pattern
from flintmq.management.errors import JSON_TYPE, BadRequest
from flintmq.management.http.call import Call
from flintmq.management.slices import Slice, drained, each, filtered, gathered, sorted_by

# RabbitMQ's limits.
_PAGE_SIZE: Final = 100
_PAGE_SIZE_MAX: Final = 500
_NAME_MAX_CHARACTERS: Final = 1_024
# The size of a write to the socket; after it other work runs.
_PIECE_BYTES: Final = 64 * 1024

_ENCODER: Final = msgspec.json.Encoder()
_Columns = Mapping[str, Any]
T = TypeVar("T")


async def listed(
    call: Call,
    items: Sequence[T],
    describe: Callable[[T], Any],
    name: Callable[[T], str],
    order: Callable[[T], Any] | None = None,
) -> Response:
    """List all of `items`, or the requested page; `items` must not change meanwhile.

    `describe` turns an item into a dict or a struct. It is called for the listed items, and for all of them only if
    they are sorted by a field. Otherwise they are sorted by `order`, or by name. Raises BadRequest.
    """
    page = _page(call)
    columns = _columns(call.query("columns"))
    sort = call.query("sort")
    reverse = call.query("sort_reverse") == "true"
    total = len(items)
    # From now on this list alone has them, so that each is freed when it is written.
    found = list(items)
    del items
    if page is not None and (wanted := call.query("name")):
        matches = _name_filter(wanted, is_pattern=call.query("use_regex") == "true")
        found = await filtered(found, lambda item: matches(name(item)))
    if sort:
        fields = sort.split(".")
        # Only the sort keys are kept: ten thousand descriptions would burden the garbage collector.
        ranked = await gathered((_rank(_fields(describe(item)), fields), item) for item in found)
        found = await each(drained(await sorted_by(ranked, _first, reverse=reverse)), _second)
    else:
        found = await sorted_by(found, order or name, reverse=reverse)
    count = len(found)
    rows: Iterable[Any] = (describe(item) for item in drained(_part(found, page)))
    if columns is not None:
        rows = (_picked(_fields(facts), columns) for facts in rows)
    return await _encoded(rows, None if page is None else page.facts(total, count))


def _page(call: Call) -> "_Page | None":
    number, size = call.query("page"), call.query("page_size")
    if not number:
        return None
    if not all(text.isascii() and text.lstrip("-").isdigit() and len(text) < 18 for text in (number, size or "1")):
        raise BadRequest("Pagination parameters are invalid")
    page = _Page(int(number), int(size or _PAGE_SIZE))
    if page.number < 1 or not 1 <= page.size <= _PAGE_SIZE_MAX:
        raise BadRequest(
            f"Invalid pagination parameters: page number {page.number}, page size {page.size}",
            "invalid_pagination_parameters",
        )
    return page


@final
class _Page:
    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size

    def facts(self, total: int, filtered: int) -> dict[str, int]:
        """The fields before the items. Raises BadRequest if the page does not exist."""
        start = (self.number - 1) * self.size
        if start > filtered:
            raise BadRequest(
                f"Page out of range, page: {self.number} page size: {self.size}, len: {filtered}", "page_out_of_range"
            )
        return {
            "total_count": total,
            "item_count": min(self.size, filtered - start),
            "filtered_count": filtered,
            "page": self.number,
            "page_size": self.size,
            "page_count": -(-filtered // self.size),
        }


def _part(items: list[T], page: _Page | None) -> list[T]:
    return items if page is None else items[(page.number - 1) * page.size : page.number * page.size]


def _name_filter(wanted: str, *, is_pattern: bool) -> Callable[[str], bool]:
    if not is_pattern:
        lowered = wanted.lower()
        return lambda name: lowered in name.lower()
    if len(wanted) > _NAME_MAX_CHARACTERS:
        raise BadRequest("name filter regex is too long", "invalid_pagination_parameters")
    try:
        pattern = Pattern(wanted, ignoring_case=True)
    except ConfigurationError as error:
        raise BadRequest(str(error), "invalid_pagination_parameters") from error
    return pattern.matches


def _fields(facts: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever describes an object
    fields: dict[str, Any] = facts if isinstance(facts, dict) else msgspec.to_builtins(facts)
    return fields


def _first(pair: tuple[Any, object]) -> Any:  # noqa: ANN401 - a rank
    return pair[0]


def _second(pair: tuple[object, T]) -> T:
    return pair[1]


def _rank(facts: dict[str, Any], path: list[str]) -> tuple[int, Any]:
    """The sort key of a field in Erlang's order: numbers, then booleans, then strings; a missing value counts as 0."""
    value: Any = facts
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return (0, 0)
    if isinstance(value, bool):
        return (1, value)
    if isinstance(value, (int, float)):
        return (0, value)
    return (2, value) if isinstance(value, str) else (3, str(value))


def _columns(text: str) -> dict[str, Any] | None:
    """The requested columns as a tree; an empty subtree stands for everything below it."""
    if not text:
        return None
    tree: dict[str, Any] = {}
    for column in text.split(","):
        branch = tree
        for part in column.split("."):
            branch = branch.setdefault(part, {})
    return tree


def _picked(facts: Any, columns: _Columns) -> Any:  # noqa: ANN401 - any part of a description
    if not columns:
        return facts
    if isinstance(facts, list):
        return [_picked(each, columns) for each in facts]
    if not isinstance(facts, dict):
        return facts
    return {key: _picked(value, columns[key]) for key, value in facts.items() if key in columns}


def picked(call: Call, facts: Any) -> Any:  # noqa: ANN401 - any description
    """An object, reduced to the requested columns."""
    columns = _columns(call.query("columns"))
    return facts if columns is None else _picked(_fields(facts), columns)


async def _encoded(rows: Iterable[Any], page: dict[str, int] | None) -> Response:
    if page is not None:
        return await encoded_object(page, {"items": iter(rows)})
    written = _Written(b"")
    await written.add_list(rows)
    return written.response(b"")


async def encoded_list(rows: AsyncIterator[Any]) -> Response:
    """Answer with a list whose rows come one by one."""
    written = _Written(b"[")
    is_first = True
    async for row in rows:
        written.waited()
        if not is_first:
            written.add(b",")
        is_first = False
        await written.add_row(row)
    return written.response(b"]")


async def encoded_object(facts: Mapping[str, Any], lists: Mapping[str, Iterator[Any]]) -> Response:
    """Answer with an object: first the fields `facts`, at least one, then lists, which may be long."""
    written = _Written(_ENCODER.encode(facts)[:-1])
    for name, rows in lists.items():
        written.add(b"," + _ENCODER.encode(name) + b":")
        await written.add_list(rows)
    return written.response(b"}")


@final
class _Written:
    """The JSON text that is written so far."""

    def __init__(self, beginning: bytes) -> None:
        self._piece = bytearray(beginning)
        self._pieces: list[bytes] = []
        self._slice = Slice()

    def waited(self) -> None:
        """Report that time was spent waiting for the next row."""
        self._slice.waited()

    def add(self, text: bytes) -> None:
        self._piece += text

    async def add_list(self, rows: Iterable[Any]) -> None:
        piece = self._piece
        piece += b"["
        separator = b""
        for row in rows:
            piece += separator
            separator = b","
            await self.add_row(row)
        piece += b"]"

    async def add_row(self, row: Any) -> None:  # noqa: ANN401 - whatever JSON can say
        piece = self._piece
        _ENCODER.encode_into(row, piece, -1)
        if len(piece) >= _PIECE_BYTES:
            self._pieces.append(bytes(piece))
            piece.clear()
        if self._slice.is_over:
            await self._slice.pause()

    def response(self, end: bytes) -> Response:
        self._pieces.append(bytes(self._piece) + end)
        return Pieces(self._pieces)


@final
class Pieces(Response):
    """A JSON answer in several pieces; each is one write to the socket."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__(None, headers={"content-length": str(sum(map(len, pieces)))}, media_type=JSON_TYPE)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        now = Slice()
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            # The time until the client has read is not work.
            now.waited()
            await now.pause()
        await send({"type": "http.response.body", "body": b""})
