"""What published messages are taken apart into, one after the other."""

import itertools

from flintmq.base.errors import Amqp10Error, AmqpError
from flintmq.broker.access.user import User
from flintmq.broker.ports import UserRecord
from flintmq.gateway.amqp10.message_parser import MessageParser
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.sections import (
    encode_amqp_value,
    encode_application_properties,
    encode_data,
    encode_delivery_annotations,
    encode_footer,
    encode_header,
    encode_message_annotations,
    encode_properties,
    encode_sequence,
)

_DURABLE = encode_header(True, 4, None, False, 0)
_URGENT = encode_header(False, 9, 1000, False, 0)
_COPIES = encode_message_annotations({"x-cc": ["k"]})
_BAD_COPIES = encode_message_annotations({"x-cc": 5})
_NEXT_HOP = encode_delivery_annotations({"x": 1})
_TO = encode_properties(Properties(to="/queues/q", subject="s"))
_OTHER = encode_properties(Properties(user_id=b"somebody else"))
_OURS = encode_properties(Properties(user_id=b"guest"))
_APPLICATION = encode_application_properties({"a": 1})
_BEFORE = [
    b"",
    _DURABLE,
    _URGENT,
    _DURABLE + _COPIES,
    _DURABLE + _BAD_COPIES,
    _DURABLE + _NEXT_HOP,
    _DURABLE + _NEXT_HOP + _COPIES,
    _DURABLE + _TO,
    _DURABLE + _TO + _APPLICATION,
    _OTHER,
    _OURS,
    # Lists that say they have more than there is: without a count, without fields, with a field that is cut off.
    b"\x00\x53\x73\xc0\x00",
    b"\x00\x53\x73\xc0\x01\x03",
    b"\x00\x53\x73\xd0\x00\x00\x00\x04\x00\x00\x00\x03",
    b"\x00\x53\x73\xc0\x04\x02\x40\xa0\x09",
]
_BODIES = [
    encode_data(b"one"),
    encode_data(b"x" * 300),
    encode_data(b"one") + encode_data(b"two"),
    encode_amqp_value("text"),
    encode_amqp_value("x" * 300),
    encode_amqp_value(5),
    encode_sequence([1]),
    encode_data(b"one") + encode_footer({"f": 1}),
    encode_properties(Properties(subject="t")) + encode_data(b"one"),
    b"",
    encode_data(b"one")[:-1],
    encode_amqp_value("text")[:-1],
    b"\x00\x53\x77",
    b"\x00\x53\x75\x40",
]


def test_what_is_said_of_a_message_does_not_depend_on_the_one_before() -> None:
    """Each message is read as by somebody who sees it first, also behind one that was refused."""
    payloads = [before + body for before, body in itertools.product(_BEFORE, _BODIES)]
    fresh = {payload: _read(MessageParser(User(UserRecord("guest", ""))), payload) for payload in payloads}
    firsts = [before + body for before, body in itertools.product(_BEFORE, (encode_data(b"zero"), b"\x00\x53\x77"))]
    for first, second in itertools.product(firsts, payloads):
        parser = MessageParser(User(UserRecord("guest", "")))
        _read(parser, first)
        assert _read(parser, second) == fresh[second], (first, second)


def test_the_sections_before_the_body_are_one_object_for_messages_that_share_them() -> None:
    """A million messages of one publisher hold their sections once."""
    parser = MessageParser(User(UserRecord("guest", "")))
    payload = _DURABLE + _TO + encode_data(b"one")
    parser.read_at(payload, 0, len(payload))
    first = parser.properties
    payload = _DURABLE + _TO + encode_data(b"two")
    parser.read_at(payload, 0, len(payload))
    assert parser.properties is first
    assert parser.body == encode_data(b"two")
    assert parser.to == "/queues/q"


def _read(parser: MessageParser, payload: bytes) -> object:
    try:
        options = parser.read_at(b"-" + payload + b"-", 1, 1 + len(payload))
        found_options = options.message_options
        said = found_options.persistent, found_options.priority, found_options.ttl_ms, options.more_keys
        found = parser.properties, parser.body, said, parser.to, parser.subject
    except (AmqpError, Amqp10Error) as error:
        return type(error), error.text
    else:
        return found
