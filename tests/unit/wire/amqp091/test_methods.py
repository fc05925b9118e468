"""Method payloads: one hex snapshot per method, and what is refused."""

import pytest

from flintmq.base.errors import LocalProtocolError, NotImplementedHere, SyntaxFault
from flintmq.wire.amqp091 import methods, spec
from flintmq.wire.amqp091.method_codec import decode_method, encode_method
from flintmq.wire.amqp091.methods import METHODS, Method
from tools import amqp091_methods

# fmt: off
# A server receives requests, and a client their answers, but for these. In RabbitMQ, a server also cancels consumers
# and confirms publishes.
BOTH_RECEIVE = {
    "connection.close", "connection.close-ok", "channel.flow", "channel.flow-ok", "channel.close", "channel.close-ok",
    "basic.cancel", "basic.cancel-ok", "basic.ack", "basic.nack",
}
SERVER_RECEIVES = {"connection.start-ok", "connection.secure-ok", "connection.tune-ok"}
CLIENT_RECEIVES = {
    "connection.start", "connection.secure", "connection.tune", "connection.blocked", "connection.unblocked",
    "basic.deliver", "basic.return", "basic.get-empty",
}
SNAPSHOTS: list[tuple[Method, str]] = [
    (methods.ConnectionStart(server_properties={"product": "f"}, mechanisms=b"PLAIN EXTERNAL", locales=b"en_US"),
     "000a 000a 00 09 0000000e 0770726f64756374530000000166 0000000e 504c41494e2045585445524e414c 00000005 656e5f5553"),
    (methods.ConnectionStartOk(client_properties={}, mechanism="PLAIN", response=b"\0u\0p", locale="en_US"),
     "000a 000b 00000000 05 504c41494e 00000004 00750070 05 656e5f5553"),
    (methods.ConnectionSecure(challenge=b"\xff"), "000a 0014 00000001 ff"),
    (methods.ConnectionSecureOk(response=b"r"), "000a 0015 00000001 72"),
    (methods.ConnectionTune(channel_max=2047, frame_max=131072, heartbeat=60), "000a 001e 07ff 00020000 003c"),
    (methods.ConnectionTuneOk(channel_max=65535, frame_max=4294967295, heartbeat=32768),
     "000a 001f ffff ffffffff 8000"),
    (methods.ConnectionOpen(virtual_host="v"), "000a 0028 01 76 00 00"),
    (methods.ConnectionOpenOk(), "000a 0029 00"),
    (methods.ConnectionClose(reply_code=320, reply_text="bye", class_id=60, method_id=40),
     "000a 0032 0140 03 627965 003c 0028"),
    (methods.ConnectionCloseOk(), "000a 0033"),
    (methods.ConnectionBlocked(reason="low on memory"), "000a 003c 0d 6c6f77206f6e206d656d6f7279"),
    (methods.ConnectionUnblocked(), "000a 003d"),
    (methods.ConnectionUpdateSecret(new_secret=b"s", reason="r"), "000a 0046 00000001 73 01 72"),
    (methods.ConnectionUpdateSecretOk(), "000a 0047"),
    (methods.ChannelOpen(), "0014 000a 00"),
    (methods.ChannelOpenOk(), "0014 000b 00000000"),
    (methods.ChannelFlow(active=True), "0014 0014 01"),
    (methods.ChannelFlowOk(active=False), "0014 0015 00"),
    (methods.ChannelClose(reply_code=404, reply_text="no", class_id=50, method_id=10),
     "0014 0028 0194 02 6e6f 0032 000a"),
    (methods.ChannelCloseOk(), "0014 0029"),
    (methods.AccessRequest(realm="/d", exclusive=True, passive=False, active=True, write=False, read=True),
     "001e 000a 02 2f64 15"),
    (methods.AccessRequestOk(ticket=1), "001e 000b 0001"),
    (methods.ExchangeDeclare(exchange="e", type="topic", passive=True, internal=True, arguments={"a": 1}),
     "0028 000a 0000 01 65 05 746f706963 09 00000007 01614900000001"),
    (methods.ExchangeDeclareOk(), "0028 000b"),
    (methods.ExchangeDelete(exchange="e", if_unused=True), "0028 0014 0000 01 65 01"),
    (methods.ExchangeDeleteOk(), "0028 0015"),
    (methods.ExchangeBind(destination="d", source="s", routing_key="k", no_wait=True, arguments={}),
     "0028 001e 0000 01 64 01 73 01 6b 01 00000000"),
    (methods.ExchangeBindOk(), "0028 001f"),
    (methods.ExchangeUnbind(destination="d", source="s", routing_key="k", arguments={"b": True}),
     "0028 0028 0000 01 64 01 73 01 6b 00 00000004 01627401"),
    (methods.ExchangeUnbindOk(), "0028 0033"),
    (methods.QueueDeclare(queue="q", durable=True, auto_delete=True, arguments={"x-max-length": 10}),
     "0032 000a 0000 01 71 0a 00000012 0c782d6d61782d6c656e677468490000000a"),
    (methods.QueueDeclareOk(queue="q", message_count=4294967295, consumer_count=2),
     "0032 000b 01 71 ffffffff 00000002"),
    (methods.QueueBind(queue="q", exchange="e", routing_key="k", arguments={}),
     "0032 0014 0000 01 71 01 65 01 6b 00 00000000"),
    (methods.QueueBindOk(), "0032 0015"),
    (methods.QueuePurge(queue="q", no_wait=True), "0032 001e 0000 01 71 01"),
    (methods.QueuePurgeOk(message_count=3), "0032 001f 00000003"),
    (methods.QueueDelete(queue="q", if_empty=True), "0032 0028 0000 01 71 02"),
    (methods.QueueDeleteOk(message_count=1), "0032 0029 00000001"),
    (methods.QueueUnbind(queue="q", exchange="e", routing_key="k", arguments={}),
     "0032 0032 0000 01 71 01 65 01 6b 00000000"),
    (methods.QueueUnbindOk(), "0032 0033"),
    (methods.BasicQos(prefetch_size=1, prefetch_count=2, global_=True), "003c 000a 00000001 0002 01"),
    (methods.BasicQosOk(), "003c 000b"),
    (methods.BasicConsume(queue="q", consumer_tag="c", no_ack=True, exclusive=True, arguments={"x-priority": -1}),
     "003c 0014 0000 01 71 01 63 06 00000010 0a782d7072696f7269747949ffffffff"),
    (methods.BasicConsumeOk(consumer_tag="c"), "003c 0015 01 63"),
    (methods.BasicCancel(consumer_tag="c", no_wait=True), "003c 001e 01 63 01"),
    (methods.BasicCancelOk(consumer_tag="c"), "003c 001f 01 63"),
    (methods.BasicPublish(exchange="e", routing_key="k", immediate=True), "003c 0028 0000 01 65 01 6b 02"),
    (methods.BasicReturn(reply_code=312, reply_text="NO_ROUTE", exchange="e", routing_key="k"),
     "003c 0032 0138 08 4e4f5f524f555445 01 65 01 6b"),
    (methods.BasicDeliver(consumer_tag="c", delivery_tag=2**64 - 1, redelivered=True, exchange="e", routing_key="k"),
     "003c 003c 01 63 ffffffffffffffff 01 01 65 01 6b"),
    (methods.BasicGet(queue="q", no_ack=True), "003c 0046 0000 01 71 01"),
    (methods.BasicGetOk(delivery_tag=1, redelivered=True, exchange="e", routing_key="k", message_count=9),
     "003c 0047 0000000000000001 01 01 65 01 6b 00000009"),
    (methods.BasicGetEmpty(), "003c 0048 00"),
    (methods.BasicAck(delivery_tag=9223372036854775808, multiple=True), "003c 0050 8000000000000000 01"),
    (methods.BasicReject(delivery_tag=7, requeue=False), "003c 005a 0000000000000007 00"),
    (methods.BasicRecoverAsync(requeue=True), "003c 0064 01"),
    (methods.BasicRecover(requeue=False), "003c 006e 00"),
    (methods.BasicRecoverOk(), "003c 006f"),
    (methods.BasicNack(delivery_tag=7, multiple=False, requeue=True), "003c 0078 0000000000000007 02"),
    (methods.ConfirmSelect(no_wait=True), "0055 000a 01"),
    (methods.ConfirmSelectOk(), "0055 000b"),
    (methods.TxSelect(), "005a 000a"),
    (methods.TxSelectOk(), "005a 000b"),
    (methods.TxCommit(), "005a 0014"),
    (methods.TxCommitOk(), "005a 0015"),
    (methods.TxRollback(), "005a 001e"),
    (methods.TxRollbackOk(), "005a 001f"),
    (methods.StreamQuery(queue="q", timestamp=1700000000000), "00f0 000a 01 71 0000018bcfe56800"),
    (methods.StreamQueryOk(first_offset=1, next_offset=258, offset_at=2, stream=3),
     "00f0 000b 0000000000000001 0000000000000102 0000000000000002 0000000000000003"),
    (methods.StreamFetch(queue="q", offset=1, end_offset=258, max_bytes=1048576),
     "00f0 0014 01 71 0000000000000001 0000000000000102 00100000"),
    (methods.StreamFetchOk(first_offset=1, next_offset=3, record_count=2),
     "00f0 0015 0000000000000001 0000000000000003 00000002"),
    (methods.StreamSpan(queue="q", offset=1, end_offset=258, max_bytes=1 << 20),
     "00f0 001e 01 71 0000000000000001 0000000000000102 0000000000100000"),
    (methods.StreamSpanOk(end_offset=258), "00f0 001f 0000000000000102"),
    (methods.LeaseOpen(queue="q", consumer="c", epoch=1, timeout=2),
     "00f1 000a 01 71 01 63 0000000000000001 0000000000000002"),
    (methods.LeaseOpenOk(epoch=1, first=2, next=3),
     "00f1 000b 0000000000000001 0000000000000002 0000000000000003"),
    (methods.LeaseExtend(queue="q", consumer="c", epoch=1, max_messages=2, max_bytes=3),
     "00f1 0014 01 71 01 63 0000000000000001 0000000000000002 0000000000000003"),
    (methods.LeaseExtendOk(first=1, next=2, ready=3, size=4),
     "00f1 0015 0000000000000001 0000000000000002 0000000000000003 0000000000000004"),
    (methods.LeaseFetch(queue="q", consumer="c", offset=1, end_offset=2, max_bytes=3),
     "00f1 001e 01 71 01 63 0000000000000001 0000000000000002 00000003"),
    (methods.LeaseFetchOk(first_offset=1, next_offset=2, record_count=3),
     "00f1 001f 0000000000000001 0000000000000002 00000003"),
    (methods.LeaseSettle(queue="q", consumer="c", epoch=1, up_to=2),
     "00f1 0028 01 71 01 63 0000000000000001 0000000000000002"),
    (methods.LeaseSettleOk(), "00f1 0029"),
    (methods.LeaseRelease(queue="q", consumer="c", epoch=1),
     "00f1 0032 01 71 01 63 0000000000000001"),
    (methods.LeaseReleaseOk(message_count=1),
     "00f1 0033 0000000000000001"),
    (methods.LeaseQuery(queue="q", consumer="c"), "00f1 003c 01 71 01 63"),
    (methods.LeaseQueryOk(epoch=1, first=2, next=3, ready=4, fetched=5),
     "00f1 003d 0000000000000001 0000000000000002 0000000000000003 0000000000000004 0000000000000005"),
    (methods.StageOpen(transactional_id="t", owner="o"), "00f2 000a 01 74 01 6f"),
    (methods.StageOpenOk(epoch=1, next_batch=2), "00f2 000b 0000000000000001 0000000000000002"),
    (methods.StageSelect(transactional_id="t", epoch=1, batch=2, partition=3, attempt=4),
     "00f2 0014 01 74 0000000000000001 0000000000000002 0000000000000003 0000000000000004"),
    (methods.StageSelectOk(already=True), "00f2 0015 01"),
    (methods.StageReady(), "00f2 001e"),
    (methods.StageReadyOk(message_count=1), "00f2 001f 0000000000000001"),
    (methods.StageCommit(transactional_id="t", epoch=1, batch=2, attempts=b"\x00\x01", more=True),
     "00f2 0028 01 74 0000000000000001 0000000000000002 00000002 0001 01"),
    (methods.StageCommitOk(message_count=1, already=True), "00f2 0029 0000000000000001 01"),
    (methods.StageAbort(transactional_id="t", epoch=1, batch=2),
     "00f2 0032 01 74 0000000000000001 0000000000000002"),
    (methods.StageAbortOk(), "00f2 0033"),
    (methods.StageForget(transactional_id="t"), "00f2 003c 01 74"),
    (methods.StageForgetOk(), "00f2 003d"),
]
# fmt: on

