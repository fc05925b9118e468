"""Part 3 §3.5.10 to §3.5.13: when a dynamic node goes."""

from flintmq.wire.amqp10.termini import (
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    LifetimePolicy,
    Target,
)
from tests.conformance.amqp10.catalogue import clause
from tests.conformance.amqp10.encoding import text
from tests.conformance.amqp10.links import Sender
from tests.conformance.amqp10.session import Session


def _node(session: Session, policy: LifetimePolicy) -> tuple[Sender, str]:
    """A sender that made a node with this policy, and the node's address."""
    maker = session.sender(Target(dynamic=True, dynamic_node_properties={"lifetime-policy": policy}))
    target = maker.answer.target
    assert isinstance(target, Target)
    assert target.address
    return maker, target.address


def _is_there(session: Session, address: str) -> bool:
    """Whether it can be attached to: by a sender, which is gone at once, and sends nothing."""
    link = session.sender(address)
    if link.answer.target is None:
        link.expect_refusal("amqp:not-found")
        return False
    link.detach()
    return True


def _goes(session: Session, address: str) -> None:
    """It has gone when the server has done what it was asked for before."""
    session.sync()
    assert not _is_there(session, address)


@clause("3.5.10.delete-on-close")
def test_3_5_10_delete_on_close(session: Session) -> None:
    """With messages on it and a receiver attached, which is told."""
    maker, address = _node(session, DeleteOnClose())
    maker.accepted(text())
    receiver = session.receiver(address)
    assert _is_there(session, address)
    maker.detach()
    receiver.expect_detach("amqp:resource-deleted")
    _goes(session, address)


@clause("3.5.11.delete-on-no-links")
def test_3_5_11_delete_on_no_links(session: Session) -> None:
    """It lives as long as a receiver does, and goes with messages on it."""
    maker, address = _node(session, DeleteOnNoLinks())
    receiver = session.receiver(address)
    maker.accepted(text())
    maker.detach()
    receiver.credit(1)
    receiver.get()
    receiver.detach()
    _goes(session, address)


@clause("3.5.12.delete-on-no-messages")
def test_3_5_12_delete_on_no_messages(session: Session) -> None:
    """A message keeps it when its maker has gone; settled, it goes, receiver or not."""
    maker, address = _node(session, DeleteOnNoMessages())
    maker.accepted(text())
    maker.detach()
    receiver = session.receiver(address, credit=1)
    found = receiver.get()
    assert _is_there(session, address)
    receiver.settle(found)
    receiver.expect_detach("amqp:resource-deleted")
    _goes(session, address)


@clause("3.5.13.delete-on-no-links-or-messages")
def test_3_5_13_delete_on_no_links_or_messages(session: Session) -> None:
    """A message keeps it without links, a link without messages."""
    maker, address = _node(session, DeleteOnNoLinksOrMessages())
    maker.accepted(text())
    maker.detach()
    receiver = session.receiver(address, credit=1)
    assert receiver.bodies(1) == ["m"]
    assert _is_there(session, address)
    receiver.detach()
    _goes(session, address)
