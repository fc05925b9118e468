"""Logins by tokens, over both protocols: by their own mechanism, or in place of a password; renewed, and expired."""

from collections.abc import Callable

import pytest

from flintmq.base.errors import AccessRefused, AuthenticationFailed, ClosedByPeer, EndedByPeer, NotAllowed
from flintmq.broker.access.bearer import Bearer
from flintmq.broker.access.scopes import Scopes
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.gateway import LoginPolicy
from flintmq.gateway.login import MECHANISMS, OPEN, Security
from flintmq.protocol.amqp091.connection import Login, Tuning
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl import oauthbearer
from flintmq.wire.amqp091.methods import BasicGet, QueueDeclare
from tests.unit.gateway.amqp091.pair import NOTIFIED, Client, Server
from tests.unit.gateway.amqp10.pair import Client as Client10
from tests.unit.gateway.amqp10.pair import Server as Server10
from tests.unit.protocol.amqp091.pair import Side

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJl"
NEWER = TOKEN.replace("c2ln", "AAAA")
POLICY = LoginPolicy(MECHANISMS, takes_tokens=True)


def _bearer(*scopes: str, name: str = "anna", expires_ms: int = 60_000) -> Bearer:
    return Bearer(name, Scopes(scopes), expires_ms)


@pytest.fixture
def server() -> Server:
    server = Server()
    server.gateway.policy = POLICY
    server.broker.now_ms = 1_000
    server.host.bearers[TOKEN] = _bearer("configure:%2F/q", "read:%2F/q")
    return server


def test_a_token_for_a_password(server: Server) -> None:
    """Clients that know of no tokens send one as the password: what it says counts, and not the name beside it."""
    client = Client(server, password=TOKEN, user="whoever")
    assert client.connection.user == "anna"
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    channel.call(QueueDeclare(queue="other"))
    assert isinstance(channel.closed, ClosedByPeer)
    assert "configure access to queue 'other' in vhost '/' refused for user 'anna'" in str(channel.closed)


def test_a_password_that_reads_like_a_token(server: Server) -> None:
    """Is one where nobody's tokens count."""
    server.gateway.policy = LoginPolicy(MECHANISMS)
    client = Client(server, password=TOKEN)
    assert "Login was refused using authentication mechanism PLAIN" in str(client.closed)


def test_a_virtual_host_that_the_token_does_not_name(server: Server) -> None:
    """It is closed, as to a user without permissions."""
    server.broker.add_vhost("other")
    client = Client(server, password=TOKEN, vhost="other")
    assert "access to vhost 'other' refused for user 'anna'" in str(client.closed)


class OAuth(Side):
    """A client that logs in by OAUTHBEARER, and says what it has to when it is told that its token is no good."""

    def __init__(self, token: str) -> None:
        self.challenges: list[bytes] = []
        super().__init__(Role.CLIENT, Tuning(), Login("OAUTHBEARER", oauthbearer.response(token), "/", NOTIFIED))

    def on_challenge(self, challenge: bytes) -> None:
        self.challenges.append(challenge)
        self.engine.respond(b"\x01")


def _meet(server: Server, client: Side, security: Security = OPEN) -> ServerConnection:
    output = Output(Outbox())
    connection = ServerConnection(server.service, output, "test:1", security)
    while True:
        up, down = client.sent(), b"".join(output.take())
        if not up and not down:
            return connection
        if up:
            connection.engine.receive(up, 0.0)
        if down:
            client.engine.receive(down, 0.0)


def test_oauthbearer(server: Server) -> None:
    """A token by the mechanism that is made for them."""
    connection = _meet(server, OAuth(TOKEN))
    assert connection.engine.is_open
    assert connection.user == "anna"


def test_oauthbearer_with_a_token_that_is_no_good(server: Server) -> None:
    """The client is told so, answers, and only then is refused (RFC 7628 §3.2.3)."""
    client = OAuth(NEWER)
    assert _meet(server, client).closed is not None
    assert client.challenges == [b'{"status":"invalid_token"}']
    assert "Login was refused using authentication mechanism OAUTHBEARER" in str(client.closed[0])


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_responses_that_are_none(response: bytes) -> None:
    """What is not of the mechanism's form holds no token."""
    with pytest.raises(AuthenticationFailed):
        oauthbearer.token(response)


def test_the_end_of_a_token(server: Server) -> None:
    """Is the end of its connection, even where nothing comes."""
    client = Client(server, password=TOKEN)
    server.broker.now_ms = 59_999
    client.tick()
    assert not client.side.closed
    assert server.broker.next_due_ms == 60_000
    server.broker.now_ms = 60_001
    client.tick()
    assert "credential expired" in str(client.closed)


def test_nothing_is_left_of_a_connection_that_ended(server: Server) -> None:
    """Nor does the broker wake up for it."""
    client = Client(server, password=TOKEN)
    client.side.engine.close()
    client.tick()
    assert server.broker.next_due_ms == 0


