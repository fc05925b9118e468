"""Logins by every mechanism, and who is offered which."""

import pytest

from flintmq.base.errors import AuthenticationFailed
from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.gateway import LoginPolicy
from flintmq.gateway.login import MECHANISMS, OPEN, Security
from flintmq.protocol.amqp091.connection import Login, Tuning
from flintmq.protocol.output import Outbox, Output
from flintmq.protocol.role import Role
from flintmq.protocol.sasl.scram import NAMES, ClientExchange
from tests.unit.gateway.amqp091.pair import Server
from tests.unit.protocol.amqp091.pair import Side


class Scram(Side):
    """A client that logs in by SCRAM."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self.exchange = ClientExchange(mechanism, user, password, "fyko+d2lbbFgONRv9qkxdawL")
        self.answers = 0
        super().__init__(Role.CLIENT, Tuning(), Login(mechanism, self.exchange.first()))

    def on_challenge(self, challenge: bytes) -> None:
        self.answers += 1
        if self.answers == 1:
            self.engine.respond(self.exchange.answer(challenge))
        else:
            self.exchange.check(challenge)
            self.engine.respond(b"")


class Endless(Scram):
    """A client that goes on answering whatever it is asked."""

    def on_challenge(self, challenge: bytes) -> None:
        self.engine.respond(b"n,,n=u,r=x")


def _meet(server: Server, client: Side, security: Security) -> ServerConnection:
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


@pytest.fixture
def server() -> Server:
    server = Server()
    server.gateway.policy = LoginPolicy(MECHANISMS, "u")
    return server


def _simple(mechanism: str, response: bytes = b"") -> Side:
    return Side(Role.CLIENT, Tuning(), Login(mechanism, response))


@pytest.mark.parametrize("mechanism", NAMES)
def test_scram_by_connection_secure(server: Server, mechanism: str) -> None:
    """A client that never shows its password is let in, once it has seen the server's proof."""
    client = Scram(mechanism, "u", "secret")
    connection = _meet(server, client, OPEN)
    assert connection.engine.is_open
    assert connection.user == "u"
    assert client.answers == 2


@pytest.mark.parametrize(("user", "password"), [("u", "wrong"), ("nobody", "secret")])
def test_scram_refuses(server: Server, user: str, password: str) -> None:
    """Who has no such password, or is no user, gets just as far, and hears the same."""
    client = Scram(NAMES[0], user, password)
    connection = _meet(server, client, OPEN)
    assert connection.engine.is_closed
    assert client.answers == 1
    assert server.host.refused


def test_scram_from_where_somebody_guesses(server: Server) -> None:
    """The proof waits for its turn, and is refused where none comes in time; anybody is challenged."""
    server.host.barred = "too many"
    client = Scram(NAMES[0], "u", "secret")
    connection = _meet(server, client, OPEN)
    assert connection.engine.is_closed
    assert client.answers == 1
    assert server.host.refused == ["too many"]


def test_scram_does_not_go_on_for_ever(server: Server) -> None:
    """The second response has to be the proof."""
    connection = _meet(server, Endless(NAMES[0], "u", "secret"), OPEN)
    assert isinstance(connection.closed, AuthenticationFailed)


def test_external_is_for_clients_with_a_certificate(server: Server) -> None:
    """The certificate says who it is; without one, the mechanism is not offered."""
    connection = _meet(server, _simple("EXTERNAL"), Security(True, "u"))
    assert connection.engine.is_open
    assert connection.user == "u"
    refused = _simple("EXTERNAL")
    _meet(server, refused, Security(True))
    assert "not EXTERNAL" in str(refused.closed[0])


@pytest.mark.parametrize("wished", [b"admin", b"\xff"])
def test_external_acts_for_itself_only(server: Server, wished: bytes) -> None:
    """Nobody logs in as somebody else by EXTERNAL."""
    connection = _meet(server, _simple("EXTERNAL", wished), Security(True, "u"))
    assert connection.engine.is_closed


def test_external_of_no_user(server: Server) -> None:
    """A certificate that names nobody's name is refused."""
    connection = _meet(server, _simple("EXTERNAL"), Security(True, "stranger"))
    assert connection.engine.is_closed
    assert server.host.refused == ["there is no user 'stranger'"]


def test_anonymous_where_it_is_somebody(server: Server) -> None:
    """Anonymous clients are the user that the settings name; where they name none, it is not offered."""
    assert _meet(server, _simple("ANONYMOUS", b"trace"), OPEN).user == "u"
    server.gateway.policy = LoginPolicy(MECHANISMS)
    refused = _simple("ANONYMOUS")
    _meet(server, refused, OPEN)
    assert "not ANONYMOUS" in str(refused.closed[0])


def _with_guest(server: Server, password: str) -> Server:
    """Where logins are checked as `OpenHost` does: everybody's password is "secret", but guest's is this one."""
    server.gateway.policy = LoginPolicy(MECHANISMS)
    server.broker.put_user(UserRecord("guest", ""))
    server.broker.put_rule(PermissionRecord("/", "guest", ".*", ".*", ".*"))
    server.host.passwords["guest"] = password
    return server


def test_anonymous_is_guest_on_this_machine(server: Server) -> None:
    """As in RabbitMQ, whose clients for AMQP 1.0 have URLs without a login."""
    connection = _meet(_with_guest(server, "guest"), _simple("ANONYMOUS", b"trace"), OPEN)
    assert connection.user == "guest"
    assert connection.engine.is_open


@pytest.mark.parametrize("password", ["secret", ""])
def test_anonymous_is_nobody_where_guest_has_another_password(server: Server, password: str) -> None:
    """Who may not come in by name and password that everybody knows may not without them."""
    connection = _meet(_with_guest(server, password), _simple("ANONYMOUS"), OPEN)
    assert connection.engine.is_closed
    assert server.host.refused == []


def test_anonymous_is_nobody_on_another_machine(server: Server) -> None:
    """Guest comes from this machine, with TLS or without: it is not even offered."""
    for security in (Security(), Security(is_encrypted=True)):
        refused = _simple("ANONYMOUS")
        _meet(_with_guest(server, "guest"), refused, security)
        assert refused.closed


def test_a_mechanism_that_was_not_offered(server: Server) -> None:
    """A client cannot choose what the settings leave out, even if it does not look."""
    server.gateway.policy = LoginPolicy(("PLAIN",))
    client = _simple("PLAIN", b"\0u\0secret")
    assert _meet(server, client, OPEN).engine.is_open
    output = Output(Outbox())
    connection = ServerConnection(server.service, output, "test:1")
    connection._login.begin("ANONYMOUS", b"")
    assert server.host.refused == ["mechanism 'ANONYMOUS' is not offered"]