_BITS = {
    "exchange.declare": ["passive", "durable", "auto_delete", "internal", "no_wait"],
    "queue.declare": ["passive", "durable", "exclusive", "auto_delete", "no_wait"],
    "queue.delete": ["if_unused", "if_empty", "no_wait"],
    "basic.consume": ["no_local", "no_ack", "exclusive", "no_wait"],
    "basic.publish": ["mandatory", "immediate"],
    "basic.nack": ["multiple", "requeue"],
}


def _by_name(name: str) -> type[Method]:
    return next(cls for cls in METHODS.values() if cls.name == name)


@pytest.mark.parametrize(("method", "payload"), SNAPSHOTS, ids=[method.name for method, _ in SNAPSHOTS])
def test_a_method_and_its_payload_are_each_other(method: Method, payload: str) -> None:
    """Every method has exactly these bytes, and these bytes are exactly that method."""
    assert encode_method(method).hex(" ") == bytes.fromhex(payload).hex(" ")
    assert decode_method(bytes.fromhex(payload)) == method


def test_every_method_has_a_snapshot() -> None:
    """A method added to the table is not forgotten here."""
    assert [method.id for method, _ in SNAPSHOTS] == list(METHODS)


def test_a_class_knows_its_number_and_name() -> None:
    """`id` is class id and method id in one; `name` is what the specification calls the method."""
    assert (methods.QueueDeclareOk.id, methods.QueueDeclareOk.name) == (methods.QUEUE_DECLARE_OK, "queue.declare-ok")
    assert methods.BasicAck(delivery_tag=1).id == 60 << 16 | 80
    for number, cls in METHODS.items():
        assert cls.id == number
        assert cls.__name__.lower() == cls.name.replace(".", "").replace("-", "")


