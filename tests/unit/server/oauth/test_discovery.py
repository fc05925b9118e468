"""An issuer's name alone: it says itself where its keys are, and only for itself."""

import json
import ssl
import threading
from pathlib import Path

import pytest
import trustme

from flintmq.base.errors import ConfigurationError
from flintmq.server.config import OAuthSettings
from flintmq.server.oauth.discovery import document_url, keys_url
from flintmq.server.oauth.keys import Keys
from flintmq.server.oauth.tokens import tokens_of
from tests.tokens import Issuer
from tests.unit.server.oauth.site import Site

PATH = "/.well-known/openid-configuration"
NAME = "https://id.example.org"


def _refresh(keys: Keys) -> None:
    done = threading.Event()
    keys.refresh(done.set)
    assert done.wait(60)


def _publish(site: Site, by: Issuer, **changed: object) -> str:
    """The site is the issuer's, with a realm of its own; returns its name."""
    name = f"{site.root}/realm"
    site.pages[f"/realm{PATH}"] = json.dumps({"issuer": name, "jwks_uri": site.url, **changed}).encode()
    site.body = json.dumps(by.key_set).encode()
    return name


def _document(**changed: object) -> bytes:
    return json.dumps({"issuer": NAME, "jwks_uri": f"{NAME}/keys", **changed}).encode()


@pytest.mark.parametrize(
    ("issuer", "url"),
    [
        (NAME, f"{NAME}{PATH}"),
        (f"{NAME}/", f"{NAME}{PATH}"),
        (f"{NAME}/realms/a", f"{NAME}/realms/a{PATH}"),
        ("http://127.0.0.1:8080", f"http://127.0.0.1:8080{PATH}"),
        ("http://[::1]:8080", f"http://[::1]:8080{PATH}"),
    ],
)
def test_where_it_is_asked(issuer: str, url: str) -> None:
    """Below its name, a slash at the end of which counts for nothing."""
    assert document_url(issuer) == url


@pytest.mark.parametrize(
    ("issuer", "why"),
    [
        ("", "use https"),
        ("uaa", "use https"),
        ("http://id.example.org", "use https"),
        ("file:///etc", "use https"),
        ("https://", "not a URL"),
        ("https://[x", "not a URL"),
        ("https://id.example.org:x", "not a URL"),
        ("https://id.example.org/ä", "not a URL"),
        ("https://id.example.org/a b", "not a URL"),
        ("https://id.example.org?a=b", "no query"),
        ("https://id.example.org#a", "no query"),
    ],
)
def test_what_is_no_issuer(issuer: str, why: str) -> None:
    """It is known at the start, with the setting's name."""
    with pytest.raises(ConfigurationError, match=f"^oauth.issuer .*{why}"):
        Keys("", issuer=issuer)


def test_what_it_says() -> None:
    """Its keys may be on another machine; an issuer on this one may have them here, too."""
    assert keys_url(NAME, _document()) == f"{NAME}/keys"
    assert keys_url(NAME, _document(jwks_uri="https://keys.example.com/1")) == "https://keys.example.com/1"
    local = "http://127.0.0.1:8080"
    assert keys_url(local, _document(issuer=local, jwks_uri=f"{local}/keys")) == f"{local}/keys"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (b"", "not an OpenID Connect configuration"),
        (b"<html>", "not an OpenID Connect configuration"),
        (b"[]", "not an OpenID Connect configuration"),
        (b"\xff", "not an OpenID Connect configuration"),
        (b"[" * 100_000, "not an OpenID Connect configuration"),
        (b'{"issuer": "https://id.example.org"}', "not an OpenID Connect configuration"),
        (_document(issuer=f"{NAME}/"), "exactly"),
        (_document(issuer="https://id.example.com"), "exactly"),
        (_document(issuer=None), "exactly"),
        (_document(issuer="x" * 10_000), "exactly"),
        (_document(jwks_uri=7), "not a URL"),
        (_document(jwks_uri=""), "use https"),
        (_document(jwks_uri="https://id.example.org/ä"), "not a URL"),
        (_document(jwks_uri="http://id.example.org/keys"), "use https"),
        (_document(jwks_uri="file:///etc/passwd"), "use https"),
        (_document(jwks_uri="http://127.0.0.1:15672/api/whoami"), "must be https"),
    ],
)
def test_what_is_not_believed(document: bytes, why: str) -> None:
    """What is no configuration, what is somebody else's, and keys at a place that anybody could answer for."""
    with pytest.raises(ConfigurationError, match=why) as error:
        keys_url(NAME, document)
    assert f"{NAME}{PATH}" in str(error.value)
    assert len(str(error.value)) < 500


