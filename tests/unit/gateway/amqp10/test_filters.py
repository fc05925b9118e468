"""The filters of a source: which are in place, and what passes them."""

import pytest

from flintmq.base.errors import InvalidField
from flintmq.base.values import Timestamp
from flintmq.base.work import WORK
from flintmq.broker.message import Address, Message
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.amqp10.filters import read_filters
from flintmq.gateway.conversion.parts import write_annotations, write_application, write_properties
from flintmq.wire.amqp091.properties import Properties, encode_properties
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.properties import Properties as Properties10
from flintmq.wire.amqp10.values import Described, Symbol, TimestampMs, UInt, ULong, Uuid


def described(name: str, value: object) -> Fields:
    return {"f": Described(Symbol(name), value)}


def message(**application: object) -> Message:
    head = (
        write_annotations({"x-stream-filter-value": "eu"})
        + write_properties(
            Properties10(message_id=Uuid(bytes(16)), to="t", subject="order", user_id=b"u", group_sequence=2)
        )
        + write_application(application)
    )
    return Message(Address("", "q"), CODEC_10, head, b"", CODEC_10.options(head), 0)


def passes(wanted: Fields, candidate: Message, is_stream: bool = False) -> bool:
    found = read_filters(wanted, is_stream)
    assert found.in_place == wanted
    assert found.condition is not None
    return found.condition.matches(candidate)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("descriptor", [Symbol("apache.org:selector-filter:string"), ULong(0x0000468C00000004)])
def test_a_selector(descriptor: object, is_stream: bool) -> None:
    """Known by either descriptor, whatever the filter is called."""
    wanted: Fields = {"any-name": Described(descriptor, "color = 'red' AND JMSType = 'order'")}
    assert passes(wanted, message(color="red"), is_stream)
    assert not passes(wanted, message(color="blue"), is_stream)
    of_091 = encode_properties(Properties(headers={"color": "red"}, type="order"))
    assert passes(wanted, Message(Address("", ""), CODEC_091, of_091, b"", CODEC_091.options(of_091), 0), is_stream)


def test_a_selector_that_is_none_is_refused() -> None:
    """A consumer that got everything would not notice."""
    with pytest.raises(InvalidField, match="the selector cannot be read: at character"):
        read_filters(described("apache.org:selector-filter:string", "color ="), False)


def test_null_and_unknown_filters_are_not_in_place() -> None:
    """Nor are those that say what cannot be."""
    wanted: Fields = {
        "null": None,
        "unknown": Described(Symbol("example:filter"), 1),
        "sql": Described(Symbol("amqp:sql-filter"), "color ="),
        "properties": Described(Symbol("amqp:properties-filter"), {}),
        "other": Described(Symbol("amqp:properties-filter"), {Symbol("nothing"): "x"}),
        "offset": Described(Symbol("rabbitmq:stream-offset-spec"), "whenever"),
    }
    found = read_filters(wanted, True)
    assert (found.in_place, found.condition, found.arguments) == ({}, None, {})


def test_what_is_not_described_is_no_filter() -> None:
    """amqp-1.0 part 3 §3.5.8."""
    with pytest.raises(InvalidField, match="'bare' is not of a described type"):
        read_filters({"bare": "color = 'red'"}, False)


def test_several_filters_are_all_to_be_passed() -> None:
    """amqp-1.0 part 3 §3.5.8."""
    wanted = described("amqp:sql-filter", "n > 1") | {
        "g": Described(ULong(0x174), {"color": "&p:re"}),
        "h": Described(ULong(0x173), {Symbol("subject"): "&s:der"}),
    }
    assert passes(wanted, message(n=2, color="red"))
    assert not passes(wanted, message(n=2, color="blue"))
    assert not passes(wanted, message(n=1, color="red"))


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"message-id": Uuid(bytes(16))}, True),
        ({"message-id": "m"}, False),
        ({"to": "t", "subject": "order"}, True),
        ({"to": "t", "subject": "other"}, False),
        ({"user-id": b"u"}, True),
        ({"group-sequence": UInt(2)}, True),
        ({"subject": "&p:ord"}, True),
        ({"subject": "&s:ord"}, False),
        ({"subject": "&&p:ord"}, False),
        ({"subject": None}, True),
        ({"reply-to": "r"}, False),
    ],
)
def test_properties(fields: dict[str, object], answer: bool) -> None:
    """Equal values, beginnings and ends of texts; null is like anything."""
    wanted = described("amqp:properties-filter", {Symbol(name): value for name, value in fields.items()})
    assert passes(wanted, message()) is answer


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"n": 7}, True),
        ({"n": 7.0}, True),
        ({"n": True}, False),
        ({"n": "7"}, False),
        ({"yes": True}, True),
        ({"yes": 1}, False),
        ({"kind": Symbol("k")}, True),
        ({"text": "&&amp"}, True),
        ({"when": TimestampMs(5_000)}, True),
        ({"void": None}, True),
        ({"missing": None}, False),
    ],
)
def test_application_properties(fields: dict[object, object], answer: bool) -> None:
    """Numbers of all types are compared by value; a property that is missing is like nothing."""
    candidate = message(n=UInt(7), yes=True, kind="k", text="&amp", when=TimestampMs(5_000), void=None)
    assert passes(described("amqp:application-properties-filter", fields), candidate) is answer