def test_constants_of_methods_are_the_table() -> None:
    """Each method has a constant of its own name, with its own number."""
    constants = {name: value for name, value in vars(methods).items() if isinstance(value, int) and value > 0xFFFF}
    assert constants == {cls.name.upper().replace(".", "_").replace("-", "_"): id_ for id_, cls in METHODS.items()}
    assert spec.BASIC_CLASS == 60


def test_the_classes_are_up_to_date() -> None:
    """methods.py is, byte for byte, what the tool makes of the table."""
    assert amqp091_methods.FILE.read_text(encoding="utf-8") == amqp091_methods.generated(), "run `make methods`"


def test_methods_with_content() -> None:
    """Exactly these are followed by a content header."""
    names = {row.name for row in spec.METHOD_TABLE if row.has_content}
    assert names == {
        "basic.publish",
        "basic.return",
        "basic.deliver",
        "basic.get-ok",
        "stream.fetch-ok",
        "lease.fetch-ok",
    }


def test_methods_differ_by_class_and_by_arguments() -> None:
    """Two methods are equal when they would be the same bytes, and only then."""
    assert methods.TxCommit() == methods.TxCommit()
    assert methods.ConnectionTune(heartbeat=1) != methods.ConnectionTune(heartbeat=2)
    others: list[Method] = [methods.TxRollback(), methods.ConnectionTuneOk(heartbeat=1)]
    assert methods.TxCommit() not in others
    assert methods.ConnectionTune(heartbeat=1) not in others
    assert repr(methods.ConnectionTune(heartbeat=1)) == "ConnectionTune(channel_max=0, frame_max=0, heartbeat=1)"


