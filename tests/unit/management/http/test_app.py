"""Rules for every path of the HTTP API: logins, rights, methods, errors, limits of bodies, headers of answers."""

import pytest
from msgspec import Struct
from starlette.responses import Response

from flintmq.base.errors import ConfigurationError, NotFound, PreconditionFailed, StorageFenced
from flintmq.gateway.audit import AuditEvent
from flintmq.management.api.table import ROUTES
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer
from flintmq.management.http.routes import NOT_AUDITED, Handler, Route
from tests.unit.management.fake_node import BODY_MAX_BYTES, Api, refused

LOGIN_FAILED = (401, "not_authorized", "Not_Authorized")


class Numbered(Struct):
    number: int
    flag: bool = False


async def _echo(call: Call) -> Response:
    return answer(call.request.path_params | {"name": call.path("name")})


async def _number(call: Call) -> Response:
    return answer(await call.body(Numbered))


async def _fixed(_call: Call) -> Response:
    return answer("fixed")


async def _vhost(call: Call) -> Response:
    return answer(call.vhost().name)


def _raising(error: Exception) -> Handler:
    async def fail(_call: Call) -> Response:
        raise error

    return fail


def api(*routes: Route, address: str = "127.0.0.1") -> Api:
    return Api(routes, address)


def test_names_in_a_path_are_decoded_once() -> None:
    """A slash within a name is sent as %2F, and belongs to the name; what is decoded is not decoded again."""
    served = api(Route("GET", "/api/things/{name}", _echo, Right.USER, "Echoes."))
    assert served.found("/api/things/a%2Fb")["name"] == "a/b"
    assert served.found("/api/things/%252F")["name"] == "%2F"
    assert served.found("/api/things/%C3%BC/")["name"] == "ü"
    assert refused(served.get("/api/things/%FF")) == (400, "bad_request", "name in the path is not UTF-8")
    assert served.get("/api/things/a/b").status_code == 404
    assert served.get("/api/things/a//").status_code == 404


def test_fixed_paths_go_before_variable_ones() -> None:
    """A fixed path matches before a variable one, whatever the order of the table."""
    served = api(
        Route("GET", "/api/things/{name}", _echo, Right.USER, "Echoes."),
        Route("GET", "/api/things/fixed", _fixed, Right.USER, "Is itself."),
    )
    assert served.found("/api/things/fixed") == "fixed"
    assert served.found("/api/things/other")["name"] == "other"


def test_who_may_log_in() -> None:
    """A name with its password, and nobody else; the answer does not tell which of them was wrong."""
    served = Api()
    assert served.found("/api/whoami") == {"name": "admin", "tags": ["administrator"], "is_internal_user": True}
    for authorization in (
        "",
        "Basic",
        "Basic !",
        "Basic YWRtaW4=",
        "Basic /w==",
        "Basic YWRtaW46eA==",
        "Bearer x",
        "x",
    ):
        response = served.get("/api/whoami", by=None, headers={"authorization": authorization})
        assert refused(response) == LOGIN_FAILED
        assert response.headers["www-authenticate"].startswith("Basic realm=")
        assert response.headers["connection"] == "close"
    assert refused(served.get("/api/whoami", by="nobody")) == (401, "not_authorised", "Not management user")


@pytest.mark.parametrize("takes_tokens", [True, False])
def test_how_to_log_in_is_for_anybody_to_ask(takes_tokens: bool) -> None:
    """Tokens are an answer where there is somebody whose tokens count."""
    served = Api()
    served.node.takes_tokens = takes_tokens
    assert served.get("/api/auth", by=None).json() == {"oauth_enabled": takes_tokens}


def test_a_page_that_asks_for_itself_is_not_challenged() -> None:
    """A script's request that fails does not make the browser open a window."""
    response = Api().get("/api/whoami", by=None, headers={"x-requested-with": "fetch"})
    assert response.status_code == 401
    assert "www-authenticate" not in response.headers


def test_guest_is_from_this_machine() -> None:
    """RabbitMQ's words for a user that everybody knows."""
    served = Api(address="192.0.2.1")
    served.node.allows_clear_text = True
    served.user("guest", "administrator")
    assert refused(served.get("/api/whoami", by="guest")) == (
        401,
        "not_authorised",
        "User can only log in via localhost",
    )
    assert served.get("/api/whoami").status_code == 200


