"""Publishing over HTTP: the properties of a message have the same effect as over AMQP 0-9-1."""

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.message import Address, Message
from flintmq.broker.queue.publish import TURNED_AWAY, UNROUTED
from flintmq.broker.tap import Client
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.amqp091.publish_properties import read_publish_properties
from flintmq.gateway.publishing import Publisher, PublishTarget
from flintmq.management.http.access import Caller
from flintmq.management.ports import Node


def publish(
    node: Node, vhost: VHost, caller: Caller, peer: str, address: Address, properties: bytes, body: bytes
) -> bool:
    """Publish a message of the caller, whose other side is `peer`; return whether a queue got it.

    Raises AccessRefused, NotFound or PreconditionFailed.
    """
    now_ms = node.now_ms()
    broker = node.broker
    client = Client(peer, 0, caller.name, vhost.name)
    publisher = Publisher(vhost, caller.rights_in(vhost.name), broker.tick, broker.storage.journal, lambda: client)
    # A request publishes one message, so there is nothing to cache the target for.
    target = PublishTarget(address)
    publisher.permit(target)
    if len(body) > node.message_max_bytes:
        raise PreconditionFailed(f"message size {len(body)} is larger than max size {node.message_max_bytes}")
    if len(properties) > node.properties_max_bytes:
        raise PreconditionFailed(
            f"{len(properties)} bytes of properties: a frame of AMQP 0-9-1 has room for {node.properties_max_bytes}"
        )
    asked = read_publish_properties(vhost, caller.user, properties)
    publisher.permit_keys(target, asked.more_keys or [])
    if asked.message_options.command:
        raise PreconditionFailed("this message is a command to a queue: use POST /api/queues/<vhost>/<name>/actions")
    message = Message(address, CODEC_091, asked.properties, body, asked.message_options, now_ms)
    queues = vhost.queues_of(target.route, message, asked.more_keys)
    outcome = publisher.deliver(target, publisher.tapped(message, queues), queues)
    if outcome == UNROUTED:
        publisher.unrouted(is_returned=False)
    return outcome not in (UNROUTED, TURNED_AWAY)
