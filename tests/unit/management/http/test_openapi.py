"""The document of the API says what the table of routes says."""

import json

from flintmq.management.api.table import PAGES, ROUTES
from tests.unit.management.fake_node import Api


def test_the_document() -> None:
    """Every route is there, with its variables; every reference leads somewhere."""
    document = Api().found("/api/openapi.json", by="management")
    assert document["openapi"] == "3.1.0"
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    there = {(route.method, route.path) for route in ROUTES if "//" not in route.path}
    assert told == there - {("GET", "/api/openapi.json")} - {(page.method, page.path) for page in PAGES}
    put = document["paths"]["/api/permissions/{vhost}/{user}"]["put"]
    assert [each["name"] for each in put["parameters"]] == ["vhost", "user"]
    assert put["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/PermissionWanted")
    listing = document["paths"]["/api/users"]["get"]
    assert "page_size" in [each["name"] for each in listing["parameters"]]
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)
    schemas = document["components"]["schemas"]
    references = {part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}
    assert references <= set(schemas)
    assert "PolicyShown" in references
