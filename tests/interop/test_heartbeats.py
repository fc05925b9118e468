"""Clients that have nothing to say for longer than their heartbeats allow: alive all the same."""

import asyncio
import threading

import aio_pika
import pika

from tests.interop.node_agent import missing
from tests.interop.with_amqplib import AmqplibPeer
from tests.servers import BrokerProcess

# Three intervals: without heartbeats from either side, the other one would have hung up after two. They are long: a
# process may stand still for a while.
HEARTBEAT_SECONDS = 6
IDLE_SECONDS = 18.5


def test_idle_clients_stay_connected(broker: BrokerProcess) -> None:
    """Clients that send heartbeats every few seconds, and want them, outlive a silence of three intervals."""
    url = f"{broker.url}?heartbeat={HEARTBEAT_SECONDS}"
    blocking = pika.BlockingConnection(pika.URLParameters(url))
    node = None if missing() else AmqplibPeer(url)

    async def idle() -> None:
        connection = await aio_pika.connect(url)
        channel = await connection.channel()
        sleeper = threading.Thread(target=blocking.sleep, args=(IDLE_SECONDS,))
        sleeper.start()
        await asyncio.sleep(IDLE_SECONDS)
        await asyncio.to_thread(sleeper.join)
        await channel.declare_queue(exclusive=True)
        await connection.close()

    asyncio.run(idle())
    blocking.channel().queue_declare("", exclusive=True)
    blocking.close()
    if node is not None:
        node.channel().round_trip()
        node.close()
