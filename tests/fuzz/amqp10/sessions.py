"""Sessions of AMQP 1.0 as well-behaved clients have them, recorded: what fuzzing begins with."""

from collections.abc import Callable
from typing import Final

from flintmq.gateway.conversion.parts import write_properties
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.sections import (
    encode_amqp_value,
    encode_application_properties,
    encode_data,
    encode_message_annotations,
    encode_properties,
)
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER, RCV_SECOND, SND_SETTLED
from flintmq.wire.amqp10.states import (
    ACCEPTED,
    RELEASED,
    Declared,
    Error,
    Modified,
    Received,
    Rejected,
    TransactionalState,
)
from flintmq.wire.amqp10.termini import Coordinator, Declare, DeleteOnClose, Discharge, Source, Target
from flintmq.wire.amqp10.values import Described, Symbol, TimestampMs, ULong, Uuid
from tests.unit.gateway.amqp10.pair import Client, Server

RICH: Final = (
    encode_message_annotations({"x-opt-a": [1, None, {"b": b"\xff"}], "x-basic-type": "t"})
    + encode_properties(
        Properties(
            message_id=Uuid(b"0123456789abcdef"),
            user_id=b"u",
            to="/queues/q",
            subject="a.b",
            reply_to="/queues/q",
            correlation_id=ULong(7),
            content_type="text/plain",
            absolute_expiry_time=1,
            creation_time=2,
            group_id="g",
            group_sequence=3,
            reply_to_group_id="r",
        )
    )
    + encode_application_properties({"n": 1, "s": "text", "t": TimestampMs(5), "f": 1.5, "none": None})
)


class Recording(Client):
    """Remembers all that went over the wire, either way."""

    up = b""
    down = b""

    def carry_up(self) -> bytes:
        up = super().carry_up()
        self.up += up
        return up

    def carry_down(self) -> bytes:
        down = super().carry_down()
        self.down += down
        return down


def _publisher(client: Client) -> None:
    client.server.queue("q")
    sender = client.sender()
    for number in range(3):
        sender.send("body" * number, settled=number == 1, before=RICH if number else b"")
    # In frames as small as they may be, so that there are some.
    client.session.frame_max = 512
    sender.send("x" * 2_000)
    sender.send_encoded(encode_data(b"a") + encode_data(b"b"))
    client.durable()
    sender.link.detach()
    named = client.sender("/exchanges/amq.topic/a.b")
    named.publish("unroutable")
    anonymous = client.sender(None)
    anonymous.send_encoded(RICH + encode_amqp_value({"k": [1, 2]}))
    client.durable()
    client.session.end()


def _consumer(client: Client) -> None:
    client.server.queue("q", max_priority=5, dead_letter_exchange="amq.direct")
    sender = client.sender()
    sender.publish(*(str(number) for number in range(8)))
    receiver = client.receiver(credit=6)
    states = (
        ACCEPTED,
        RELEASED,
        Rejected(Error("amqp:not-found", "why", {"k": 1})),
        Modified(True, True, {"x-opt-seen": 1}),
        Received(0, 2),
    )
    for (delivery, _), state in zip(receiver.take(), states, strict=False):
        receiver.settle(delivery, state)
    receiver.link.drain_credit()
    client.tick()
    receiver.link.grant(3)
    client.tick()
    receiver.link.detach(closed=False)
    client.durable()


def _chooser(client: Client) -> None:
    client.server.queue("q")
    chosen = Described(Symbol("apache.org:selector-filter:string"), "n BETWEEN 1 AND 5 AND s LIKE 't%'")
    source = Source(address="/queues/q", distribution_mode="copy", filter={"selector": chosen})
    receiver = client.receiver(source=source, attach=Attach(name="chosen", rcv_settle_mode=RCV_SECOND))
    sender = client.sender()
    sender.send("m", before=RICH)
    client.durable()
    for delivery, _ in receiver.take():
        receiver.settle(delivery, ACCEPTED)
    client.durable()


def _transactions(client: Client) -> None:
    client.server.queue("q")
    control = client.sender(target=Coordinator(capabilities=["amqp:local-transactions"]), attach=Attach(name="control"))
    sender = client.sender()
    receiver = client.receiver()
    sender.publish("before")
    for fails in (False, True):
        control.send_encoded(encode_amqp_value(Declare()))
        client.durable()
        state = control.said[-1][1]
        assert isinstance(state, Declared)
        sender.send("within", state=TransactionalState(txn_id=state.txn_id))
        for delivery, _ in receiver.take():
            assert delivery is not None
            receiver.link.update(delivery, TransactionalState(txn_id=state.txn_id, outcome=ACCEPTED))
        client.tick()
        control.send_encoded(encode_amqp_value(Discharge(txn_id=state.txn_id, fail=fails)))
        client.durable()


def _manager(client: Client) -> None:
    pair = Attach(name="pair", snd_settle_mode=SND_SETTLED, properties={"paired": True})
    client.receiver(source=Source(address="/management"), attach=pair)
    again = Attach(name="pair", snd_settle_mode=SND_SETTLED, properties={"paired": True})
    sender = client.sender(target=Target(address="/management"), attach=again)
    requests: tuple[tuple[str, str, object], ...] = (
        ("PUT", "/queues/made", {"durable": True, "arguments": {"x-max-length": ULong(10)}}),
        ("PUT", "/exchanges/made", {"type": "topic"}),
        ("POST", "/bindings", {"source": "made", "destination_queue": "made", "binding_key": "a.#", "arguments": {}}),
        ("GET", "/queues/made", None),
        ("GET", "/bindings?src=made&dstq=made&key=a.%23", None),
        ("DELETE", "/queues/made/messages", None),
        ("DELETE", "/queues/made", None),
    )
    for number, (method, target, body) in enumerate(requests):
        request = Properties(message_id=str(number), subject=method, to=target, reply_to="$me")
        sender.send_encoded(write_properties(request) + encode_amqp_value(body), True)
        client.durable()


def _lasting(client: Client) -> None:
    client.server.queue("q")
    source = Source(address="/queues/q", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    receiver = client.receiver(source=source, attach=Attach(name="lasting"))
    sender = client.sender()
    sender.publish("one", "two")
    client.durable()
    held = [delivery for delivery, _ in receiver.take() if delivery is not None]
    receiver.link.detach(closed=False)
    client.durable()
    unsettled = {held[0].tag: ACCEPTED, b"unknown": None} if held else {}
    client.receiver(source=source, attach=Attach(name="lasting", unsettled=dict(unsettled)))
    client.durable()
    target = Target(address="/queues/q", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    for _ in range(2):
        link = client.sender(target=target, attach=Attach(name="lasting", unsettled={b"t": Received(0, 0)}))
        client.durable()
        if not link.detached:
            link.link.detach(closed=False)
        client.durable()
    node = {"lifetime-policy": DeleteOnClose()}
    client.receiver(source=Source(dynamic=True, dynamic_node_properties=dict(node)), attach=Attach(name="dynamic"))
    client.durable()


_SESSIONS: Final[tuple[Callable[[Client], None], ...]] = (
    _publisher,
    _consumer,
    _chooser,
    _transactions,
    _manager,
    _lasting,
)


def record() -> list[tuple[bytes, bytes]]:
    """What went up and what came down in each session."""
    found = []
    for session in _SESSIONS:
        client = Recording(Server())
        session(client)
        client.engine.close()
        client.tick()
        found.append((client.up, client.down))
    return found