def test_a_token_is_renewed(server: Server) -> None:
    """The connection lives as long as the newer one, and may do what that says, on channels that are open, too."""
    client = Client(server, password=TOKEN)
    channel = client.channel()
    channel.call(QueueDeclare(queue="q"))
    server.host.bearers[NEWER] = _bearer("write:%2F/*", expires_ms=120_000)
    client.side.engine.update_secret(NEWER.encode(), "renewed")
    client.tick()
    assert client.side.renewed == 1
    server.broker.now_ms = 60_001
    client.tick()
    assert not client.side.closed
    channel.call(BasicGet(queue="q"))
    assert "read access to queue 'q'" in str(channel.closed)
    server.broker.now_ms = 120_001
    client.tick()
    assert "credential expired" in str(client.closed)


@pytest.mark.parametrize("name", ["", "otto"])
def test_a_newer_token_that_does_not_count(server: Server, name: str) -> None:
    """One that is no good, or somebody else's, ends the connection with 530, as RabbitMQ has it."""
    client = Client(server, password=TOKEN)
    if name:
        server.host.bearers[NEWER] = _bearer("read:*/*", name=name)
    client.side.engine.update_secret(NEWER.encode(), "renewed")
    client.tick()
    assert isinstance(client.connection.closed, NotAllowed)
    assert "New secret was refused by one of the backends" in str(client.closed)


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN", "OAUTHBEARER"])
def test_secrets_do_not_cross_the_network_in_clear_text(server: Server, mechanism: str) -> None:
    """Mechanisms that show one are offered with TLS, on this machine, or where the settings allow it."""
    far, secure = Security(), Security(is_encrypted=True)
    connection = ServerConnection(server.service, Output(Outbox()), "10.0.0.1:1", far)
    assert mechanism not in connection._login.mechanisms
    assert "SCRAM-SHA-256" in connection._login.mechanisms
    connection._login.begin(mechanism, b"\0u\0secret")
    (why,) = server.host.refused
    assert why.startswith(f"mechanism '{mechanism}' is not offered in clear text to clients on other machines")
    for security in (secure, OPEN):
        connection = ServerConnection(server.service, Output(Outbox()), "10.0.0.1:1", security)
        assert mechanism in connection._login.mechanisms
    server.gateway.policy = LoginPolicy(MECHANISMS, takes_tokens=True, allows_clear_text=True)
    assert mechanism in ServerConnection(server.service, Output(Outbox()), "10.0.0.1:1", far)._login.mechanisms


# -- AMQP 1.0 ----------------------------------------------------------------------------------------------------


@pytest.fixture
def server_10() -> Server10:
    server = Server10()
    server.gateway.policy = POLICY
    server.broker.now_ms = 1_000
    server.queue("q")
    server.host.bearers[TOKEN] = _bearer("read:%2F/q")
    return server


def test_a_token_over_amqp_10(server_10: Server10) -> None:
    """It says what its bearer may do, and when the connection ends."""
    client = Client10(server_10, password=TOKEN)
    assert client.connection.user == "anna"
    access = client.connection.access
    assert access is not None
    access.rights.check("read", "queue", "q")
    with pytest.raises(AccessRefused):
        access.rights.check("write", "queue", "q")
    server_10.broker.now_ms = 60_001
    client.tick()
    (reason,) = client.closed
    assert isinstance(reason, EndedByPeer)
    assert (reason.condition, "credential expired" in str(reason)) == ("amqp:unauthorized-access", True)


def test_a_token_is_renewed_over_amqp_10(server_10: Server10) -> None:
    """By /management, as RabbitMQ has it; one that is no good ends the connection."""
    client = Client10(server_10, password=TOKEN)
    server_10.host.bearers[NEWER] = _bearer("write:%2F/q", expires_ms=120_000)
    client.connection.renew(NEWER.encode())
    server_10.broker.now_ms = 60_001
    client.tick()
    assert not client.closed
    client.connection.renew(b"no token")
    client.tick()
    (reason,) = client.closed
    assert isinstance(reason, EndedByPeer)
    assert reason.condition == "amqp:unauthorized-access"


def test_tokens_that_come_while_another_is_checked(server_10: Server10, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are answered before the check: the newest of the tokens that came meanwhile is checked next."""
    client = Client10(server_10, password=TOKEN)
    server_10.host.bearers[NEWER] = _bearer("write:%2F/q", expires_ms=120_000)
    checks: list[tuple[str, Callable[[str, Bearer | None], None]]] = []
    monkeypatch.setattr(
        type(server_10.host), "check_token", lambda host, peer, token, is_wanted, answer: checks.append((token, answer))
    )
    for token in (TOKEN, "superseded", NEWER):
        client.connection.renew(token.encode())
    for _ in range(2):
        token, answer = checks.pop()
        answer("", server_10.host.bearers[token])
    assert not checks
    server_10.broker.now_ms = 60_001
    client.tick()
    assert not client.closed
    server_10.broker.now_ms = 120_001
    client.tick()
    assert len(client.closed) == 1
