"""The language of selectors: what each construct comes to, and what is no selector."""

from decimal import Decimal

import pytest

from flintmq.base.errors import PreconditionFailed
from flintmq.base.limits import SELECTOR_DEPTH_MAX, SELECTOR_MAX_CHARACTERS
from flintmq.base.values import Timestamp
from flintmq.broker.message import Address, Message
from flintmq.broker.selector.selectors import Selector, SelectorCache
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.wire.amqp091.properties import Properties, encode_properties

PROPERTIES = encode_properties(
    Properties(
        headers={
            "color": "red",
            "quote": "it's",
            "n": 7,
            "negative": -7,
            "big": 2**63 - 1,
            "half": 0.5,
            "price": Decimal("0.1"),
            "when": Timestamp(1000),
            "yes": True,
            "no": False,
            "void": None,
            "bytes": b"red",
            "list": [1],
            "x-foo": 1,
            'a"b': 1,
            "$d_1": 1,
            "größe": 1,
            "Null1": 1,
            "text": "12%_\n",
        },
        delivery_mode=2,
        priority=5,
        correlation_id="c",
        message_id="m-1",
        timestamp=3,
        type="order",
        app_id="shop",
    )
)
MESSAGE = Message(Address("", "q"), CODEC_091, PROPERTIES, b"", CODEC_091.options(PROPERTIES), 0)

TRUE = """
color = 'red'
color <> 'blue'
quote = 'it''s'
COLOR IS NULL
color IS NOT NULL
void is null
yes
yes = TRUE
no <> true
NOT no
(n > 6) = TRUE
n = 7 AND n=7.0 and n = 7L and n = 0x7 and n = 07 and n = 7d and n = .7e1
n < 8 AND n <= 7 AND n > 6 AND n >= 7 AND n <> 8
7 = n
n + 1 = 8
n - 1 - 1 = 5
2 + n * 2 = 16
(2 + n) * 2 = 18
n / 2 = 3
negative / 2 = -3
n / 2.0 = 3.5
n / -2 = -3
12 / 2 / 3 = 2
-n = negative
- -n = +n
-(n + 1) = -8
half * 2 = 1
price = 0.1
when = 1000
big = 9223372036854775807
-big - 1 = -9223372036854775808
n BETWEEN 7 AND 8
n BETWEEN 6 AND 7 AND color = 'red'
n NOT BETWEEN 8 AND 9
n + 1 between n and n + 2
color IN ('blue', 'red')
color NOT IN ('blue')
n IN (1, 7)
negative IN (-7.0)
color LIKE 'red'
color LIKE 'r%'
color LIKE '%d'
color LIKE '%e%'
color LIKE '_e_'
color LIKE '%'
color NOT LIKE 're'
text LIKE '12!%!__' ESCAPE '!'
text LIKE '12\\%\\_%' ESCAPE '\\'
quote LIKE '%''s'
"x-foo" = 1
"a""b" = 1
"color" = 'red'
$d_1 = 1
größe = 1
Null1 = 1
properties.message_id = 'm-1'
properties.app_id LIKE 'sh%'
JMSMessageID = 'm-1' AND JMSCorrelationID = 'c' AND JMSType = 'order'
JMSPriority = 5 AND JMSDeliveryMode = 'PERSISTENT' AND JMSTimestamp = 3000
none = 1 OR color = 'red'
NOT (none = 1 AND color = 'blue')
color = 'blue' OR n = 7 AND yes
NOT color = 'blue' AND yes
bytes IS NOT NULL AND list IS NOT NULL
1 = 1
TRUE
"""

# What is false, so that its opposite is true.
FALSE = """
color = 'blue'
color = 'red '
color = 'RED'
color = 7
color <> 7
n = '7'
yes = 1
yes <> 'true'
bytes = 'red'
list = 1
color < 1
yes > 0
color BETWEEN 1 AND 2
color NOT BETWEEN 1 AND 2
n IN ('7')
yes IN (1)
n LIKE '7'
color LIKE 'e'
color LIKE '%e'
color LIKE 're_d'
color LIKE ''
none IS NOT NULL
color IS NULL
none = 1 AND color = 'blue'
color = 'blue' AND none = 1
no
FALSE
n > 7
(color = 'red' OR color = 'blue') AND n = 8
"""

# What is neither, and neither is its opposite.
UNKNOWN = """
none
none = 1
none <> 1
none = void
none + 1 > 0
none LIKE '%'
none IN ('a')
none BETWEEN 1 AND 2
n BETWEEN none AND 8
n NOT BETWEEN 7 AND none
n NOT BETWEEN none AND 8
none = 1 AND color = 'red'
none = 1 OR color = 'blue'
color
n / 0 = 1
n / 0.0 = 1
0 / 0.0 = 1
big + 1 > 0
-big - 2 < 0
big * big > 0
1e308 * 10 > 0
color + 1 > 0
yes + 1 > 0
-color = 1
when IS NOT NULL AND none > when
"""


def lines(table: str) -> list[str]:
    return table.strip().splitlines()


def selects(text: str) -> bool:
    return SelectorCache(1).get(text).matches(MESSAGE)


@pytest.mark.parametrize("text", lines(TRUE))
def test_what_is_true(text: str) -> None:
    """A selector that is true selects, and its opposite does not."""
    assert (selects(text), selects(f"NOT ({text})")) == (True, False)


@pytest.mark.parametrize("text", lines(FALSE))
def test_what_is_false(text: str) -> None:
    """A selector that is false does not select, and its opposite does."""
    assert (selects(text), selects(f"NOT ({text})")) == (False, True)


