"""connection.update-secret and access.request: what clients do to remain who they are."""

from flintmq.wire.amqp091.methods import AccessRequest, AccessRequestOk
from tests.unit.gateway.amqp091.pair import Client, Server


def test_any_secret_is_accepted_again_and_again() -> None:
    """Passwords do not expire: the client gets its ok, whatever it sends, and nothing else changes."""
    client = Client(Server())
    channel = client.channel()
    for renewed, secret in enumerate((b"secret", b"another", b"\xff"), 1):
        client.side.engine.update_secret(secret, "renewed")
        client.tick()
        assert client.side.renewed == renewed
    assert channel.channel.is_open


def test_access_request_gets_a_ticket() -> None:
    """Old clients ask for access to a realm before all else: they get a ticket that says nothing."""
    channel = Client(Server()).channel()
    assert channel.call(AccessRequest(realm="/data")) == [AccessRequestOk(ticket=1)]
