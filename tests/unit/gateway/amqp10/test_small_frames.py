"""Clients that take small frames: what does not fit costs them the link at most."""

import pytest

from flintmq.base.errors import FrameSizeTooSmall
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import MIN_MAX_FRAME_SIZE
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import Described, Symbol
from tests.unit.gateway.amqp10.pair import Client, Server


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server, tuning=Tuning(frame_max=MIN_MAX_FRAME_SIZE))


def _filters(size: int) -> dict[str, object]:
    return {"f": Described(Symbol("apache.org:selector-filter:string"), "a = '" + "x" * size + "'")}


def test_links_of_usual_clients_fit(client: Client) -> None:
    """The smallest frame that there may be has room for the answers to them."""
    client.sender().publish("m")
    assert client.receiver().bodies() == ["m"]


def test_a_source_that_does_not_fit_refuses_its_link(client: Client, server: Server) -> None:
    """The others of the session go on, and nothing is left of it."""
    sender = client.sender(attach=Attach(name="publisher"))
    refused = client.receiver(source=Source(address="/queues/q", filter=_filters(300)), attach=Attach(name="large"))
    assert refused.refusal[0] == "amqp:frame-size-too-small"
    assert refused.answer.source is None
    assert client.ended == []
    assert server.vhost.queues["q"].consumers == []
    assert len(server.service.names) == 1
    sender.publish("m")
    assert client.receiver(attach=Attach(name="large")).bodies() == ["m"]


def test_a_target_that_does_not_fit_refuses_its_link(client: Client, server: Server) -> None:
    """A name of 255 letters that are percent-encoded is longer than a frame."""
    server.queue("ä" * 127)
    refused = client.sender("/queues/" + "%C3%A4" * 127, attach=Attach(name="large"))
    assert refused.refusal[0] == "amqp:frame-size-too-small"
    assert client.ended == []
    assert client.sender().publish("m")


def test_what_the_client_says_of_its_own_end_may_be_large(client: Client) -> None:
    """It is sent back with a refusal, unless it does not fit."""
    asked = Attach(name="large", target=Target(address="t" * 400))
    refused = client.receiver("/queues/nowhere", attach=asked)
    assert refused.refusal[0] == "amqp:not-found"
    assert client.ended == []


def test_properties_that_do_not_fit_are_not_sent_back(client: Client) -> None:
    """They say nothing that the client does not know."""
    attach = Attach(name="large", properties={"app:p": "x" * 300})
    receiver = client.receiver(attach=attach)
    assert receiver.answer.properties == {}
    client.sender().publish("m")
    assert receiver.bodies() == ["m"]


def test_a_link_of_ours_that_does_not_fit() -> None:
    """Our client's program is told; the name is free, and the session goes on."""
    small = Client(Server(), tuning=Tuning())
    small.session.frame_max = MIN_MAX_FRAME_SIZE
    with pytest.raises(FrameSizeTooSmall):
        small.receiver("/queues/" + "x" * 600, attach=Attach(name="large"))
    assert small.session.links == []
    assert small.receiver("/queues/nowhere", attach=Attach(name="large")).refusal[0] == "amqp:not-found"
