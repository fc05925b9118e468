"""Tags of deliveries that the broker sends: no two that somebody takes for unsettled have the same (part 2 §2.7.5)."""

import pytest

from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER, SND_SETTLED, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, DeliveryState, TransactionalState
from flintmq.wire.amqp10.termini import Source
from tests.unit.gateway.amqp10.pair import Client, Control, Receiver, Server

Map = dict[bytes, DeliveryState | None]


def _receiver(client: Client, unsettled: Map | None = None, durable: int = DURABLE_UNSETTLED_STATE) -> Receiver:
    source = Source(address="/queues/q", durable=durable, expiry_policy=EXPIRE_NEVER)
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED, unsettled=unsettled)
    made = client.receiver(source=source, attach=attach)
    client.durable()
    client.durable()
    return made


def _tags(receiver: Receiver) -> list[bytes]:
    return [delivery.tag for delivery, _ in receiver.take() if delivery is not None]


def _publish(client: Client, *bodies: str) -> None:
    client.sender(attach=Attach(name="publisher")).publish(*bodies)


def test_what_the_client_does_not_know_to_be_settled(client: Client, server: Server) -> None:
    """It said what became of a delivery, and lost the connection: the next one has another tag."""
    _publish(client, "one")
    receiver = _receiver(client)
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    receiver.link.update(delivery, ACCEPTED)
    # The note of it is dropped, and the word about that is on its way.
    client.tick()
    client.connection.engine.lost(None)
    other = Client(server)
    _publish(other, "two")
    again = _receiver(other, {delivery.tag: ACCEPTED})
    assert not set(_tags(again)) & {delivery.tag}


def test_what_a_transaction_has(client: Client) -> None:
    """A delivery that waits for its discharge when the link is suspended."""
    _publish(client, "one")
    receiver = _receiver(client, durable=0)
    ((delivery, _),) = receiver.take()
    assert delivery is not None
    control = Control(client)
    receiver.link.update(delivery, TransactionalState(txn_id=control.declare(), outcome=ACCEPTED))
    client.tick()
    receiver.link.detach(closed=False)
    client.tick()
    _publish(Client(client.server, container="other"), "two")
    again = _receiver(client, durable=0)
    assert not set(_tags(again)) & {delivery.tag}


def test_what_the_client_has_over_a_restart(client: Client) -> None:
    """Its map is all that tells of deliveries that were settled before."""
    _publish(client, "one")
    tag = (40).to_bytes(8, "big")
    assert _tags(_receiver(client, {tag: None})) == [(41).to_bytes(8, "big")]


@pytest.mark.parametrize("tag", [b"", b"x", b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\xff" * 32])
def test_tags_that_are_none_of_ours(client: Client, tag: bytes) -> None:
    """They are nothing that could be counted on from."""
    _publish(client, "one")
    assert _tags(_receiver(client, {tag: None})) == [(1).to_bytes(8, "big")]


@pytest.mark.parametrize("kind", ["classic", "copy", "stream", "large"])
def test_a_link_whose_sender_settles_gets_nothing_else(client: Client, server: Server, kind: str) -> None:
    """In every way a message can take to it."""
    server.queue("k", queue_type="stream" if kind == "stream" else "classic")
    receiver = client.receiver(
        source=Source(address="/queues/k", distribution_mode="copy" if kind == "copy" else None),
        attach=Attach(name="settled", snd_settle_mode=SND_SETTLED),
    )
    body = "m" * (300_000 if kind == "large" else 1)
    client.sender("/queues/k").publish(body, body)
    client.durable()
    assert [delivery for delivery, _ in receiver.take()] == [None, None]
    (session,) = client.connection.engine.sessions
    assert len(session.outgoing) == 0
