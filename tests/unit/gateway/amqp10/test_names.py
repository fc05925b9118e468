"""Links of one name between two containers: there is one of each direction, and it is the latest (part 2 §2.6.1)."""

import pytest

from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import RCV_SECOND, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, TransactionalState
from flintmq.wire.amqp10.termini import Coordinator
from tests.unit.gateway.amqp10.pair import Client, Control, Receiver, Sender, Server


def _receiver(client: Client) -> Receiver:
    return client.receiver(attach=Attach(name="same", snd_settle_mode=SND_UNSETTLED, unsettled={}))


def _sender(client: Client) -> Sender:
    return client.sender(attach=Attach(name="same", rcv_settle_mode=RCV_SECOND))


def test_a_receiver_takes_over_from_another_connection(client: Client, server: Server) -> None:
    """With what is unsettled on it, which nobody else gets."""
    client.sender(attach=Attach(name="publisher")).publish("one")
    first = _receiver(client)
    ((delivery, _),) = first.take()
    assert delivery is not None
    second = _receiver(Client(server))
    client.tick()
    assert first.refusal[0] == "amqp:link:stolen"
    assert second.answer.unsettled == {delivery.tag: None}
    assert second.bodies() == ["one"]
    assert len(server.vhost.queues["q"].consumers) == 1


def test_a_sender_takes_over_from_another_connection(client: Client, server: Server) -> None:
    """With the outcomes that its client has not settled."""
    first = _sender(client)
    delivery = first.send("m")
    assert delivery is not None
    client.durable()
    second = _sender(Client(server))
    second.client.durable()
    client.tick()
    assert first.refusal[0] == "amqp:link:stolen"
    assert second.answer.unsettled == {delivery.tag: ACCEPTED}


def test_a_controller_takes_over_and_the_transactions_of_the_first_are_rolled_back(
    client: Client, server: Server
) -> None:
    """They end with the link that they were declared on."""
    control = Control(client)
    txn_id = control.declare()
    client.sender().send("m", state=TransactionalState(txn_id=txn_id))
    other = Control(Client(server))
    client.tick()
    assert control.sender.refusal[0] == "amqp:link:stolen"
    assert other.commit(other.declare()) == ACCEPTED
    assert server.vhost.queues["q"].message_count == 0


def test_a_link_of_another_kind_takes_over(client: Client, server: Server) -> None:
    """A name is that of a link, whatever it leads to."""
    first = client.sender(target=Coordinator(), attach=Attach(name="same"))
    _sender(Client(server))
    client.tick()
    assert first.refusal[0] == "amqp:link:stolen"


def test_a_link_that_is_refused_takes_over_from_nobody(client: Client, server: Server) -> None:
    """The one that has the name goes on."""
    first = _receiver(client)
    refused = Client(server).receiver("/queues/nowhere", attach=Attach(name="same", snd_settle_mode=SND_UNSETTLED))
    assert refused.refusal[0] == "amqp:not-found"
    client.sender(attach=Attach(name="publisher")).publish("one")
    assert first.bodies() == ["one"]
    assert first.detached == []


def test_another_user_has_names_of_its_own(client: Client, server: Server) -> None:
    """Also where its container says to be that of the first."""
    server.broker.put_user(UserRecord("v", ""))
    server.broker.put_rule(PermissionRecord("/", "v", ".*", ".*", ".*"))
    first = _receiver(client)
    assert _receiver(Client(server, user="v")).detached == []
    client.tick()
    assert first.detached == []


@pytest.mark.parametrize("how", ["closed", "detached", "lost"])
def test_a_name_is_free_behind_its_link(client: Client, server: Server, how: str) -> None:
    """Nothing is remembered of links that are no more."""
    links = [_receiver(client).link, _sender(client).link, Control(client).sender.link]
    assert len(server.service.names) == 3
    if how == "lost":
        client.connection.engine.lost(None)
    else:
        for link in links:
            link.detach(closed=how == "closed")
        client.tick()
    assert len(server.service.names) == 0
