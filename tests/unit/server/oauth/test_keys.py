"""Keys of tokens: where they come from, when they are looked at again, and what is not trusted."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from flintmq.base.errors import ConfigurationError
from flintmq.server.oauth.keys import Keys
from flintmq.server.oauth.url_opener import opener
from tests.tokens import Issuer
from tests.unit.server.oauth.site import Site


def _refresh(keys: Keys) -> None:
    done = threading.Event()
    keys.refresh(done.set)
    assert done.wait(60)


def test_keys_at_an_url(issuer: Issuer, site: Site) -> None:
    """Keys are fetched when a token names one, by nobody who waits, and not more often than every 30 seconds."""
    now = [10_000.0]
    site.body = json.dumps(issuer.key_set).encode()
    keys = Keys(site.url, clock=lambda: now[0])
    site.opened.clear()
    assert keys.find("key-1", "RS256") is None
    site.opened.set()
    for _ in range(5):
        _refresh(keys)
    assert keys.find("key-1", "RS256") is not None
    assert site.count == 1
    # Anybody can name a key that is nowhere; that is looked up once in a while only.
    now[0] += 31
    _refresh(keys)
    assert site.count == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (200, b""), (200, b"[]"), (200, b'{"keys": 1}'), (200, b"[" * 100_000), (200, b" " * 2_000_000)],
)
def test_an_issuer_that_is_away(issuer: Issuer, site: Site, status: int, body: bytes) -> None:
    """The keys that were there go on to count."""
    now = [10_000.0]
    site.body = json.dumps(issuer.key_set).encode()
    keys = Keys(site.url, clock=lambda: now[0])
    _refresh(keys)
    site.status, site.body = status, body
    now[0] += 31
    _refresh(keys)
    assert site.count == 2
    assert keys.find("key-1", "RS256") is not None


def test_redirects_lead_nowhere(issuer: Issuer, site: Site) -> None:
    """What the administrator named was trusted, not what that names."""
    other = Site()
    other.body = json.dumps(issuer.key_set).encode()
    site.status, site.location = 302, other.url
    keys = Keys(site.url)
    _refresh(keys)
    assert keys.find("key-1", "RS256") is None
    assert other.count == 0
    other.close()


@pytest.mark.parametrize("url", ["http://issuer.example/jwks", "ftp://127.0.0.1/jwks", "file:///etc/jwks"])
def test_sources_that_are_not_trusted(url: str) -> None:
    """Keys that somebody may change on the way are nobody's; and an URL is one of the web."""
    with pytest.raises(ConfigurationError, match="use https"):
        Keys(url)


@pytest.mark.parametrize("text", [None, "", "{}", '{"keys": [7]}', "[]"])
def test_a_file_that_is_none(tmp_path: Path, text: str | None) -> None:
    """A broker does not start with it."""
    file = tmp_path / "jwks.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match="oauth.jwks"):
        Keys(str(file))


def test_a_file_that_changes(tmp_path: Path) -> None:
    """Keys that are added count, and those that are withdrawn do not; one key alone need not be named."""
    now = [10_000.0]
    issuer = Issuer()
    file = issuer.publish(tmp_path / "jwks.json")
    keys = Keys(str(file), clock=lambda: now[0])
    assert keys.find("", "RS256") is not None
    issuer.keys = {}
    issuer.add_key("key-2")
    issuer.add_key("key-3")
    issuer.publish(file)
    now[0] += 11
    _refresh(keys)
    assert keys.find("key-1", "RS256") is None
    assert keys.find("key-2", "RS256") is not None
    assert keys.find("", "RS256") is None


@pytest.mark.parametrize(
    ("change", "algorithm"), [({"alg": "RS512"}, "RS256"), ({"use": "enc"}, "RS256"), ({}, "HS256"), ({}, "ES256")]
)
def test_keys_for_something_else(issuer: Issuer, tmp_path: Path, change: dict[str, str], algorithm: str) -> None:
    """A key is used for what it says, and what its kind is for."""
    (key,) = issuer.key_set["keys"]
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [{**key, **change}]}))
    assert Keys(str(file)).find("key-1", algorithm) is None


@contextlib.contextmanager
def _answering(*parts: bytes) -> Iterator[str]:
    """The URL of a server that says this to whoever asks, a tenth of a second between parts, and the last for ever."""
    ended = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer, contextlib.suppress(OSError):
                    peer.recv(4096)
                    for part in parts[:-1]:
                        peer.sendall(part)
                    while parts[-1] and not ended.wait(0.1):
                        peer.sendall(parts[-1])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/jwks"
        finally:
            ended.set()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "said",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
)
def test_what_is_no_http_ends_nothing(said: bytes) -> None:
    """Whoever waits is told, and the next time the server is asked again."""
    now = [10_000.0]
    with _answering(said, b"") as url:
        keys = Keys(url, clock=lambda: now[0])
        for _ in range(3):
            _refresh(keys)
            assert keys.find("key-1", "RS256") is None
            now[0] += 31


@pytest.mark.parametrize("said", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_drips_has_its_time(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes soon after the one before it, and the answer never ends; its time does."""
    monkeypatch.setattr("flintmq.server.oauth.url_opener._ANSWER_SECONDS", 0.3)
    with _answering(said, b"x") as url:
        done = threading.Event()

        def fetch() -> None:
            with contextlib.suppress(OSError), opener(None).open(url, timeout=60) as answer:
                answer.read()
            done.set()

        threading.Thread(target=fetch, daemon=True).start()
        assert done.wait(60)


def test_not_everybody_can_wait_for_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes while too many wait is told at once, with the keys there are."""
    monkeypatch.setattr("flintmq.server.oauth.keys._WAITING_MAX", 2)
    # The answer does not end meanwhile, for want of time.
    monkeypatch.setattr("flintmq.server.oauth.url_opener._ANSWER_SECONDS", 60.0)
    with _answering(b"HTTP/1.1 200 OK\r\n", b"x") as url:
        keys = Keys(url)
        told: list[int] = []
        for number in range(4):
            keys.refresh(partial(told.append, number))
        assert told == [2, 3]
