"""What an AMQP URL says, and what is said about one that says nothing."""

import pytest

from flintmq.client.errors import InvalidUrl
from flintmq.client.url import Target, parse


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("amqp://localhost", Target()),
        ("amqp://localhost/", Target()),
        ("amqp://u:p@h:1/v", Target("h", 1, "u", "p", "v")),
        ("amqp://u@h", Target("h", user="u")),
        ("amqp://:p@h", Target("h", user="", password="p")),
        ("amqp://a%40b:p%3Aq%2F@h/%2F", Target("h", user="a@b", password="p:q/")),
        ("amqp://h/a%2fb%20%C3%BC", Target("h", virtual_host="a/b ü")),
        ("AMQP://[::1]:5673", Target("::1", 5673)),
        ("amqp://u:" + "token" * 100 + "@h", Target("h", user="u", password="token" * 100)),
        ("amqp://h?heartbeat=0", Target("h", heartbeat=0)),
        ("amqp://h/v?connection_timeout=1500&heartbeat=7", Target("h", 5672, "guest", "guest", "v", 7, 1.5)),
    ],
)
def test_a_url_says_where_and_as_whom(url: str, target: Target) -> None:
    """Names are percent-decoded; what is left out has RabbitMQ's defaults."""
    assert parse(url) == target


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("localhost:5672", "must begin with amqp://"),
        ("http://localhost", "must begin with amqp://"),
        ("amqps://localhost/?verify=maybe", "verify_peer or verify_none"),
        ("amqps://localhost/?keyfile=/key.pem", "certfile"),
        ("amqp://localhost/?cacertfile=/ca.pem", "unknown option"),
        ("amqp://", "host is missing"),
        ("amqp:///vhost", "host is missing"),
        ("amqp://h:port", "host and port cannot be read"),
        ("amqp://user:sec/ret@h/v", "%2F"),
        ("amqp://h:0", "port 0"),
        ("amqp://h:70000", "host and port cannot be read"),
        ("amqp://[::1", "brackets"),
        ("amqp://h/a/b", "%2F"),
        ("amqp://h/v#x", "%23"),
        ("amqp://h/%ff", "not UTF-8"),
        ("amqp://u%00@h", "zero character"),
        ("amqp://h/" + "v" * 256, "longer than 255 bytes"),
        ("amqp://h?heartbeats=1", "unknown option 'heartbeats'"),
        ("amqp://h?heartbeat=", "whole number"),
        ("amqp://h?heartbeat=-1", "whole number"),
        ("amqp://h?heartbeat=65536", "65535 seconds or less"),
        ("amqp://h?connection_timeout=0", "1 millisecond"),
    ],
)
def test_a_url_that_is_wrong_says_why(url: str, reason: str) -> None:
    """Nothing is guessed, and the text names the way out."""
    with pytest.raises(InvalidUrl, match=reason):
        parse(url)


@pytest.mark.parametrize("tail", [":x", "/a/b", "?what=1", ":0", "/%ff"])
def test_no_error_repeats_the_password(tail: str) -> None:
    """What is logged of a wrong URL does not give its password away, and neither does a right one."""
    with pytest.raises(InvalidUrl) as caught:
        parse(f"amqp://user:hunter2@host{tail}")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(parse("amqp://user:hunter2@host"))


def test_an_address_reads_as_one() -> None:
    """IPv6 addresses are bracketed, so that the port can be told from them."""
    assert parse("amqp://[::1]:5673").address == "[::1]:5673"
    assert parse("amqp://h").address == "h:5672"