def test_arguments_have_defaults_that_are_not_shared() -> None:
    """Every method can be made without arguments, and one's table is not another's."""
    for cls in METHODS.values():
        assert decode_method(encode_method(cls())) == cls()
    one = methods.QueueDeclare()
    one.arguments["x"] = 1
    assert methods.QueueDeclare().arguments == {}


@pytest.mark.parametrize("name", _BITS)
def test_bits_fill_an_octet_from_its_lowest_place(name: str) -> None:
    """amqp-0-9-1 §4.2.5.2: neighbouring bits share one octet, the first is bit 0."""
    cls = _by_name(name)
    bits = _BITS[name]
    assert [name for name in cls.fields if isinstance(getattr(cls(), name), bool)] == bits
    cleared = encode_method(_with_bits(cls, dict.fromkeys(bits, False)))
    for place, bit in enumerate(bits):
        payload = encode_method(_with_bits(cls, dict.fromkeys(bits, False) | {bit: True}))
        changed = [(old, new) for old, new in zip(cleared, payload, strict=True) if old != new]
        assert changed == [(0, 1 << place)]


def _with_bits(cls: type[Method], bits: dict[str, bool]) -> Method:
    method = cls()
    for name, value in bits.items():
        setattr(method, name, value)
    return method


def test_bits_nobody_defined_are_ignored() -> None:
    """The unused places of an octet of bits mean nothing."""
    assert decode_method(bytes.fromhex("003c 006e fe")) == methods.BasicRecover(requeue=False)


