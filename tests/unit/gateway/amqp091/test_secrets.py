"""connection.update-secret and access.request: what clients do to remain who they are."""

from flintmq.base.errors import ClosedByPeer
from flintmq.gateway.amqp091.connection import ServerConnection
from flintmq.gateway.amqp091.gateway import Gateway, Offer
from flintmq.protocol.amqp091.connection import Tuning
from flintmq.protocol.amqp091.states import State
from flintmq.wire.amqp091 import spec
from flintmq.wire.amqp091.methods import AccessRequest, AccessRequestOk, ConnectionUpdateSecret, encode_method
from tests.unit.gateway.amqp091.pair import Client, OpenHost, Server
from tests.unit.protocol.amqp091.test_connection import close_in, frame


class SlowHost(OpenHost):
    """Answers logins when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[ServerConnection, str, str]] = []

    def authenticate(self, connection: ServerConnection, user: str, password: str) -> None:
        self.asked.append((connection, user, password))

    def answer(self) -> None:
        super().authenticate(*self.asked.pop(0))


class SlowServer(Server):
    def __init__(self) -> None:
        super().__init__()
        self.slow = SlowHost()
        self.gateway = Gateway(self.broker, self.slow, Offer({}, Tuning()), self._random)


def opened() -> Client:
    server = SlowServer()
    client = Client(server)
    server.slow.answer()
    client.tick()
    return client


def asked(client: Client) -> list[tuple[ServerConnection, str, str]]:
    assert isinstance(client.server, SlowServer)
    return client.server.slow.asked


def answer(client: Client) -> None:
    assert isinstance(client.server, SlowServer)
    client.server.slow.answer()
    client.tick()


def test_a_secret_that_is_right_is_accepted_again_and_again() -> None:
    """The user of the login is asked for with the new password, and the client gets its ok; nothing else changes."""
    client = opened()
    channel = client.channel()
    for _ in range(2):
        client.side.engine.update_secret(b"secret", "renewed")
        client.tick()
        assert [(user, password) for _, user, password in asked(client)] == [("u", "secret")]
        assert client.side.renewed == 0
        answer(client)
        assert client.side.renewed == 1
        client.side.renewed = 0
    assert channel.channel.is_open


def test_a_secret_that_is_wrong_closes_the_connection() -> None:
    """530 as RabbitMQ says it, naming connection.update-secret, and not why."""
    client = opened()
    client.side.engine.update_secret(b"wrong", "")
    client.tick()
    answer(client)
    reason = client.closed
    assert isinstance(reason, ClosedByPeer)
    assert (reason.code, reason.text) == (530, "NOT_ALLOWED - New secret was refused by one of the backends")


def test_a_secret_that_is_no_text_is_refused() -> None:
    """Passwords are UTF-8: other bytes are not even asked about."""
    client = opened()
    method = encode_method(ConnectionUpdateSecret(new_secret=b"\xff"))
    client.connection.engine.receive(frame(1, 0, method), 0.0)
    close = close_in(b"".join(client.output.take()))
    assert (close.reply_code, close.class_id << 16 | close.method_id) == (530, spec.CONNECTION_UPDATE_SECRET)
    assert not asked(client)


def test_one_secret_at_a_time() -> None:
    """A flood of them cannot keep the password checker busy: a second one before the answer is 503."""
    client = opened()
    for _ in range(2):
        client.side.engine.update_secret(b"secret", "")
    client.tick()
    reason = client.closed
    assert isinstance(reason, ClosedByPeer)
    assert reason.code == 503
    assert len(asked(client)) == 1
    answer(client)
    assert client.connection.engine.state is State.CLOSED


def test_access_request_gets_a_ticket() -> None:
    """Old clients ask for access to a realm before all else: they get a ticket that says nothing."""
    channel = Client(Server()).channel()
    assert channel.call(AccessRequest(realm="/data")) == [AccessRequestOk(ticket=1)]
