"""The OpenAPI 3.1 document of the API, generated from the table of routes."""

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from starlette.responses import Response

from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer
from flintmq.management.http.routes import Route

PATH: Final = "/api/openapi.json"
_REFERENCE: Final = "#/components/schemas/{name}"
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_ERROR: Final = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}
_PAGING: Final = {
    "page": "The number of the page, from 1; without it, all objects are listed.",
    "page_size": "Objects per page: 100 by default, at most 500.",
    "name": "Lists only objects whose names contain this text; needs `page`.",
    "use_regex": "true: `name` is a regular expression.",
    "sort": "The field to sort by.",
    "sort_reverse": "true: descending order.",
    "columns": "The fields to return, separated by commas; dots lead into nested objects.",
}


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    # Paths with an empty name exist only for some clients, and are not documented.
    rows = [row for row in routes if "//" not in row.path]
    kinds = [kind for row in rows for kind in (row.gives, row.takes) if kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    of_kind = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, of_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "FlintMQ", "version": version, "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"}},
        "servers": [{"url": "/"}],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**components, "Error": _ERROR},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(row: Route, of_kind: dict[str, Any]) -> dict[str, Any]:
    # The operation id must be unique: a fixed and a variable part may have the same name, and so may paths inside and
    # outside of /api.
    parts = re.findall(r"\w+", _VARIABLE.sub(r"by_\1", row.path.removeprefix("/api/")))
    name = "_".join([row.method.lower(), *parts])
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": row.summary,
        "description": f"Needs {row.right.value}.",
        "tags": [row.path.removeprefix("/api").split("/")[1]],
        "parameters": [
            *(
                {"name": each, "in": "path", "required": True, "schema": _text()}
                for each in _VARIABLE.findall(row.path)
            ),
            *(
                {"name": each, "in": "query", "description": said, "schema": _text()}
                for each, said in (_PAGING.items() if _is_list(row) else ())
            ),
        ],
        "responses": {"200" if row.gives is not None else "2XX": _success(row, of_kind), "4XX": _refused()},
    }
    if row.takes is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": of_kind[repr(row.takes)]}}}
    if row.right is Right.ANYBODY:
        operation["security"] = []
    return operation


def _is_list(row: Route) -> bool:
    return row.method == "GET" and getattr(row.gives, "__origin__", None) is list


def _text() -> dict[str, str]:
    return {"type": "string"}


def _success(row: Route, of_kind: dict[str, Any]) -> dict[str, Any]:
    if row.gives is None:
        return {"description": "Done."}
    return {"description": "Done.", "content": {"application/json": {"schema": of_kind[repr(row.gives)]}}}


def _refused() -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(name="Error")}
    return {"description": "Refused.", "content": {"application/json": {"schema": schema}}}


def route(routes: Iterable[Route]) -> Route:
    """The route of the OpenAPI document about these routes."""
    rows = [*routes]

    async def get(call: Call) -> Response:
        return answer(document(rows, call.node.version))

    return Route("GET", PATH, get, Right.USER, "Reference of this API, as an OpenAPI document.", dict[str, Any])