@pytest.mark.parametrize("text", lines(UNKNOWN))
def test_what_is_unknown(text: str) -> None:
    """What is asked of missing fields, or cannot be computed, selects neither way."""
    assert (selects(text), selects(f"NOT ({text})")) == (False, False)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a =", "at character 4 (the end): expected a name, a string, a number, ("),
        ("a = 1 AND", "at character 10 (the end): expected a name, a string, a number, ("),
        ("a b", "at character 3 (b): expected a comparison, BETWEEN, IN, LIKE, IS, AND, OR, the end"),
        ("(a = 1", "at character 7 (the end): expected )"),
        ("a = 1)", "at character 6 ()): expected the end"),
        ("a = 1 = 2", "at character 7 (=): expected AND, OR, the end"),
        ("a NOT 1", "at character 7 (1): expected BETWEEN, IN, LIKE"),
        ("x IN ()", "at character 7 ()): expected a string, a number"),
        ("x IN (b)", "at character 7 (b)): expected a string, a number"),
        ("NULL = 1", "at character 1 (NULL): expected a name, a string, a number, ("),
        ("a = 'x", "at character 5 ('x): a string that does not end; within one, ' is written twice"),
        ('"" = 1', 'at character 1 (""): a name in quotation marks that is empty, or does not end'),
        ("a ! b", "at character 3 (!): no selector has such a character"),
        ("a = 08", "at character 6 (8): expected AND, OR, the end"),
        ("1", "at character 1 (1): expected a condition, such as a comparison, and this is a number"),
        ("a OR 'a'", "at character 6 ('a'): expected a condition, such as a comparison, and this is a string"),
        ("NOT 1 + 1", "at character 5 (1): expected a condition, such as a comparison, and this is a number"),
        ("a + 'b' > 1", "at character 5 ('b'): expected a number, and this is a string"),
        ("a > 'b'", "at character 5 ('b'): only numbers are in an order, and this is a string"),
        ("TRUE > a", "at character 1 (TRUE): only numbers are in an order, and this is a condition"),
        ("a BETWEEN 'a' AND 'b'", "at character 11 ('a'): expected a number, and this is a string"),
        ("1 LIKE 'a'", "at character 1 (1): LIKE compares strings, and this is a number"),
        ("a LIKE b", "at character 8 (b): expected a string"),
        ("a LIKE 'x!y' ESCAPE '!'", "at character 8 ('x!y'): ! must be followed by %, _ or itself"),
        ("a LIKE 'x!' ESCAPE '!'", "at character 8 ('x!'): ! must be followed by %, _ or itself"),
        ("a LIKE 'x' ESCAPE 'ab'", "at character 19 ('ab'): one character escapes"),
        ("a + 1 IS NULL", "at character 1 (a): IS NULL is asked of a name"),
        ("a = 9223372036854775808", "at character 5 (9223372036854775): whole numbers have 64 bits"),
        ("a = 1e999", "at character 5 (1e999): the number is too large"),
        ("JMSReplyTo = 'a'", "at character 1 (JMSReplyTo): selectors cannot ask for this one"),
    ],
)
def test_what_is_no_selector(text: str, fault: str) -> None:
    """An error says where, what stands there, and what is wrong with it."""
    with pytest.raises(PreconditionFailed) as refused:
        selects(text)
    assert refused.value.text == fault


def test_unknown_property_is_refused() -> None:
    """A property there is not is a mistake, and not a header that happens to be missing."""
    with pytest.raises(PreconditionFailed, match=r"at character 1 \(properties.foo\): property 'foo' is unknown"):
        selects("properties.foo = 1")


@pytest.mark.parametrize("within", ["NOT ({})", "-({}) = 1", "({}) + 1 > 0"])
def test_depth_is_bounded(within: str) -> None:
    """Expressions within each other have a limit; parentheses alone are no expressions, and have none."""
    assert not selects("(" * 1000 + "no" + ")" * 1000)
    deep = "a"
    while len(deep) + len(within) < SELECTOR_MAX_CHARACTERS:
        deep = within.format(deep)
    with pytest.raises(PreconditionFailed, match="within each other|expected a number"):
        selects(deep)
    assert selects("NOT " * SELECTOR_DEPTH_MAX + "yes")
    with pytest.raises(PreconditionFailed, match=f"more than {SELECTOR_DEPTH_MAX} expressions are within each other"):
        selects("NOT " * (SELECTOR_DEPTH_MAX + 1) + "yes")


def test_length_is_bounded() -> None:
    """A selector of the greatest length is understood, and one that is longer refused unread."""
    longest = "color = 'red'".ljust(SELECTOR_MAX_CHARACTERS)
    assert selects(longest)
    with pytest.raises(PreconditionFailed, match=f"{SELECTOR_MAX_CHARACTERS + 1} characters, at most"):
        selects(longest + " ")


def test_patterns_do_not_go_back() -> None:
    """LIKE takes a time that grows with the value alone, for patterns that make others try every way."""
    text = "a" * 20_000
    properties = encode_properties(Properties(headers={"a": text}))
    long = Message(Address("", "q"), CODEC_091, properties, b"", CODEC_091.options(properties), 0)
    assert not SelectorCache(1).get("a LIKE '" + "%a_" * 100 + "b'").matches(long)
    assert SelectorCache(1).get("a LIKE '" + "%a_" * 100 + "%'").matches(long)


def test_parsed_selectors_are_remembered() -> None:
    """The same text is parsed once while it is among those asked for last."""
    parsed = SelectorCache(2)

    def get(text: str) -> Selector:
        return parsed.get(text)

    first = get("a = 1")
    second = get("a = 2")
    assert get("a = 1") is first
    get("a = 3")
    assert get("a = 1") is first
    assert get("a = 2") is not second
