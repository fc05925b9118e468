"""What the client with durable links takes for delivered, and when."""

from flintmq.base.errors import ConnectionLost
from flintmq.client.amqp10.message import Message
from flintmq.client.amqp10.receiver import Delivery
from flintmq.wire.amqp10.properties import Header, Properties
from tests.sim.lasting import LastingReceiver
from tests.sim.ledger import Ledger
from tests.sim.messages import Sent
from tests.sim.topology import Line, Topology


def test_what_came_together_with_the_end_of_its_link_was_delivered_before_the_next_start() -> None:
    """A delivery that is read in one piece with the end of its link is in hand from then on."""
    line = Line("q")
    topology = Topology()
    topology.lines.append(line)
    ledger = Ledger(topology)
    sent = Sent(1, 1, (line,), 40, 0, persistent=True)
    ledger.published(sent)
    receiver = LastingReceiver(ledger, 2, line, 10)
    delivery = Delivery(b"7")
    delivery.take(Message(sent.body, Properties(), {}, Header(durable=True, first_acquirer=True)).encode())
    delivery.complete()
    receiver.core._deliver(delivery)
    receiver.core.lost(ConnectionLost("the node was stopped"))

    receiver.look()
    receiver.look()

    assert receiver.undecided == [delivery]
    assert line.copies[1].holder is receiver