@pytest.mark.parametrize(
    ("right", "allowed"),
    [
        (Right.USER, {"admin", "monitoring", "policymaker", "management"}),
        (Right.MONITORING, {"admin", "monitoring"}),
        (Right.ADMINISTRATOR, {"admin"}),
        (Right.GLOBAL_POLICYMAKER, {"admin", "policymaker"}),
        (Right.ANYBODY, {"admin", "monitoring", "policymaker", "management", "nobody"}),
    ],
)
def test_what_tags_allow(right: Right, allowed: set[str]) -> None:
    """Each right is that of its tags, and of administrators."""
    served = api(Route("GET", "/api/thing", _fixed, right, "Is there."))
    names = ("admin", "monitoring", "policymaker", "management", "nobody")
    assert {name for name in names if served.get("/api/thing", by=name).status_code == 200} == allowed


@pytest.mark.parametrize(
    ("right", "allowed"),
    [
        (Right.VHOST, {"admin", "here"}),
        (Right.VHOST_VISIBLE, {"admin", "here", "monitoring"}),
        (Right.POLICYMAKER, {"admin", "policymaker"}),
    ],
)
def test_what_permissions_allow(right: Right, allowed: set[str]) -> None:
    """A virtual host is open to those with permissions in it, and to whom the right lets in beside them."""
    served = api(Route("GET", "/api/{vhost}", _vhost, right, "Is there."))
    served.broker.add_vhost("a/b")
    served.user("here", "management", vhosts=("a/b",))
    served.user("policymaker", "policymaker", vhosts=("a/b",))
    served.user("elsewhere", "policymaker", vhosts=("/",))
    answered = {
        name: served.get("/api/a%2Fb", by=name).status_code
        for name in ("admin", "here", "monitoring", "policymaker", "management", "elsewhere")
    }
    if right is not Right.POLICYMAKER:
        allowed = allowed | {"policymaker"}
    assert {name for name, status in answered.items() if status == 200} == allowed
    assert set(answered.values()) <= {200, 401, 404}
    assert refused(served.get("/api/missing")) == (404, "Object Not Found", "Not Found")


def test_methods_there_are() -> None:
    """Other methods are refused with the list of allowed ones; HEAD works as GET, and OPTIONS needs no login."""
    served = api(
        Route("GET", "/api/thing", _fixed, Right.USER, "Is there."),
        Route("PUT", "/api/thing", _fixed, Right.USER, "Is put."),
    )
    response = served.delete("/api/thing")
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, OPTIONS, PUT"
    assert served.request("HEAD", "/api/thing").status_code == 200
    assert served.request("OPTIONS", "/api/thing", by=None).headers["allow"] == "GET, HEAD, OPTIONS, PUT"
    assert "access-control-allow-origin" not in served.request("OPTIONS", "/api/thing", by=None).headers


def test_there_is_no_such_path() -> None:
    """RabbitMQ's body of a 404."""
    assert refused(Api().get("/api/nothing")) == (404, "Object Not Found", "Not Found")
    assert refused(Api().get("/api/../api/%2e%2e/etc/passwd")) == (404, "Object Not Found", "Not Found")


@pytest.mark.parametrize(
    ("content", "answered"),
    [
        (b'{"number": 1}', {"number": 1, "flag": False}),
        (b'{"number": "1", "flag": "true", "unknown": []}', {"number": 1, "flag": True}),
        (b"", (400, "bad_request", "Object missing required field `number`")),
        (b"null", (400, "bad_request", "Object missing required field `number`")),
        (b"[]", (400, "bad_request", "Expected `object`, got `array`")),
        (b"{", (400, "bad_request", "not_json")),
        (b'{"number": 1, "x": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", (400, "bad_request", "not_json")),
        (b'{"number": null, ', (400, "bad_request", "not_json")),
        (b'{"number": null, "x": ' + b"[" * 30_000 + b"]" * 30_000 + b"}", (400, "bad_request", "not_json")),
        (
            b" " * (BODY_MAX_BYTES + 1),
            (413, "payload_too_large", "Exceeded HTTP request body size limit of 65536 bytes"),
        ),
    ],
)
def test_bodies(content: bytes, answered: object) -> None:
    """A body that is not JSON, has wrong fields, or is too large is refused with a reason."""
    served = api(Route("PUT", "/api/number", _number, Right.USER, "Numbers."))
    response = served.request("PUT", "/api/number", content=content)
    assert (response.json() if response.status_code == 200 else refused(response)) == answered


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (NotFound("no queue 'q' in vhost '/'"), (404, "not_found", "no queue 'q' in vhost '/'")),
        (PreconditionFailed("inequivalent arg"), (400, "bad_request", "inequivalent arg")),
        (ConfigurationError("there is no such thing"), (400, "bad_request", "there is no such thing")),
        (StorageFenced("EIO"), (503, "service_unavailable", "EIO")),
    ],
)
def test_what_the_broker_refuses(error: Exception, answered: object) -> None:
    """Errors of the broker become statuses with its text."""
    served = api(Route("GET", "/api/thing", _raising(error), Right.USER, "Fails."))
    assert refused(served.get("/api/thing")) == answered


