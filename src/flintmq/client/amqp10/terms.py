"""The terms with which a connection or link opens: names, addresses, settle modes, filters."""

import secrets
import uuid

from flintmq import __version__
from flintmq.client.amqp10.connection import ClientConnection
from flintmq.client.amqp10.receiver import ClientReceiver
from flintmq.client.amqp10.sender import ClientSender
from flintmq.client.url import Target as Address
from flintmq.protocol.sasl import plain
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.performatives import Open
from flintmq.wire.amqp10.spec import RCV_FIRST, RCV_SECOND, SND_MIXED, SND_SETTLED, SND_UNSETTLED
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import Described, Symbol, TimestampMs, ULong


def connection(address: Address, container_id: str, mechanism: str = plain.NAME) -> ClientConnection:
    """Return a connection whose first bytes are ready to be sent."""
    opening = Open(
        container_id=container_id or f"flintmq-{uuid.uuid4()}",
        # RabbitMQ's syntax. Without the prefix, a virtual host would be taken for the name of a host.
        hostname=address.host if address.virtual_host == "/" else f"vhost:{address.virtual_host}",
        properties={"product": "FlintMQ client", "version": __version__},
    )
    return ClientConnection(address, opening, mechanism, secrets.token_urlsafe(18))


def unique(kind: str) -> str:
    """Return a new name, for a link that is never resumed."""
    return f"{kind}-{uuid.uuid4()}"


def sender(target: str | Target | None, name: str, settled: bool, source: Source | None) -> ClientSender:
    """Return the sending end of a link; a `name` of "" is replaced by a new one."""
    terminus = target if isinstance(target, Target) else Target(address=target)
    mode = SND_SETTLED if settled else SND_UNSETTLED
    return ClientSender(name or unique("sender"), source or Source(), terminus, mode, RCV_FIRST)


def receiver(
    source: str | Source, name: str, credit: int, settled: bool, second: bool, filters: Fields | None
) -> ClientReceiver:
    """Return the receiving end of a link; a `name` of "" is replaced by a new one."""
    terminus = source if isinstance(source, Source) else Source(address=source)
    if filters:
        terminus.filter = {**terminus.filter, **filters}
    modes = (SND_SETTLED if settled else SND_MIXED, RCV_SECOND if second else RCV_FIRST)
    return ClientReceiver(name or unique("receiver"), terminus, Target(), modes, credit)


# Filters for `receiver(..., filters=...)`. `|` joins them: selector("...") | stream_offset("first").


def selector(expression: str) -> Fields:
    """Return a filter for messages that match an SQL-like expression of JMS."""
    return {"selector": Described(ULong(0x0000_468C_0000_0004), expression)}


def no_local() -> Fields:
    """Return a filter for messages that this connection did not send itself."""
    return {"no-local": Described(ULong(0x0000_468C_0000_0003), [])}


def stream_offset(start: str | int) -> Fields:
    """Return a filter that reads a stream from "first", "last", "next", an offset, or an interval such as "1h" ago."""
    return _described("rabbitmq:stream-offset-spec", start)


def stream_time(timestamp_ms: int) -> Fields:
    """Return a filter that reads a stream from the first message of a time (milliseconds since 1970 UTC) or later."""
    return _described("rabbitmq:stream-offset-spec", TimestampMs(timestamp_ms))


def _described(name: str, value: object) -> Fields:
    return {name: Described(Symbol(name), value)}
