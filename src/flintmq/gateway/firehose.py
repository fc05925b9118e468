"""The firehose: copies of all messages that are published and delivered in a virtual host (RabbitMQ).

Copies are published to the exchange amq.rabbitmq.trace with the keys publish.<exchange> and deliver.<queue>. Their
headers describe the message.
"""

from typing import Final, final

from flintmq.base.errors import LocalProtocolError, SyntaxFault
from flintmq.base.limits import SHORTSTR_MAX_BYTES, TABLE_ENTRIES_MAX
from flintmq.broker.broker import Broker
from flintmq.broker.exchange.registry import TRACE_EXCHANGE
from flintmq.broker.message import TRANSIENT, Address, Entry, Message, Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.tap import Client, Tap
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.gateway.conversion.converted import TO_091
from flintmq.wire.amqp091.properties import Properties, decode_properties, encode_properties

_PROPERTIES: Final = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to",
    "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip


@final
class Firehose(Tap):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Copies to publish at the end of the dispatch, with their virtual hosts.
        self._copies: list[tuple[str, Message]] = []

    def published(self, client: Client, message: Message, queues: list[Queue]) -> Message:
        if self._is_wanted(client.vhost, message):
            names: list[object] = [queue.name for queue in queues[:TABLE_ENTRIES_MAX]]
            self._copy(client, message, f"publish.{message.address.exchange}", {"routed_queues": names})
        return message

    def committed(self, client: Client, queue: Queue, message: Message) -> None:
        self.published(client, message, [queue])

    def delivered(self, client: Client, queue: Queue, entry: Entry) -> None:
        if self._is_wanted(client.vhost, entry.message):
            self._copy(client, entry.message, f"deliver.{queue.name}", {"redelivered": int(entry.redelivered)})

    def _is_wanted(self, name: str, message: Message) -> bool:
        """Whether the virtual host is traced and a queue is bound. Copies themselves are not copied."""
        vhost = self._broker.vhosts.get(name)
        if vhost is None or not vhost.traced or message.address.exchange == TRACE_EXCHANGE:
            return False
        return bool(vhost.exchanges.find(TRACE_EXCHANGE).bindings)

    def _copy(self, client: Client, message: Message, key: str, more: Table) -> None:
        properties, body = message.properties, message.body
        if message.codec is not CODEC_091:
            properties, body = TO_091.in_091(message)
        try:
            decoded = decode_properties(properties)
        except SyntaxFault:
            # The publisher sent malformed headers, which the broker did not have to read until now.
            decoded = Properties()
        address = message.address
        headers: Table = {
            "exchange_name": address.exchange,
            "routing_keys": _routing_keys(message, decoded.headers or {}),
            "properties": _described(decoded),
            "node": self._broker.node,
            "vhost": client.vhost,
            "connection": client.connection,
            "channel": int(client.channel),
            "user": client.user,
            **more,
        }
        try:
            encoded = encode_properties(Properties(headers=headers))
        except LocalProtocolError:
            # The properties are nested too deeply for a further table; the other headers are names and numbers.
            del headers["properties"]
            encoded = encode_properties(Properties(headers=headers))
        copy = Message(Address(TRACE_EXCHANGE, _cut(key)), CODEC_091, encoded, body, TRANSIENT, self._broker.now_ms)
        self._copies.append((client.vhost, copy))

    def end_dispatch(self) -> None:
        if not self._copies:
            return
        copies = self._copies
        self._copies = []
        for name, copy in copies:
            vhost = self._broker.vhosts.get(name)
            if vhost is not None:
                exchange = vhost.exchanges.find(TRACE_EXCHANGE)
                vhost.deliver(copy, vhost.router.queues_from(exchange, [copy.address.routing_key], copy))


def _routing_keys(message: Message, headers: Table) -> list[object]:
    """The routing keys of a message, cut to the length of a list: CC and BCC may each be that long."""
    keys: list[object] = [message.address.routing_key]
    for more in (headers.get("CC"), message.options.hidden_keys):
        if isinstance(more, list):
            # Values that are not strings were not used as routing keys.
            keys += [key for key in more if isinstance(key, str)]
    return keys[:TABLE_ENTRIES_MAX]


def _cut(key: str) -> str:
    """Cut a key to the length of a short string: with its prefix, the longest name would not fit."""
    return key.encode()[:SHORTSTR_MAX_BYTES].decode(errors="ignore")


def _described(properties: Properties) -> Table:
    described: Table = {}
    for name in _PROPERTIES:
        value = getattr(properties, name, None)
        if value is not None:
            described[name] = value
    return described
