"""Bindings as resources of /management.

The location of a binding is "src=SOURCE;dstq=QUEUE;key=KEY;args=HASH" (dste for an exchange), all percent-encoded. The
hash of the arguments is FlintMQ's own; it is empty without arguments.
"""

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b
from typing import Final, final
from urllib.parse import quote

from flintmq.base.work import WORK
from flintmq.broker.access.permission import READ, WRITE
from flintmq.broker.exchange.base import Binding, Exchange, canonical
from flintmq.broker.message import Table
from flintmq.broker.queue.base import Queue
from flintmq.broker.vhost import VHost
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp10.addresses import percent_decoded
from flintmq.gateway.amqp10.management_refusal import (
    Refusal,
    arguments,
    check_line,
    check_not_default,
    entries,
    term,
)
from flintmq.gateway.conversion.plain import amqp10_value

_SEGMENT: Final = re.compile(
    r"src=([0-9A-Za-z\-._~%]+);dst([eq])=([0-9A-Za-z\-._~%]+);key=([0-9A-Za-z\-._~%]*);args=([0-9A-Za-z\-_]*)"
)
_TEXTS: Final = ("source", "destination_queue", "destination_exchange", "binding_key")


# Bindings that are compared in one unit of work.
_LOOKED_AT_PER_UNIT: Final = 8


@final
class _Edge:
    """Source, destination and key of bindings. `kind` is that of the destination: "queue" or "exchange"."""

    def __init__(self, source: str, kind: str, destination: str, key: str) -> None:
        self.source = source
        self.kind = kind
        self.destination = destination
        self.key = key

    def check(self, access: Access) -> None:
        """Raises Refusal for invalid names, AccessRefused without permission to bind and unbind."""
        check_not_default(self.source)
        check_line(self.source)
        if self.kind == "exchange":
            check_not_default(self.destination)
        check_line(self.destination)
        rights = access.rights
        rights.check(WRITE, self.kind, self.destination)
        rights.check(READ, "exchange", self.source)
        source = access.vhost.exchanges.by_name.get(self.source)
        if source is not None and source.type == "topic":
            rights.check_topic(READ, self.source, self.key)

    def found(self, access: Access) -> list[Binding]:
        """All bindings with this source, destination and key, whatever their arguments."""
        source = access.vhost.exchanges.by_name.get(self.source)
        if source is None:
            return []
        destination = self._destination(access.vhost)
        if destination is None:
            return []
        bindings = source.bindings.get(destination, {})
        WORK.spent += len(bindings) // _LOOKED_AT_PER_UNIT
        return [binding for binding in bindings.values() if binding.routing_key == self.key]

    def _destination(self, vhost: VHost) -> Queue | Exchange | None:
        names = vhost.exchanges
        return names.by_name.get(self.destination) if self.kind == "exchange" else vhost.queues.get(self.destination)


def add_binding(access: Access, owner: object, body: object) -> tuple[str, object]:
    texts: dict[str, str] = {}
    wanted: Table = {}
    for name, value in entries(body, "binding").items():
        if isinstance(name, str) and name in _TEXTS and isinstance(value, str):
            texts[name] = value
        elif name == "arguments":
            wanted = arguments(value)
        else:
            raise Refusal("400", f"bad binding field {{{term(name)},{term(value)}}}")
    kind = "queue" if "destination_queue" in texts else "exchange"
    for name in ("source", f"destination_{kind}", "binding_key"):
        if name not in texts:
            raise Refusal("400", f"a binding has the field '{name}'")
    edge = _Edge(texts["source"], kind, texts[f"destination_{kind}"], texts["binding_key"])
    edge.check(access)
    vhost = access.vhost
    if kind == "queue":
        vhost.exchanges.bind_queue(vhost.queue(edge.destination, owner), edge.source, edge.key, wanted)
    else:
        vhost.exchanges.bind_exchange(edge.destination, edge.source, edge.key, wanted)
    return "204", None


def remove_binding(access: Access, owner: object, segment: str) -> tuple[str, object]:
    parts = _SEGMENT.fullmatch(segment)
    names = [] if parts is None else [percent_decoded(parts[group]) for group in (1, 3, 4)]
    if parts is None or None in names:
        raise Refusal("400", f"bad binding path segment '{segment}'")
    source, destination, key = [name or "" for name in names]
    edge = _Edge(source, "queue" if parts[2] == "q" else "exchange", destination, key)
    edge.check(access)
    vhost = access.vhost
    for binding in edge.found(access):
        if _hash(binding.arguments) != parts[5]:
            continue
        if binding.queue is None:
            vhost.exchanges.unbind_exchange(destination, source, key, binding.arguments)
        else:
            vhost.exchanges.unbind_queue(vhost.queue(destination, owner), source, key, binding.arguments)
        break
    return "204", None


def list_bindings(access: Access, query: dict[str, str]) -> tuple[str, object]:
    kind = "exchange" if "dste" in query else "queue"
    if "dste" not in query and "dstq" not in query:
        shown = ",".join(f'<<"{name}">> => <<"{value}">>' for name, value in query.items())
        raise Refusal("400", f"missing 'dste' or 'dstq' in query: #{{{shown}}}")
    for name in ("src", "key"):
        if name not in query:
            raise Refusal("400", f"missing '{name}' in query")
    edge = _Edge(query["src"], kind, query["dste" if kind == "exchange" else "dstq"], query["key"])
    edge.check(access)
    return "200", [_description(binding) for binding in edge.found(access)]


def _description(binding: Binding) -> dict[str, object]:
    kind = binding.destination_type
    location = (
        f"/bindings/src={_quoted(binding.source.name)};dst{kind[0]}={_quoted(binding.destination.name)}"
        f";key={_quoted(binding.routing_key)};args={_hash(binding.arguments)}"
    )
    return {
        "source": binding.source.name,
        f"destination_{kind}": binding.destination.name,
        "binding_key": binding.routing_key,
        "arguments": {name: amqp10_value(value) for name, value in binding.arguments.items()},
        "location": location,
    }


def _quoted(name: str) -> str:
    return quote(name, safe="-._~")


def _hash(wanted: Table) -> str:
    if not wanted:
        return ""
    return urlsafe_b64encode(blake2b(canonical(wanted).encode(), digest_size=6).digest()).decode()