def test_a_stream_is_read_from_where_the_filter_says() -> None:
    """As a consumer of AMQP 0-9-1 would say it."""
    for value, offset in [("first", "first"), (Symbol("next"), "next"), (ULong(5), 5), (7, 7), ("10m", "10m")]:
        found = read_filters(described("rabbitmq:stream-offset-spec", value), True)
        assert found.arguments == {"x-stream-offset": offset}
        assert found.in_place
    found = read_filters(described("rabbitmq:stream-offset-spec", TimestampMs(5_999)), True)
    assert found.arguments == {"x-stream-offset": Timestamp(5)}
    assert not read_filters(described("rabbitmq:stream-offset-spec", "first"), False).in_place


def test_filter_values_choose_on_streams_and_on_queues() -> None:
    """A stream looks for them in its files; a queue is asked for each message."""
    wanted: Fields = {
        "rabbitmq:stream-filter": Described(Symbol("rabbitmq:stream-filter"), ["eu", "us"]),
        "rabbitmq:stream-match-unfiltered": Described(Symbol("rabbitmq:stream-match-unfiltered"), True),
    }
    found = read_filters(wanted, True)
    assert found.arguments == {"x-stream-filter": ["eu", "us"], "x-stream-match-unfiltered": True}
    assert (found.in_place, found.condition) == (wanted, None)
    assert passes(wanted, message())
    assert not passes(described("rabbitmq:stream-filter", "us"), message())


def test_filters_of_streams_may_come_without_a_descriptor() -> None:
    """Older clients of RabbitMQ send them like this."""
    found = read_filters({"rabbitmq:stream-offset-spec": "first"}, True)
    assert found.in_place == {"rabbitmq:stream-offset-spec": Described(Symbol("rabbitmq:stream-offset-spec"), "first")}


def test_no_local() -> None:
    """On queues: messages of streams have no origin."""
    for descriptor in (Symbol("apache.org:no-local-filter:list"), ULong(0x0000468C00000003)):
        wanted: Fields = {"no-local": Described(descriptor, [])}
        assert read_filters(wanted, False).no_local
        assert read_filters(wanted, False).in_place == wanted
        assert not read_filters(wanted, True).in_place


def test_filters_cost_what_they_compare() -> None:
    """A filter of sixteen fields, or of a long text, costs more to ask than one of a short field."""
    one = read_filters(described("amqp:application-properties-filter", {"k0": 1}), False).condition
    many = read_filters(
        described("amqp:application-properties-filter", {f"k{number}": 1 for number in range(16)}), False
    ).condition
    long = read_filters(described("amqp:application-properties-filter", {"k0": "x" * 50_000}), False).condition
    assert one is not None
    assert many is not None
    assert long is not None
    assert many.cost >= one.cost + 15
    assert long.cost >= one.cost + 50_000 // 4_096
    candidate = message(k0=1)
    one.matches(candidate)
    for each in (one, many, long):
        before = WORK.spent
        each.matches(candidate)
        assert WORK.spent - before >= each.cost


def test_a_source_has_a_bound_of_filters() -> None:
    """Expressions of a source are parsed in one go, and more of them than that are refused."""
    wanted: Fields = {}
    for number in range(40):
        wanted[f"f{number}"] = Described(Symbol("amqp:sql-filter"), f"a = '{number}" + "x" * 300 + "'")
    with pytest.raises(InvalidField, match="characters at most"):
        read_filters(wanted, False)
