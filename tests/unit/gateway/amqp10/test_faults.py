"""What one connection does to the tick costs that connection, and nobody else's confirms."""

import pytest

from flintmq.gateway.amqp10.connection import ServerConnection
from flintmq.gateway.durability import PendingReply
from flintmq.protocol.amqp10.frame_writer import encode
from flintmq.protocol.amqp10.resumption import Action, plan
from flintmq.wire.amqp10.performatives import Attach, Transfer
from flintmq.wire.amqp10.spec import EXPIRE_NEVER
from flintmq.wire.amqp10.states import ACCEPTED, Declared
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import Described, Symbol
from tests.unit.gateway.amqp10.pair import Client, Server


class _Faulty(PendingReply):
    def send(self) -> None:
        raise ValueError("a fault of ours")

    def fail(self, reason: str) -> None:
        raise ValueError("a fault of ours")


def _together(*clients: Client) -> None:
    """What all of them have to say comes in one tick, in this order."""
    for client in clients:
        client.engine.flush()
        client.connection.engine.receive(b"".join(client._up.take()), 0.0)


def _at_fault(connection: ServerConnection) -> None:
    connection.confirms.add(_Faulty())


@pytest.mark.parametrize("durable", [False, True])
def test_confirms_of_the_others_come(server: Server, durable: bool) -> None:
    """An answer that cannot be given closes its connection; who comes behind it is answered, in this tick and later."""
    evil, good = Client(server, container="evil"), Client(server, container="good")
    sender = good.sender()
    _at_fault(evil.connection)
    sender.send("one", durable=durable)
    _together(good)
    good.durable()
    assert [state for _, state, _ in sender.said] == [ACCEPTED]
    assert sender.publish("two") == [ACCEPTED]
    evil.tick()
    assert len(evil.closed) == 1
    assert server.host.errors


def test_a_part_that_is_no_message_ends_its_link(server: Server) -> None:
    """Half a message that can never be read is found out when it is kept; the session goes on."""
    client = Client(server)
    sender = client.sender(
        attach=Attach(name="L"), target=Target(address="/queues/q", durable=2, expiry_policy=EXPIRE_NEVER)
    )
    client.durable()
    transfer = Transfer(handle=sender.link.handle, delivery_id=0, delivery_tag=b"t", message_format=0, more=True)
    client.engine.frames.begin(client.session.number, encode(transfer), 1)
    client.engine.output.writer.write(b"\xff")
    client.engine.output.touch()
    client.durable()
    assert sender.refusal[0] == "amqp:decode-error"
    assert client.sender().publish("next") == [ACCEPTED]
    assert server.host.errors == []


def test_what_a_transaction_says_is_no_outcome() -> None:
    """A map that says a message was declared says nothing of it."""
    assert plan(b"t", None, {b"t": Declared(txn_id=b"x")}).action is Action.RESUME


def test_refused_links_leave_no_queues(server: Server) -> None:
    """What was made for a link that cannot be, is gone: a target without permission, a source with a bad filter."""
    names = set(server.vhost.queues)
    client = Client(server)
    bad: dict[str, object] = {"f": Described(Symbol("apache.org:selector-filter:string"), "((")}
    bound = client.receiver(source=Source(address="/exchange/amq.direct/k", filter=bad))
    dynamic = client.receiver(source=Source(dynamic=True, filter=bad), attach=Attach(name="d"))
    server.allow(write="^$")
    denied = client.sender(attach=Attach(name="t"), target=Target(dynamic=True, durable=1))
    assert [link.refusal[0] for link in (bound, dynamic, denied)] == [
        "amqp:invalid-field",
        "amqp:invalid-field",
        "amqp:unauthorized-access",
    ]
    assert set(server.vhost.queues) == names
