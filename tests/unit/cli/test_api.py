import socket
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from flintmq.base.errors import ConfigurationError, FlintError
from flintmq.cli.api import PAGE_SIZE, Api, Endpoint, Missing, Refused, Unreachable, endpoint, path_of
from tests.servers import free_port
from tests.unit.cli.stub import StubApi


@pytest.mark.parametrize(
    ("api", "amqp", "expected"),
    [
        ("", "", Endpoint()),
        ("http://h", "", Endpoint("h", 15672)),
        ("https://u:p@h:1", "amqp://other", Endpoint("h", 1, "u", "p", is_tls=True)),
        ("http://a%40b:%2F@[::1]:2/", "", Endpoint("::1", 2, "a@b", "/")),
        ("", "amqp://u:p@h:5673/v?heartbeat=1", Endpoint("h", 15672, "u", "p")),
        ("", "amqps://h", Endpoint("h", 15671, is_tls=True)),
        ("", "amqps://h?cacertfile=/ca.pem&verify=verify_peer", Endpoint("h", 15671, is_tls=True, ca=Path("/ca.pem"))),
    ],
)
def test_where_the_api_is(api: str, amqp: str, expected: Endpoint) -> None:
    """The address is the URL of the API or, without one, the host and user of the AMQP URL on the API's port."""
    assert endpoint(api, amqp, None, None) == expected


@pytest.mark.parametrize("url", ["h:15672", "ftp://h", "http://", "http://u:pa/ss@h", "http://[::1"])
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    """The error does not quote the URL, because a part that cannot be read may be the password."""
    with pytest.raises(ConfigurationError) as caught:
        endpoint(url, "", None, None)
    assert "http://user:password@host:15672" in str(caught.value)
    assert "pa/ss" not in str(caught.value)


def test_a_password_from_a_file(tmp_path: Path) -> None:
    """The password file overrides the URL; the line break is not part of the password; a missing file is named."""
    file = tmp_path / "password"
    file.write_text("se cret\n")
    found = endpoint("http://u:other@h", "", file, None)
    assert (found.user, found.password) == ("u", "se cret")
    assert "se cret" not in repr(found)
    with pytest.raises(ConfigurationError, match="gone"):
        endpoint("", "", tmp_path / "gone", None)


def test_names_are_one_part_of_a_path() -> None:
    """The virtual host "/" is written as %2F, and no name leads to another path."""
    assert path_of("queues", "/", "../a b?") == "queues/%2F/..%2Fa%20b%3F"


def asked(answers: dict[str, tuple[int, Any]]) -> StubApi:
    return StubApi(answers)


def test_answers_and_logins() -> None:
    """Bodies are sent and received as JSON, with the login of the URL."""
    with asked({"GET overview": (200, {"node": "n"})}) as stub, Api(endpoint(stub.url, "", None, None)) as api:
        assert api.get("overview") == {"node": "n"}
        api.put("users/u", {"tags": ""})
        api.delete("users/u", reason="x")
        assert stub.asked[1:] == [("PUT users/u", {"tags": ""}), ("DELETE users/u?reason=x", None)]
        assert stub.logins == {f"Basic {b64encode(b'admin:s3cret').decode()}"}


def test_pages_are_put_together() -> None:
    """A long list is read page by page; a list without pages is returned as it is."""
    query = f"page_size={PAGE_SIZE}"
    page = {"filtered_count": 3, "page_count": 2}
    answers = {
        f"GET queues?page=1&{query}": (200, page | {"items": [{"name": "a"}, {"name": "b"}]}),
        f"GET queues?page=2&{query}": (200, page | {"items": [{"name": "c"}]}),
        f"GET vhosts?page=1&{query}": (200, [{"name": "/"}]),
    }
    with asked(answers) as stub, Api(endpoint(stub.url, "", None, None)) as api:
        assert list(api.pages("queues")) == [([{"name": "a"}, {"name": "b"}], 3), ([{"name": "c"}], 3)]
        assert list(api.pages("vhosts")) == [([{"name": "/"}], 1)]


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (
            401,
            {"error": "not_authorized", "reason": "Not_Authorized"},
            Refused,
            "wrong user name or password.*login of 'admin'",
        ),
        (
            401,
            {"error": "not_authorised", "reason": "Not administrator user"},
            Refused,
            "user 'admin' may not GET /api/x",
        ),
        (404, {"error": "Object Not Found", "reason": "Not Found"}, Missing, "/api/x does not exist"),
        (404, {"error": "not_found", "reason": "no queue 'q' in vhost '/'"}, Missing, "^no queue 'q' in vhost '/'$"),
        (
            400,
            {"error": "bad_request", "reason": "no pattern"},
            FlintError,
            "GET /api/x failed with status 400: no pattern",
        ),
        (500, b"<html>", FlintError, "status 500: no reason"),
        (200, b"<html>", Unreachable, "is not the HTTP API of a broker"),
    ],
)
def test_refusals_in_words(status: int, body: object, error: type[FlintError], words: str) -> None:
    """Each kind of error has its type, which becomes the exit code, and a text without the password."""
    with asked({"GET x": (status, body)}) as stub, Api(endpoint(stub.url, "", None, None)) as api:
        with pytest.raises(error, match=words) as caught:
            api.get("x")
        assert type(caught.value) is error
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (path_of("users", "a/b"), "user 'a/b' does not exist"),
        (path_of("vhosts", "v"), "virtual host 'v' does not exist"),
        (path_of("vhosts", "v", "connections"), "virtual host 'v' does not exist"),
        (path_of("exchanges", "v"), "virtual host 'v' does not exist"),
        (path_of("queues", "/", "q") + "/messages", "queue 'q' in virtual host '/' does not exist"),
        (path_of("permissions", "v", "u"), "permission of user 'u' in virtual host 'v' does not exist"),
        (path_of("connections", "127.0.0.1:1"), "connection '127.0.0.1:1' does not exist"),
    ],
)
def test_a_missing_object_is_named(path: str, words: str) -> None:
    """The error names the object, although the API only answers "Not Found"."""
    answer = (404, {"error": "Object Not Found", "reason": "Not Found"})
    with StubApi({f"DELETE {path}": answer}) as stub, Api(endpoint(stub.url, "", None, None)) as api:
        with pytest.raises(Missing) as caught:
            api.delete(path)
        assert str(caught.value) == words


def test_nobody_there() -> None:
    """The error of a refused connection says what may be wrong."""
    with (
        Api(endpoint(f"http://127.0.0.1:{free_port()}", "", None, None)) as api,
        pytest.raises(Unreachable, match="refuses connections: is the broker running"),
    ):
        api.get("overview")


def test_somebody_else_there() -> None:
    """A server with another protocol gives a typed error."""
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = other.accept()
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with (
            Api(endpoint(f"http://127.0.0.1:{other.getsockname()[1]}", "", None, None)) as api,
            pytest.raises(Unreachable, match="does not answer as"),
        ):
            api.get("overview")
        thread.join()
