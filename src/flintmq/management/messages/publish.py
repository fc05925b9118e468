"""Publishing over HTTP: the properties of a message have the same effect as over AMQP."""

from flintmq.base.errors import PreconditionFailed
from flintmq.broker.access.permission import WRITE
from flintmq.broker.exchange.routing import Route
from flintmq.broker.message import Address, Message
from flintmq.broker.queue.publish import TURNED_AWAY, UNROUTED
from flintmq.broker.vhost import VHost
from flintmq.gateway.amqp091.codec import CODEC_091, options
from flintmq.management.http.access import Caller
from flintmq.management.ports import Node
from flintmq.wire.amqp091.properties import decode_properties, encode_properties, scan


def publish(
    node: Node, vhost: VHost, caller: Caller, exchange: str, routing_key: str, properties: bytes, body: bytes
) -> bool:
    """Publish a message; return whether a queue got it. Raises AccessRefused, NotFound or PreconditionFailed."""
    now_ms = node.now_ms()
    caller.rights_in(vhost.name).check(WRITE, "exchange", exchange)
    if len(body) > node.message_max_bytes:
        raise PreconditionFailed(f"message size {len(body)} is larger than max size {node.message_max_bytes}")
    if len(properties) > node.properties_max_bytes:
        raise PreconditionFailed(
            f"{len(properties)} bytes of properties: a frame of AMQP 0-9-1 has room for {node.properties_max_bytes}"
        )
    decoded = decode_properties(properties)
    if decoded.user_id is not None and decoded.user_id != caller.name:
        raise PreconditionFailed(
            f"user_id property set to '{decoded.user_id}' but authenticated user was '{caller.name}'"
        )
    asked = options(properties, scan(properties))
    headers = decoded.headers or {}
    vhost.dialect.check_field_names(headers)
    hidden = _keys(headers.get("BCC"))
    keys = [routing_key, *_keys(headers.get("CC")), *hidden]
    known = vhost.exchanges.by_name.get(exchange)
    if known is not None and known.type == "topic":
        for key in keys:
            caller.rights_in(vhost.name).check_topic(WRITE, exchange, key)
    if asked.command:
        raise PreconditionFailed("this message is a command to a queue: use POST /api/queues/<vhost>/<name>/actions")
    if "BCC" in headers:
        asked.hidden_keys = hidden or None
        decoded.headers = {name: value for name, value in headers.items() if name != "BCC"}
        properties = encode_properties(decoded)
    message = Message(Address(exchange, routing_key), CODEC_091, properties, body, asked, now_ms)
    queues = vhost.queues_of(Route(message.address), message, keys[1:] or None)
    outcome = vhost.deliver(message, queues)
    if outcome == UNROUTED:
        vhost.traffic.dropped += 1
    return outcome not in (UNROUTED, TURNED_AWAY)


def _keys(listed: object) -> list[str]:
    return [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []
