"""Laws of conversion between the protocols: there and back, a message is what it was; nothing that came in fails."""

from struct import pack

from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from flintmq.base.values import Timestamp
from flintmq.gateway.conversion import names
from flintmq.gateway.conversion.lossless import to_091, to_10
from flintmq.gateway.conversion.parts import (
    HeaderFields,
    read_annotations,
    read_application,
    read_header,
    read_properties,
    split,
    split_body,
    write_annotations,
    write_application,
    write_header,
    write_properties,
)
from flintmq.gateway.conversion.plain import plain
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties, scan
from flintmq.wire.amqp091.tables import push_shortstr
from flintmq.wire.amqp10 import sections as wire
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.properties import Properties as Properties10
from flintmq.wire.amqp10.values import Array, Symbol, TimestampMs, UInt, ULong
from flintmq.wire.amqp10.writer import encode_value
from tests.property.test_amqp091_codec import properties as properties_091
from tests.property.test_amqp091_codec import shortstrs
from tests.property.test_amqp10_codec import UINT, _composites, annotations, simple, texts, values

headers = st.builds(
    HeaderFields,
    st.sampled_from([None, True, False]),
    st.one_of(st.none(), st.integers(0, 255)),
    st.one_of(st.none(), UINT),
    st.sampled_from([None, True, False]),
    st.one_of(st.none(), UINT),
)
# Not those that speak for a header which says nothing: on the way back, they are in the header (test_rules.py).
known = st.sampled_from(
    [
        names.TYPE,
        names.COPIES,
        names.DEATHS,
        names.RECEIVED,
        names.HEADERS,
        names.CARRIED_PROPERTIES,
        "x-death",
        "x-stream-filter-value",
        "CC",
        "x-foo",
    ]
)
all_annotations = st.one_of(annotations, st.dictionaries(known, st.one_of(simple, values), max_size=4))
applications = st.dictionaries(st.one_of(texts, known, st.text(max_size=300)), st.one_of(simple, values), max_size=5)
bodies = st.one_of(
    st.lists(st.one_of(st.binary(max_size=30), st.binary(min_size=250, max_size=260)), max_size=3).map(
        lambda parts: b"".join(wire.encode_data(part) for part in parts)
    ),
    st.lists(st.lists(values, max_size=2), min_size=1, max_size=2).map(
        lambda parts: b"".join(wire.encode_sequence(part) for part in parts)
    ),
    values.map(wire.encode_amqp_value),
)
footers = st.one_of(st.just(b""), annotations.map(wire.encode_footer))


def _utf8(text: str) -> bool:
    try:
        return bool(text.encode()) or True
    except UnicodeEncodeError:
        return False


def _said(head: bytes, body: bytes) -> list[object]:
    """All that a message says, with its types, whichever way it is encoded."""
    sections = split(head)
    header = read_header(sections.header)
    parts = split_body(body)
    return [
        header.durable is True,
        header.priority,
        header.ttl,
        header.first_acquirer is True,
        header.delivery_count or 0,
        write_annotations(read_annotations(sections.annotations)),
        write_properties(read_properties(sections.properties)),
        write_application(read_application(sections.application)),
        parts.data if parts.data is not None else body,
        parts.footer,
    ]


@given(headers, all_annotations, _composites(spec.PROPERTIES), applications, bodies, footers)
def test_a_message_of_1_0_comes_back_with_all_it_said(
    header: HeaderFields,
    around: dict[str | int, object],
    properties: Properties10,
    application: dict[str, object],
    body: bytes,
    footer: bytes,
) -> None:
    """Values and types, order and sections: whatever 0-9-1 has no place for goes along."""
    application = {name: value for name, value in application.items() if _utf8(name)}
    head = (
        write_header(header) + write_annotations(around) + write_properties(properties) + write_application(application)
    )
    form, content = to_091(head, body + footer)
    scan(form)
    again, content_again = to_10(form, content)
    assert _said(again, content_again) == _said(head, body + footer)


@given(properties_091, st.binary(max_size=50))
@example(Properties(type=names.ENCODED_TYPE), b"nothing of the kind")
@example(Properties(type=names.ENCODED_TYPE), wire.encode_data(b"data"))
@example(Properties(type=names.ENCODED_TYPE), wire.encode_amqp_value("value"))
@example(Properties(headers={}), b"")
@example(Properties(headers={"a": 1, "x-b": 2, "c": 3}), b"")
def test_a_message_of_0_9_1_comes_back_byte_for_byte(properties: Properties, body: bytes) -> None:
    """Properties and body, whatever tags its headers have and whatever order."""
    encoded = encode_properties(properties)
    assert to_091(*to_10(encoded, body)) == (encoded, body)


def _long(content: bytes) -> bytes:
    return pack(">I", len(content)) + content


# By their sizes, the tags of values that have one.
FIXED = {0: b"V", 1: b"tbB", 2: b"sUu", 4: b"Iif", 5: b"D", 8: b"lLdT"}


def _fixed(size: int) -> st.SearchStrategy[bytes]:
    tags = st.sampled_from([bytes([tag]) for tag in FIXED[size]])
    return st.tuples(tags, st.binary(min_size=size, max_size=size)).map(b"".join)


fixed = st.sampled_from(sorted(FIXED)).flatmap(_fixed)
strings = st.tuples(st.sampled_from([b"S", b"x"]), st.binary(max_size=20)).map(lambda each: each[0] + _long(each[1]))
keys = st.one_of(
    shortstrs,
    known,
    st.just(names.PROPERTIES_091),
    st.sampled_from(sorted({names.CARRIED_APPLICATION, names.CARRIED_DATA})),
)


def _entry(key: str, value: bytes) -> bytes:
    w = BytesWriter()
    push_shortstr(w, key, "key")
    return w.getvalue() + value


def _table(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.builds(_entry, keys, inner), max_size=4).map(lambda entries: _long(b"".join(entries)))


raw_values: st.SearchStrategy[bytes] = st.recursive(
    st.one_of(fixed, strings),
    lambda inner: st.one_of(
        _table(inner).map(lambda raw: b"F" + raw),
        st.lists(inner, max_size=4).map(lambda items: b"A" + _long(b"".join(items))),
    ),
    max_leaves=12,
)
_around: st.SearchStrategy[dict[str | int, object]] = st.dictionaries(known, simple, max_size=3)
sections_as_values = st.one_of(
    _composites(spec.PROPERTIES).map(lambda found: b"x" + _long(encode_value(found))),
    st.dictionaries(texts, simple, max_size=3).map(lambda found: b"x" + _long(write_application(found))),
    _around.map(lambda found: b"x" + _long(write_annotations(found))),
    st.binary(max_size=12).map(lambda raw: b"x" + _long(raw)),
)
carried = st.sampled_from(
    [
        names.CARRIED_ANNOTATIONS,
        names.CARRIED_APPLICATION,
        names.CARRIED_DATA,
        names.CARRIED_FOOTER,
        names.CARRIED_HEADER,
        names.CARRIED_PROPERTIES,
    ]
)


@given(_table(raw_values), st.binary(max_size=20))
def test_every_tag_comes_back_byte_for_byte(table: bytes, body: bytes) -> None:
    """Also keys that are there twice, tags that mean the same, and numbers that have another form."""
    encoded = b"\x20\x00" + table
    scan(encoded)
    assert to_091(*to_10(encoded, body)) == (encoded, body)


@given(
    st.lists(st.builds(_entry, carried, sections_as_values), min_size=1, max_size=2),
    st.lists(st.builds(_entry, keys, st.one_of(fixed, strings)), max_size=2),
    properties_091,
    st.binary(max_size=20),
)
def test_whatever_a_client_writes_into_the_headers_of_conversion_is_converted(
    entries: list[bytes], others: list[bytes], properties: Properties, body: bytes
) -> None:
    """Sections that contradict the rest, belong to nothing, or are none: something readable comes out."""
    properties.headers = None
    plain = encode_properties(properties)
    at = 2 + sum(
        1 + len(each.encode()) for each in (properties.content_type, properties.content_encoding) if each is not None
    )
    encoded = bytes([plain[0] | 0x20]) + plain[1:at] + _long(b"".join(entries + others)) + plain[at:]
    scan(encoded)
    head, content = to_10(encoded, body)
    wire.scan(head + content)
    assert to_091(head, content) == (encoded, body)


@given(_composites(spec.PROPERTIES), st.dictionaries(shortstrs, simple, max_size=3), shortstrs)
def test_what_a_client_of_0_9_1_changes_is_changed_and_the_rest_is_as_it_was(
    properties: Properties10, application: dict[str, object], key: str
) -> None:
    """Somebody gets a message, changes its message-id, adds a header, and publishes it again."""
    head = write_properties(properties) + write_application(application)
    form, content = to_091(head, wire.encode_data(b"body"))
    changed = decode_properties(form)
    changed.message_id = "changed"
    if changed.headers is None:
        changed.headers = {}
    changed.headers.pop("added", None)
    changed.headers["added"] = "here"
    sections = split(to_10(encode_properties(changed), content)[0])
    said = read_properties(sections.properties)
    properties.message_id = "changed"
    assert said == properties
    # Numbers went through the client's hands, who has fewer types of them.
    had = {name: value for name, value in application.items() if name != "added"}
    found = read_application(sections.application)
    assert found.pop("added") == "here"
    assert {name: repr(plain(value)) for name, value in found.items()} == {
        name: repr(plain(value)) for name, value in had.items()
    }


def test_receivers_are_told_more_and_may_send_it_back() -> None:
    """Where a message was published to is said in annotations, and does not make it another one."""
    encoded = encode_properties(Properties(headers={"a": [1], "x-b": 1, "c": 2}, cluster_id="c"))
    head, content = to_10(encoded, b"body")
    sections = split(head)
    annotations = read_annotations(sections.annotations)
    annotations |= {names.EXCHANGE: "", names.ROUTING_KEY: "q"}
    sections.annotations = write_annotations(annotations)
    assert to_091(sections.encoded(), content) == (encoded, b"body")
    sections.application = write_application({"c": 3})
    headers = decode_properties(to_091(sections.encoded(), content)[0]).headers
    assert headers is not None
    assert {"x-b": 1, "c": 3, "a": [1]}.items() <= headers.items()


def test_deaths_are_told_in_both_protocols() -> None:
    """x-opt-deaths becomes x-death as 0-9-1 knows it."""
    death: dict[object, object] = {
        Symbol("ttl"): UInt(5),
        Symbol("queue"): "q",
        Symbol("reason"): Symbol("expired"),
        Symbol("count"): ULong(2),
        Symbol("first-time"): TimestampMs(1_700_000_000_123),
        Symbol("last-time"): TimestampMs(1_700_000_009_000),
        Symbol("exchange"): "",
        Symbol("routing-keys"): Array("string", ["q"]),
    }
    head = write_annotations({names.DEATHS: Array("map", [death])})
    form, _ = to_091(head, wire.encode_data(b""))
    headers = decode_properties(form).headers
    assert headers is not None
    assert headers["x-death"] == [
        {
            "count": 2,
            "exchange": "",
            "queue": "q",
            "reason": "expired",
            "routing-keys": ["q"],
            "time": Timestamp(1_700_000_000),
            "original-expiration": "5",
        }
    ]
    assert read_annotations(split(to_10(form, b"")[0]).annotations)[names.DEATHS] == Array("map", [death])
