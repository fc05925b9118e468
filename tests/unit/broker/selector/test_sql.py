"""The SQL of filter expressions: what each construct comes to, and what is none."""

import pytest

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import SELECTOR_DEPTH_MAX, SQL_MAX_CHARACTERS
from flintmq.broker.message import Address, Message
from flintmq.broker.selector.selectors import parsed_sql
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.conversion.parts import HeaderFields, write_application, write_header, write_properties
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp10.properties import Properties as Properties10
from flintmq.wire.amqp10.values import UInt, ULong, Uuid

HEAD = (
    write_header(HeaderFields(True, 7))
    + write_properties(
        Properties10(
            message_id=Uuid(bytes(16)),
            user_id=b"\xff\x01",
            to="/queues/q",
            subject="order.new",
            correlation_id=ULong(42),
            content_type="text/plain",
            creation_time=1_000,
            group_id="g",
            group_sequence=3,
        )
    )
    + write_application({"color": "red", "n": UInt(7), "half": 0.5, "yes": True, "a b": 1, "it]s": 1, "void": None})
)
OF_10 = Message(Address("", "q"), CODEC_10, HEAD, b"", CODEC_10.options(HEAD), 5_000)
PROPERTIES = encode_properties(
    Properties(headers={"color": "red", "n": 7}, app_id="g", message_id="m", reply_to="r", timestamp=1, user_id="u")
)
OF_091 = Message(Address("", "q"), CODEC_091, PROPERTIES, b"", CODEC_091.options(PROPERTIES), 5_000)

TRUE = """
color = 'red'
color = "red"
color <> 'blue'
color != 'blue'
color > 'blue' AND color <= 'red'
properties.subject LIKE 'order.%'
p.subject NOT LIKE '%.old'
p.subject LIKE 'order!.___' ESCAPE '!'
p.correlation_id = 42
p.user_id = 0xFF01
p.message_id = 0x00000000000000000000000000000000
p.group_sequence + 1 = 4
p.creation_time < UTC()
UTC() = 5000
header.priority = 7
h.priority > 6
application_properties.color = 'red'
a.n = 7
n IN (1, 3 + 4)
n NOT IN (1, 2)
n = 7.0
half * 2 = 1
n / 2 = 3.5
n % 4 = 3
-n = -7
n - 2 * 3 = 1
yes
yes = TRUE
NOT (yes = FALSE)
missing IS NULL
void IS NULL
color IS NOT NULL
[a b] = 1
[it]]s] = 1
p.reply_to IS NULL
missing = 1 OR yes
color = 'red' and not n < 0
"""
NOT_TRUE = """
color = 'blue'
missing = 1
NOT (missing = 1)
missing NOT IN (1)
missing LIKE '%'
color = 7
color < 7
n / 0 = 1
n % 0 = 1
half % 1 = 0
n + color = 1
n
yes > FALSE
0xFF < 'text'
"""
NONE = """

color =
color = 'red
= 1
p.nothing = 1
header.ttl = 1
other.color = 1
like = 1
LOWER(color) = 'x'
color LIKE n
color LIKE 'a' ESCAPE 'ab'
color LIKE 'a!' ESCAPE '!'
'a' IS NULL
n BETWEEN 1 AND 2
99999999999999999999 = n
a..b = 1
[a = 1
"""


@pytest.mark.parametrize("text", TRUE.strip().splitlines())
def test_true(text: str) -> None:
    """These are true of the message above."""
    assert parsed_sql(text).matches(OF_10)


@pytest.mark.parametrize("text", NOT_TRUE.strip().splitlines())
def test_false_or_unknown(text: str) -> None:
    """These are false or unknown of it, and do not match."""
    assert not parsed_sql(text).matches(OF_10)


@pytest.mark.parametrize("text", NONE.splitlines())
def test_what_is_none_is_refused(text: str) -> None:
    """With the place where it went wrong."""
    with pytest.raises(PreconditionFailed, match="at character"):
        parsed_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "color = 'red' AND a.n = 7",
        "p.group_id = 'g' AND p.message_id = 'm' AND p.user_id = 0x75",
        "p.reply_to = '/queues/r'",
        "p.creation_time = 1000",
        "h.priority = 4",
        "p.subject IS NULL",
    ],
)
def test_messages_of_0_9_1_have_the_fields_that_they_would_have(text: str) -> None:
    """As conversion gives them."""
    assert parsed_sql(text).matches(OF_091)


def test_limits() -> None:
    """Length, tokens and depth are bounded."""
    for text in ("x" * (SQL_MAX_CHARACTERS + 1), "a = 1" + " OR a = 1" * 60, "(" * 90 + "a" + ")" * 90 + " = 1"):
        if text.startswith("("):
            # Parentheses alone nest nothing.
            assert not parsed_sql(text).matches(OF_10)
            continue
        with pytest.raises(PreconditionFailed, match="at most"):
            parsed_sql(text)
    with pytest.raises(PreconditionFailed, match="within each other"):
        parsed_sql("NOT " * (SELECTOR_DEPTH_MAX + 1) + "yes")
