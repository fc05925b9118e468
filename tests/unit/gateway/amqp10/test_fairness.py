"""Links that share the room of a socket take turns at it."""

from flintmq.base.limits import OUTPUT_HIGH_WATER_BYTES
from tests.unit.gateway.amqp10.pair import Client, Server

QUEUES = ("a", "b", "c")


def test_a_connection_that_reads_slowly_gets_of_all_its_links() -> None:
    """Each queue has its turn, on one session as on several, although any of them could fill the socket alone."""
    for sessions in (1, 3):
        server = Server()
        client = Client(server)
        large = "x" * (OUTPUT_HIGH_WATER_BYTES // 2)
        publisher = Client(server)
        for queue in QUEUES:
            server.queue(queue)
            sender = publisher.sender(f"/queues/{queue}")
            for _ in range(6):
                sender.publish(queue + large)
        begun = [client.session, *[client.begin() for _ in range(sessions - 1)]]
        receivers = [
            client.receiver(f"/queues/{queue}", credit=0, session=begun[at % sessions])
            for at, queue in enumerate(QUEUES)
        ]
        for receiver in receivers:
            receiver.link.grant(10)
        found: list[str] = []
        while len(found) < 18:
            client.connection.resume()
            client.tick()
            came = [body[0] for receiver in receivers for body in receiver.bodies()]
            assert came
            found += came
        assert set(found[:9]) == set(QUEUES)
