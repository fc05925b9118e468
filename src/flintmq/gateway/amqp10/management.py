"""/management: HTTP over AMQP, as RabbitMQ 4 defines it. Each request gets one response.

A request has the method in its subject, the path in its `to`, "$me" in reply-to, and a body that is a value of AMQP.
The response has the status in its subject, and the request's message-id as its correlation-id.

A missing permission raises AccessRefused, which ends the session (RabbitMQ). Every other error is a status.
"""

import re
from collections.abc import Callable
from typing import Final, final
from urllib.parse import parse_qsl

from mypy_extensions import i64

from flintmq.base.errors import SCOPE_LINK, AccessRefused, AmqpError, InvalidField
from flintmq.broker.queue.purge import Purge
from flintmq.broker.vhost_access import Access
from flintmq.gateway.amqp10.addresses import percent_decoded
from flintmq.gateway.amqp10.management_bindings import add_binding, list_bindings, remove_binding
from flintmq.gateway.amqp10.management_nodes import (
    declare_exchange,
    declare_queue,
    delete_exchange,
    delete_queue,
    describe_queue,
    purge_queue,
)
from flintmq.gateway.amqp10.management_refusal import Refusal
from flintmq.gateway.conversion.parts import write_application, write_properties
from flintmq.wire.amqp10 import sections as wire
from flintmq.wire.amqp10 import spec
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.reader import Reader
from flintmq.wire.amqp10.types import skip_value
from flintmq.wire.amqp10.values import ULong

# Characters that a path and a query may contain (RFC 3986).
_TARGET: Final = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*")
_ME: Final = "$me"
_PURGED: Final = "/messages"
_VERSION: Final = {"http:response": "1.1"}


@final
class Answer:
    """An encoded response. With `waits` it must be sent only after the change that it reports is on the disk.

    It must not be sent before the `purge` that it reports, if any, is over.
    """

    def __init__(self, message: bytes, waits: bool, purge: Purge | None) -> None:
        self.message = message
        self.waits = waits
        self.purge = purge


@final
class Management:
    """Answers the management requests of one connection. `owner` is the owner of its exclusive queues.

    `renew` replaces the token of the connection; it raises AmqpError for an invalid token. `audit` is called with the
    method, the target and the refusal (empty: none) of each request that changed definitions or was refused.
    """

    def __init__(
        self,
        access: Access,
        owner: object,
        renew: Callable[[bytes], None],
        audit: Callable[[str, str, str], None],
    ) -> None:
        self.access = access
        self.owner = owner
        self._renew = renew
        self._audit = audit

    def answer(self, request: bytes) -> Answer:
        """Answer one request, which is an encoded message.

        Raises DecodeError if it is malformed, InvalidField without method, path or reply-to, AccessRefused without
        permission.
        """
        properties, body = _read(request)
        method, target = properties.subject, properties.to
        if method is None or target is None or properties.reply_to != _ME:
            raise InvalidField(f"a request has a method (subject), a path (to), and {_ME} for its reply-to", SCOPE_LINK)
        version: i64 = self.access.vhost.router.version
        try:
            status, content = self._respond(method, target, body)
        except Refusal as refusal:
            status, content = refusal.status, refusal.why
            self._tell(method, target, refusal.why)
        except AccessRefused as error:
            self._tell(method, target, error.text)
            raise
        else:
            # A declaration of what exists already changes nothing, and is not audited.
            if version != self.access.vhost.router.version or target.endswith(_PURGED):
                self._tell(method, target, "")
        purge: Purge | None = None
        if isinstance(content, Purge):
            purge, content = content, {"message_count": ULong(content.count)}
        answer = Properties()
        answer.subject = status
        answer.correlation_id = properties.message_id
        message = write_properties(answer) + write_application(dict(_VERSION)) + wire.encode_amqp_value(content)
        return Answer(message, method != "GET" and status.startswith("2"), purge)

    def _tell(self, method: str, target: str, refusal: str) -> None:
        if method != "GET":
            self._audit(method, target, refusal)

    def _respond(self, method: str, target: str, body: object) -> tuple[str, object]:
        if not target.startswith("/") or not _TARGET.fullmatch(target):
            raise Refusal("400", f"failed to normalize URI '{target}': invalid_uri \"{target}\"")
        path, _, query = target.partition("?")
        segments = path[1:].split("/")
        try:
            return self._route(method, segments, query, body)
        except AccessRefused:
            raise
        except AmqpError as error:
            raise Refusal("400", error.text) from None

    def _route(self, method: str, segments: list[str], query: str, body: object) -> tuple[str, object]:
        access, owner = self.access, self.owner
        resource = segments[0]
        if resource == "queues" and len(segments) == 2:
            name = _name(segments[1])
            if method == "GET":
                return describe_queue(access, name)
            if method == "PUT":
                return declare_queue(access, owner, name, body)
            if method == "DELETE":
                return delete_queue(access, owner, name)
        elif resource == "queues" and len(segments) == 3 and segments[2] == "messages":
            if method == "DELETE":
                return "200", purge_queue(access, owner, _name(segments[1]))
        elif resource == "exchanges" and len(segments) == 2:
            if method == "PUT":
                return declare_exchange(access, _name(segments[1]), body)
            if method == "DELETE":
                return delete_exchange(access, _name(segments[1]))
        elif resource == "bindings":
            return self._bindings(method, segments, query, body)
        elif segments == ["auth", "tokens"]:
            if method == "PUT":
                if not isinstance(body, bytes):
                    raise Refusal("400", "a token is binary")
                self._renew(body)
                return "204", None
        else:
            raise Refusal("404", f"there is no resource '/{'/'.join(segments)}'")
        raise Refusal("405", f"the resource '/{'/'.join(segments)}' knows no method {method}")

    def _bindings(self, method: str, segments: list[str], query: str, body: object) -> tuple[str, object]:
        if len(segments) == 1 and method == "POST":
            return add_binding(self.access, self.owner, body)
        if len(segments) == 1 and method == "GET":
            return list_bindings(self.access, dict(parse_qsl(query, keep_blank_values=True)))
        if len(segments) == 2 and method == "DELETE":
            return remove_binding(self.access, self.owner, segments[1])
        raise Refusal("405", f"the resource '/{'/'.join(segments)}' knows no method {method}")


def _read(request: bytes) -> tuple[Properties, object]:
    """Read properties and body, in any order: a client of RabbitMQ sends a null body before the properties."""
    properties = Properties()
    body: object = None
    pos: i64 = 0
    end = i64(len(request))
    while pos < end:
        code, value = wire.section_at(request, pos, end)
        if code == spec.PROPERTIES:
            properties = wire.decode_properties(request, pos)
        elif code == spec.AMQP_VALUE:
            body = wire.decode_amqp_value(request, pos)
        elif code == spec.DATA:
            body = Reader(request, value, end).binary()
        pos = skip_value(request, value, end)
    return properties, body


def _name(segment: str) -> str:
    name = percent_decoded(segment)
    if name is None:
        raise Refusal("400", f"'{segment}' is no UTF-8 when its percent signs are resolved")
    return name
