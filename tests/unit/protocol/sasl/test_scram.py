import pytest

from flintmq.base.errors import AuthenticationFailed, ConfigurationError
from flintmq.protocol.sasl.scram import NAMES, ClientExchange, Keys, ServerExchange, derive_keys, parse_keys

_SALT = b"0123456789abcdef"
_NONCE = "fyko+d2lbbFgONRv9qkxdawL"


def _server(mechanism: str, password: str = "pässword") -> ServerExchange:
    keys = derive_keys(mechanism, password, _SALT)
    return ServerExchange(mechanism, lambda user, name: keys, _NONCE)


@pytest.mark.parametrize("mechanism", NAMES)
def test_both_prove_to_know_the_password(mechanism: str) -> None:
    """The right password lets a client in, and the client sees that the server has keys of it."""
    server, client = _server(mechanism), ClientExchange(mechanism, "an,na=", "pässword", _NONCE)
    challenge = server.challenge(client.first())
    client.check(server.finish(client.answer(challenge)))
    assert server.user == "an,na="


@pytest.mark.parametrize("mechanism", NAMES)
def test_a_wrong_password_is_refused(mechanism: str) -> None:
    """Whoever has another password cannot answer the challenge."""
    server, client = _server(mechanism), ClientExchange(mechanism, "anna", "password", _NONCE)
    with pytest.raises(AuthenticationFailed):
        server.finish(client.answer(server.challenge(client.first())))


@pytest.mark.parametrize("mechanism", NAMES)
def test_an_answer_fits_one_challenge_only(mechanism: str) -> None:
    """What was recorded of one login is of no use with the nonce of another."""
    keys = derive_keys(mechanism, "pw", _SALT)
    client = ClientExchange(mechanism, "anna", "pw", _NONCE)
    first = client.first()
    recorded = client.answer(ServerExchange(mechanism, lambda user, name: keys, _NONCE).challenge(first))
    other = ServerExchange(mechanism, lambda user, name: keys, _NONCE[::-1])
    other.challenge(first)
    with pytest.raises(AuthenticationFailed):
        other.finish(recorded)


@pytest.mark.parametrize(
    "first", [b"", b"n,,", b"\xff", b"n,,n=a,r=", b"n,,n=a,r=x\0", b"p=tls-unique,,n=a,r=x", b"y,,m=a"]
)
def test_rubbish_is_refused(first: bytes) -> None:
    """Whatever comes first is a login or a refusal, and no other error."""
    with pytest.raises(AuthenticationFailed):
        _server("SCRAM-SHA-256").challenge(first)


def test_keys_as_text() -> None:
    """Keys are what they were when they are read again, and tell nothing of the password."""
    keys = derive_keys("SCRAM-SHA-256", "secret", _SALT)
    again = parse_keys(str(keys))
    assert (again.stored_key, again.server_key, again.salt) == (keys.stored_key, keys.server_key, _SALT)
    assert "secret" not in str(keys)
    assert isinstance(again, Keys)
    with pytest.raises(ConfigurationError):
        parse_keys("SCRAM-SHA-256$x")


def test_an_imposter_of_a_server_is_noticed() -> None:
    """A server without the keys cannot prove that it has them."""
    client = ClientExchange("SCRAM-SHA-256", "anna", "pw", _NONCE)
    client.answer(_server("SCRAM-SHA-256").challenge(client.first()))
    with pytest.raises(AuthenticationFailed):
        client.check(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")


def test_a_long_message_is_refused() -> None:
    """Several copies of it would be kept, of somebody who is not known."""
    with pytest.raises(AuthenticationFailed, match="a message of 1025 bytes: it may have 1024"):
        _server("SCRAM-SHA-256").challenge(b"n,,n=a,r=".ljust(1025, b"x"))
    server, client = _server("SCRAM-SHA-256"), ClientExchange("SCRAM-SHA-256", "anna", "pw", _NONCE)
    client.answer(server.challenge(client.first()))
    with pytest.raises(AuthenticationFailed, match="a message of 2000 bytes"):
        server.finish(bytes(2000))
