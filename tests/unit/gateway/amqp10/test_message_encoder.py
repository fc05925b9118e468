"""What messages begin with when they leave, one after the other."""

import itertools

from flintmq.broker.message import Address, Entry, Message
from flintmq.gateway.amqp10.codec import CODEC_10
from flintmq.gateway.amqp10.message_encoder import MessageEncoder
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.sections import (
    encode_application_properties,
    encode_header,
    encode_message_annotations,
    encode_properties,
)
from tests.unit.gateway.amqp10.pair import Server

_HEADERS = [
    b"",
    encode_header(True, 4, None, False, 0),
    encode_header(True, 9, None, False, 0),
    encode_header(False, 4, 60_000, False, 0),
    encode_header(False, 4, None, False, 3),
]
_ANNOTATIONS = [b"", encode_message_annotations({"x-a": 1}), encode_message_annotations({"x-a": 2})]
_BARE = [
    b"",
    encode_properties(Properties(subject="s")),
    encode_properties(Properties(subject="t")),
    encode_application_properties({"a": 1}),
    encode_properties(Properties(subject="s")) + encode_application_properties({"a": 1}),
]


def test_what_a_message_begins_with_does_not_depend_on_the_one_before(server: Server) -> None:
    """Each head is that of an encoder that sees the message first, whatever was kept of another."""
    queue = server.vhost.queues["q"]
    tick = server.gateway.tick
    options = CODEC_10.options(b"")
    messages = [
        Message(address, CODEC_10, b"".join(sections), b"", options, tick.now_ms, 0)
        for address in (Address("", "q"), Address("x", "k"))
        for sections in itertools.product(_HEADERS, _ANNOTATIONS, _BARE)
    ]
    fresh = {message: MessageEncoder(tick).head(queue, Entry(message, 1)) for message in messages}
    assert len(set(fresh.values())) == len(messages)
    again = Entry(messages[0], 1)
    again.redelivered = True
    for first, second in itertools.product(messages, messages):
        encoder = MessageEncoder(tick)
        encoder.head(queue, Entry(first, 1))
        assert encoder.head(queue, Entry(second, 2)) == fresh[second]
        assert encoder.head(queue, again) != fresh[messages[0]]
        assert encoder.head(queue, Entry(second, 3)) == fresh[second]