def test_reserved_arguments_are_read_over() -> None:
    """What stands in a reserved argument (old clients: tickets, capabilities, out-of-band) changes nothing."""
    assert decode_method(bytes.fromhex("000a 0028 01 76 03 616263 01")) == methods.ConnectionOpen(virtual_host="v")
    assert decode_method(bytes.fromhex("0014 000b 00000002 ffff")) == methods.ChannelOpenOk()
    assert decode_method(bytes.fromhex("003c 0046 ffff 01 71 00")) == methods.BasicGet(queue="q")


@pytest.mark.parametrize("payload", ["003c 03e7", "0000 0000", "001e 0014 00", "00f0 000c"])
def test_an_unknown_method_is_not_implemented(payload: str) -> None:
    """A number nobody defined is 540, whatever follows it; the text gives both ids."""
    raw = bytes.fromhex(payload)
    with pytest.raises(NotImplementedHere) as refusal:
        decode_method(raw)
    assert refusal.value.text == f"unknown method {int.from_bytes(raw[:2])}/{int.from_bytes(raw[2:4])}"


@pytest.mark.parametrize("payload", ["", "00", "003c00"])
def test_a_payload_without_a_method_number_is_a_syntax_fault(payload: str) -> None:
    """Four bytes are the least a method frame holds."""
    with pytest.raises(SyntaxFault):
        decode_method(bytes.fromhex(payload))


@pytest.mark.parametrize(("method", "payload"), SNAPSHOTS, ids=[method.name for method, _ in SNAPSHOTS])
def test_a_payload_must_end_where_its_arguments_do(method: Method, payload: str) -> None:
    """Every proper prefix and every trailing byte is a syntax fault that names the method."""
    raw = bytes.fromhex(payload)
    for end in range(4, len(raw)):
        with pytest.raises(SyntaxFault) as short:
            decode_method(raw[:end])
        assert short.value.text.startswith(f"{method.name}: ")
    with pytest.raises(SyntaxFault) as long:
        decode_method(raw + b"\0")
    assert long.value.text == f"{method.name}: 1 bytes are left after the last argument"


def test_a_short_string_that_is_not_utf8_is_a_syntax_fault() -> None:
    """amqp-0-9-1 §4.2.5.3: short strings are UTF-8; a queue cannot be called by other bytes."""
    with pytest.raises(SyntaxFault, match="not UTF-8"):
        decode_method(bytes.fromhex("003c 0046 0000 01 ff 00"))


@pytest.mark.parametrize(
    ("method", "complaint"),
    [
        (methods.QueueDeclare(queue="q" * 256), "queue.declare queue 'qqqq"),
        (methods.QueueDeclare(queue="é" * 128), "queue.declare queue 'éééé"),
        (methods.QueueDeclare(queue="\ud800"), "queue.declare queue has lone surrogates"),
        (methods.ConnectionTune(channel_max=0x1_0000), "connection.tune channel_max is out of range"),
        (methods.ConnectionTune(frame_max=-1), "connection.tune frame_max is out of range"),
        (methods.ConnectionStart(version_major=256), "connection.start version_major is out of range"),
        (methods.BasicAck(delivery_tag=1 << 64), "basic.ack delivery_tag is out of range"),
        (methods.BasicAck(delivery_tag=10**5000), "basic.ack delivery_tag is out of range"),
        (methods.QueueDeclare(arguments={"x-when": object()}), "'x-when'"),
    ],
)
def test_an_argument_that_does_not_fit_is_our_own_fault(method: Method, complaint: str) -> None:
    """It is LocalProtocolError, and says which argument of which method."""
    with pytest.raises(LocalProtocolError) as refusal:
        encode_method(method)
    assert complaint in str(refusal.value)


def test_the_longest_short_string_fits() -> None:
    """255 bytes are allowed, counted in UTF-8."""
    method = methods.BasicGet(queue="é" * 127 + "q")
    assert decode_method(encode_method(method)) == method


@pytest.mark.parametrize("row", spec.METHOD_TABLE, ids=lambda row: row.name)
def test_who_receives_a_method(row: spec.MethodRow) -> None:
    if row.name in BOTH_RECEIVE:
        expected = spec.BOTH
    elif row.name in CLIENT_RECEIVES or (row.name.endswith("-ok") and row.name not in SERVER_RECEIVES):
        expected = spec.CLIENT
    else:
        expected = spec.SERVER
    assert row.receivers == expected


def test_a_server_receives_content_with_one_method_only() -> None:
    assert [row.name for row in spec.METHOD_TABLE if row.has_content and row.receivers & spec.SERVER] == [
        "basic.publish"
    ]
