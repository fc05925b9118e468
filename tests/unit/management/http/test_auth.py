"""Authentication at the HTTP API: passwords, tokens, and the network that they come over."""

import pytest

from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.scopes import Scopes
from tests.unit.management.fake_node import Api

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJl"


def _api(*scopes: str, address: str = "127.0.0.1") -> Api:
    api = Api(address=address)
    api.node.bearers[TOKEN] = Bearer("anna", Scopes(scopes), 2**40)
    return api


def _bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_token_says_who_asks() -> None:
    """The tags of a token give the same access as those of a user."""
    api = _api("tag:monitoring")
    whoami = api.get("/api/whoami", by=None, headers=_bearing(TOKEN)).json()
    assert whoami == {"name": "anna", "tags": ["monitoring"], "is_internal_user": False}


@pytest.mark.parametrize(("scope", "status"), [("read:%2F/q", 200), ("read:other/*", 404)])
def test_a_token_opens_virtual_hosts(scope: str, status: int) -> None:
    """A token gives access to the virtual hosts that its scopes name, as permissions do."""
    api = _api("tag:management", scope)
    api.broker.add_vhost("other")
    assert api.get("/api/exchanges/%2F", by=None, headers=_bearing(TOKEN)).status_code == status


def test_a_virtual_host_made_with_a_token() -> None:
    """Creating a virtual host with a token gives no permissions, because the token itself has them."""
    api = _api("tag:administrator", "configure:*/*")
    assert api.request("PUT", "/api/vhosts/v", by=None, headers=_bearing(TOKEN)).status_code == 201
    assert api.found("/api/vhosts/v/permissions") == []
    assert api.request("PUT", "/api/queues/v/q", {"durable": True}, by=None, headers=_bearing(TOKEN)).status_code == 201


def test_a_token_without_a_tag() -> None:
    """Rights on messages open no management."""
    assert _api("read:*/*").get("/api/whoami", by=None, headers=_bearing(TOKEN)).status_code == 401


@pytest.mark.parametrize("token", ["", "x", f"{TOKEN}x", f"{TOKEN},{TOKEN}"])
def test_tokens_that_do_not_count(token: str) -> None:
    """Invalid tokens are refused like wrong passwords, and are not logged."""
    api = _api("tag:administrator")
    assert api.get("/api/whoami", by=None, headers=_bearing(token)).status_code == 401
    assert TOKEN not in str(api.node.logged)
    assert api.node.logged[-1]["event"] == "login refused"


def test_a_token_for_a_password() -> None:
    """Clients that know of Basic alone send it so, with any name."""
    api = _api("tag:administrator")
    response = api.request("GET", "/api/whoami", by=TOKEN)
    assert response.json()["name"] == "anna"
    api.node.takes_tokens = False
    assert api.request("GET", "/api/whoami", by=TOKEN).status_code == 401


@pytest.mark.parametrize("by", ["admin", None])
def test_secrets_do_not_cross_the_network_in_clear_text(by: str | None) -> None:
    """Credentials without TLS from another machine are refused unchecked, unless the settings allow them."""
    api = _api("tag:administrator", address="10.0.0.1")
    headers = None if by else _bearing(TOKEN)
    response = api.get("/api/whoami", by=by, headers=headers)
    assert response.status_code == 401
    assert "HTTPS" in response.json()["reason"]
    api.node.allows_clear_text = True
    assert api.get("/api/whoami", by=by, headers=headers).status_code == 200
