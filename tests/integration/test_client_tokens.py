"""Logins by tokens of an issuer that is known by its name alone, through both clients."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import flintmq.client as fc
import flintmq.client.amqp10 as amqp
from tests.integration.conftest import Connect, Connect10
from tests.servers import BrokerProcess
from tests.tokens import Issuer

EVERYTHING = ("configure:*/*", "write:*/*", "read:*/*")


class Named(Issuer):
    """An issuer at a URL, which is its name."""

    def __init__(self) -> None:
        super().__init__()
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages = {
                    "/.well-known/openid-configuration": {"issuer": issuer.name, "jwks_uri": f"{issuer.name}/keys"},
                    "/keys": issuer.key_set,
                }
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(pages[self.path]).encode())

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is said."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def good(self, seconds: float = 3_600, sub: str = "anna") -> str:
        return self.token(*EVERYTHING, seconds=seconds, iss=self.name, sub=sub)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Named]:
    issuer = Named()
    yield issuer
    issuer.server.shutdown()
    issuer.server.server_close()


@pytest.fixture(scope="module")
def broker(issuer: Named, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings: dict[str, Any] = {"FLINTMQ_OAUTH_ISSUER": issuer.name, "FLINTMQ_OAUTH_RESOURCE_SERVER_ID": "flintmq"}
    with BrokerProcess(tmp_path_factory.mktemp("tokens") / "data", **settings) as running:
        yield running


def test_a_token_is_a_login(connect: Connect, broker: BrokerProcess, issuer: Named) -> None:
    """In place of the URL's user and password, whatever these are, over AMQP 0-9-1."""
    url = broker.url.replace("guest:guest", "x:y")
    with connect(url, token=issuer.good()) as connection, connection.channel(confirms=True) as channel:
        queue = channel.declare_queue("", exclusive=True).name
        assert channel.publish_batch([("", queue, b"m")]) == 1


def test_a_token_is_a_login_over_amqp10(connect_10: Connect10, broker: BrokerProcess, issuer: Named) -> None:
    """The same."""
    with fc.connect(broker.url) as other, other.channel() as channel:
        channel.declare_queue("by-token")
    with connect_10(broker.url.replace("guest:guest", "x:y"), token=issuer.good()) as connection:
        assert isinstance(connection.sender("/queues/by-token").send(amqp.Message(b"")), amqp.Accepted)


def test_a_token_is_renewed(connect: Connect, broker: BrokerProcess, issuer: Named) -> None:
    """A newer one of the same user is taken; somebody else's ends the connection."""
    connection = connect(broker.url, token=issuer.good())
    connection.update_secret(issuer.good(seconds=7_200), "renewed")
    connection.channel().close()
    with pytest.raises(fc.ConnectionClosed, match="530"):
        connection.update_secret(issuer.good(sub="bob"))


def test_a_token_is_renewed_over_amqp10(connect_10: Connect10, broker: BrokerProcess, issuer: Named) -> None:
    """The same: what a newer one grants counts from then on."""
    with fc.connect(broker.url) as other, other.channel() as channel:
        channel.declare_queue("by-token")
        channel.declare_queue("nothing")
    less = issuer.token("write:*/other", iss=issuer.name)
    connection = connect_10(broker.url, token=less)
    with pytest.raises(amqp.LinkDetached):
        connection.sender("/queues/by-token").send(amqp.Message(b""))
    connection.close()
    connection = connect_10(broker.url, token=issuer.good())
    connection.update_secret(issuer.good(seconds=7_200))
    assert isinstance(connection.sender("/queues/by-token").send(amqp.Message(b"")), amqp.Accepted)
    # The links that it took are let go.
    assert len(connection._core._links) == 1
    # It is answered before it is looked at.
    receiver = connection.receiver("/queues/nothing")
    with suppress(amqp.ConnectionEnded, amqp.LinkDetached):
        connection.update_secret(issuer.good(sub="bob"))
    with pytest.raises((amqp.ConnectionEnded, amqp.LinkDetached), match="New secret was refused"):
        receiver.receive(timeout=60.0)
    assert not connection.is_open


def test_passwords_are_not_renewed(connect_10: Connect10, broker: BrokerProcess) -> None:
    """Any secret is fine with who came by one that does not expire."""
    with connect_10(broker.url) as connection:
        connection.update_secret("whatever")
        assert connection.is_open


# Wrong tokens come last: whoever shows ten has to wait.


@pytest.mark.parametrize("seconds", [-1, None])
def test_a_token_that_does_not_count(
    connect: Connect, broker: BrokerProcess, issuer: Named, seconds: float | None
) -> None:
    """One that has expired, or is empty, is a login that was refused, at once; the URL's password is not tried."""
    with pytest.raises(fc.LoginRefused):
        connect(broker.url, token="" if seconds is None else issuer.good(seconds=seconds))


@pytest.mark.parametrize("seconds", [-1, None])
def test_a_token_that_does_not_count_over_amqp10(
    connect_10: Connect10, broker: BrokerProcess, issuer: Named, seconds: float | None
) -> None:
    """The same."""
    with pytest.raises(fc.LoginRefused):
        connect_10(broker.url, token="" if seconds is None else issuer.good(seconds=seconds))