def test_keys_of_an_issuer(issuer: Issuer, site: Site) -> None:
    """They are there once they are asked for, and looked for again when they are old: also where they have moved to."""
    now = [10_000.0]
    keys = Keys("", clock=lambda: now[0], issuer=_publish(site, issuer))
    for _ in range(3):
        _refresh(keys)
    assert keys.find("key-1", "RS256") is not None
    assert site.count == 2
    other = Issuer()
    other.keys = {}
    other.add_key("key-2")
    _publish(site, issuer, jwks_uri=f"{site.root}/moved")
    site.pages["/moved"] = json.dumps(other.key_set).encode()
    now[0] += 31
    _refresh(keys)
    assert keys.find("key-1", "RS256") is None
    assert keys.find("key-2", "RS256") is not None


@pytest.mark.parametrize("changed", [{"issuer": "https://id.example.com"}, {"jwks_uri": "nowhere"}])
def test_an_issuer_that_says_something_else(issuer: Issuer, site: Site, changed: dict[str, str]) -> None:
    """The keys that were there go on to count; those that it names then are not fetched."""
    now = [10_000.0]
    keys = Keys("", clock=lambda: now[0], issuer=_publish(site, issuer))
    _refresh(keys)
    _publish(site, Issuer(), **changed)
    now[0] += 31
    _refresh(keys)
    assert site.count == 3
    assert keys.find("key-1", "RS256") is not None


def test_what_cannot_be_fetched(issuer: Issuer, site: Site) -> None:
    """The reason names which of the two it is."""
    name = _publish(site, issuer, jwks_uri=f"{site.root}/gone")
    with pytest.raises(ConfigurationError, match=f"^{site.root}/gone cannot be fetched: .*404"):
        Keys("", issuer=name).read()
    site.pages.clear()
    with pytest.raises(ConfigurationError, match=f"^{name}{PATH} cannot be fetched: .*404"):
        Keys("", issuer=name).read()
    site.pages[f"/realm{PATH}"] = b" " * 2_000_000
    with pytest.raises(ConfigurationError, match="longer than"):
        Keys("", issuer=name).read()


def test_a_redirected_issuer(issuer: Issuer, site: Site) -> None:
    """Nobody else speaks for it."""
    name = _publish(site, issuer)
    site.status, site.location = 302, site.url
    with pytest.raises(ConfigurationError, match="302"):
        Keys("", issuer=name).read()
    assert site.count == 1


def test_tokens_of_an_issuer(issuer: Issuer, site: Site) -> None:
    """Its name alone lets its tokens count, and nobody else's; not without whom they are meant for."""
    name = _publish(site, issuer)
    tokens = tokens_of(OAuthSettings(issuer=name, resource_server_id="flintmq"))
    assert tokens is not None
    tokens.keys.read()
    assert tokens.bearer(issuer.token("read:*/*", iss=name)).user.name == "anna"
    with pytest.raises(ConfigurationError, match=r"oauth\.issuer needs oauth\.resource_server_id"):
        tokens_of(OAuthSettings(issuer=name))
    assert tokens_of(OAuthSettings(resource_server_id="flintmq")) is None


def test_where_the_keys_are_said_to_be(issuer: Issuer, site: Site) -> None:
    """Settings that say it count for more than what the issuer says; it need not be asked, nor be a URL."""
    _publish(site, issuer)
    tokens = tokens_of(OAuthSettings(jwks=site.url, issuer="uaa", resource_server_id="flintmq"))
    assert tokens is not None
    tokens.keys.read()
    assert site.count == 1
    assert tokens.bearer(issuer.token(iss="uaa")).user.name == "anna"


def test_over_tls(issuer: Issuer, site: Site, tmp_path: Path) -> None:
    """An authority that the settings name says who the issuer is, and who has its keys; nobody else's word counts."""
    authority = trustme.CA()
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    site.server.socket = context.wrap_socket(site.server.socket, server_side=True)
    site.root = site.root.replace("http:", "https:")
    site.url = site.url.replace("http:", "https:")
    name = _publish(site, issuer)
    keys = Keys("", ca, issuer=name)
    keys.read()
    assert keys.find("key-1", "RS256") is not None
    with pytest.raises(ConfigurationError, match="CERTIFICATE_VERIFY_FAILED"):
        Keys("", issuer=name).read()
    with pytest.raises(ConfigurationError, match=r"oauth\.jwks_ca .* cannot be used"):
        Keys("", tmp_path / "none.pem", issuer=name)
