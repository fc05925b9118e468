"""How links are asked for: addresses, settle modes, filters."""

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
    """A connection that has its first bytes ready to be sent."""
    opening = Open(
        container_id=container_id or f"flintmq-{uuid.uuid4()}",
        # What else would be taken for the name of a host.
        hostname=address.host if address.virtual_host == "/" else f"vhost:{address.virtual_host}",
        properties={"product": "FlintMQ client", "version": __version__},
    )
    return ClientConnection(address, opening, mechanism, secrets.token_urlsafe(18))


def unique(kind: str) -> str:
    """A name for a link that nobody resumes."""
    return f"{kind}-{uuid.uuid4()}"


def sender(target: str | Target | None, name: str, settled: bool, source: Source | None) -> ClientSender:
    terminus = target if isinstance(target, Target) else Target(address=target)
    mode = SND_SETTLED if settled else SND_UNSETTLED
    return ClientSender(name or unique("sender"), source or Source(), terminus, mode, RCV_FIRST)


def receiver(
    source: str | Source, name: str, credit: int, settled: bool, second: bool, filters: Fields | None
) -> ClientReceiver:
    terminus = source if isinstance(source, Source) else Source(address=source)
    if filters:
        terminus.filter = {**terminus.filter, **filters}
    modes = (SND_SETTLED if settled else SND_MIXED, RCV_SECOND if second else RCV_FIRST)
    return ClientReceiver(name or unique("receiver"), terminus, Target(), modes, credit)


# Filters for `receiver(..., filters=...)`; to have several, join them: selector("...") | stream_offset("first").


def selector(expression: str) -> Fields:
    """Messages for which it is true, in the language of JMS selectors."""
    return {"selector": Described(ULong(0x0000_468C_0000_0004), expression)}


def no_local() -> Fields:
    """Not what this connection sent itself."""
    return {"no-local": Described(ULong(0x0000_468C_0000_0003), [])}


def stream_offset(start: str | int) -> Fields:
    """From where on a stream is read: "first", "last", "next", an offset, or an interval like "1h"."""
    return _described("rabbitmq:stream-offset-spec", start)


def stream_time(timestamp_ms: int) -> Fields:
    """From the first message on that the stream got at this time (milliseconds since 1970 UTC) or later."""
    return _described("rabbitmq:stream-offset-spec", TimestampMs(timestamp_ms))


def _described(name: str, value: object) -> Fields:
    return {name: Described(Symbol(name), value)}