def test_a_fault_of_ours_stays_in_the_log() -> None:
    """The answer tells nothing of it."""
    served = api(Route("GET", "/api/thing", _raising(RuntimeError("secret")), Right.USER, "Fails."))
    response = served.get("/api/thing")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert served.node.logged[-1]["event"] == "internal error"


def test_every_answer_is_guarded() -> None:
    """Every answer has headers that forbid framing, sniffing, caching and foreign scripts."""
    served = Api()
    for response in (served.get("/api/whoami"), served.get("/api/whoami", by=None), served.get("/nothing")):
        headers = response.headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-cache, no-store"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site", "content-type": "text/plain"}, True),
        ({"sec-fetch-site": "cross-site", "content-type": "application/json; charset=utf-8"}, False),
        ({"sec-fetch-site": "cross-site", "x-requested-with": "fetch"}, False),
        ({"origin": "https://elsewhere.example"}, True),
        ({"origin": "null"}, True),
        ({"origin": "http://localhost:15672"}, False),
        ({"origin": "https://elsewhere.example", "content-type": "application/json"}, False),
    ],
)
def test_other_sites_change_nothing(headers: dict[str, str], is_refused: bool) -> None:
    """Cross-site requests that need no CORS preflight are refused unless they only read."""
    served = api(
        Route("POST", "/api/thing", _fixed, Right.USER, "Is done."),
        Route("GET", "/api/thing", _fixed, Right.USER, "Is there."),
    )
    response = served.request("POST", "/api/thing", headers=headers)
    assert (response.status_code == 403) == is_refused
    assert served.get("/api/thing", headers=headers).status_code == 200


def test_all_routes_are_told_apart() -> None:
    """No row of the table hides another, and each says what it does."""
    keys = [(route.method, route.path) for route in ROUTES]
    assert len(set(keys)) == len(keys)
    assert all(route.path.startswith(("/api", "/metrics", "/cli")) and route.summary.endswith(".") for route in ROUTES)


def test_what_the_audit_log_gets() -> None:
    """The audit log has user, address and result of each change; reads and routes marked so are not audited."""
    served = api(
        Route("PUT", "/api/things/{vhost}/{name}", _echo, Right.USER, "Is put.", action="thing.put"),
        Route("POST", "/api/things/{vhost}/{name}", _raising(NotFound("no")), Right.USER, "Fails."),
        Route("DELETE", "/api/things/{vhost}/{name}", _echo, Right.ADMINISTRATOR, "Is deleted.", action="thing.delete"),
        Route("POST", "/api/looks/{name}", _echo, Right.USER, "Looks.", action=NOT_AUDITED),
        Route("GET", "/api/looks/{name}", _echo, Right.USER, "Looks."),
        Route("PUT", "/api/faults/{name}", _raising(ValueError("secret")), Right.USER, "Breaks.", action="fault.put"),
    )
    served.put("/api/things/%2F/a%2Fb")
    served.post("/api/things/%2F/x", by="management")
    served.delete("/api/things/%2F/x", by="management")
    served.post("/api/looks/x")
    served.get("/api/looks/x")
    served.put("/api/faults/x")
    served.put("/api/things/%2F/%FF")
    assert served.node.events == [
        AuditEvent("admin", "127.0.0.1:1", "http", "/", "thing.put", "a/b"),
        AuditEvent("management", "127.0.0.1:1", "http", "/", "POST /api/things/{vhost}/{name}", "x", "no"),
        AuditEvent("management", "127.0.0.1:1", "http", "/", "thing.delete", "x", "Not administrator user"),
        AuditEvent("admin", "127.0.0.1:1", "http", "", "fault.put", "x", "internal error"),
        AuditEvent("admin", "127.0.0.1:1", "http", "/", "thing.put", "\ufffd", "name in the path is not UTF-8"),
    ]
