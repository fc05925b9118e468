"""Pairs of links to /management: requests come on one, responses go on the other (OASIS link pairing 1.0, RabbitMQ).

Two links of one name on one session are a pair; either may be attached first. Responses are sent in the order of the
requests, each after the change that it reports is on the disk.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from flintmq.base.errors import (
    SCOPE_LINK,
    AccessRefused,
    AmqpError,
    DecodeError,
    FlintError,
    InternalError,
    PreconditionFailed,
)
from flintmq.base.limits import ANSWER_BYTES_PER_UNIT, METHOD_WORK_UNITS
from flintmq.gateway.amqp10.addresses import MANAGEMENT
from flintmq.gateway.amqp10.management import Answer, Management
from flintmq.gateway.amqp10.ports import ClientSession
from flintmq.gateway.audit import AuditEvent
from flintmq.gateway.durability import PendingReply
from flintmq.protocol.amqp10.receiver import IncomingDelivery, ReceiverLink, ReceiverOwner
from flintmq.protocol.amqp10.sender import OutgoingDelivery, SenderLink, SenderOwner
from flintmq.wire.amqp10.composite import Fields
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.spec import RCV_FIRST, SND_SETTLED
from flintmq.wire.amqp10.states import DeliveryState
from flintmq.wire.amqp10.termini import Coordinator, Source, Target

# Requests that a pair may have under way (RabbitMQ's number). Each may be as expensive as any method.
_CREDIT: Final = 8


def is_management(terminus: Source | Target | Coordinator | None) -> bool:
    return isinstance(terminus, (Source, Target)) and terminus.address == MANAGEMENT


@final
class ManagementPairs:
    """The management link pairs of a session."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.management = Management(session.access, session.connection, session.connection.renew, self._audit)
        self._pairs: dict[str, _Pair] = {}

    def _audit(self, act: str, name: str, refusal: str) -> None:
        connection = self.session.connection
        event = AuditEvent(connection.user, connection.peer, "amqp 1.0", self.session.vhost.name, act, name, refusal)
        self.session.gateway.host.audit(event)

    def requests(self, link: ReceiverLink, attach: Attach) -> ReceiverOwner:
        """Attach the half that brings requests. Raises PreconditionFailed without the link property `paired`."""
        pair = self._pair(link.name, attach.properties)
        pair.requests = link
        link.rcv_settle_mode = RCV_FIRST
        link.accept(Attach(source=attach.source, target=attach.target, properties=attach.properties))
        link.grant(_CREDIT)
        return _Requests(pair, link)

    def responses(self, link: SenderLink, attach: Attach) -> SenderOwner:
        """Attach the half that takes responses. Raises PreconditionFailed without the link property `paired`."""
        pair = self._pair(link.name, attach.properties)
        pair.responses = link
        link.snd_settle_mode = SND_SETTLED
        link.accept(Attach(source=attach.source, target=attach.target, properties=attach.properties))
        return _Responses(pair)

    def _pair(self, name: str, properties: Fields) -> "_Pair":
        if properties.get("paired") is not True:
            raise PreconditionFailed("Link property 'paired' is not set to boolean value 'true'")
        pair = self._pairs.get(name)
        if pair is None:
            pair = _Pair(self, name)
            self._pairs[name] = pair
        return pair

    def forget(self, name: str) -> None:
        self._pairs.pop(name, None)


@final
class _Pair:
    """A pair of links. `requests` and `responses` are its halves; None: not attached."""

    def __init__(self, pairs: ManagementPairs, name: str) -> None:
        self.requests: ReceiverLink | None = None
        self.responses: SenderLink | None = None
        self._pairs = pairs
        self._name = name
        self._ready: deque[bytes] = deque()
        # Answers that wait for a purge, the first of them for its own.
        self._purging: deque[Answer] = deque()
        # Requests whose response is yet to be sent.
        self._asked: i64 = 0
        self._number: i64 = 0

    def ask(self, link: ReceiverLink, request: bytes) -> None:
        """Answer a request, or end the session if the user lacks the permission.

        Raises PreconditionFailed if the half for responses is not attached, DecodeError if the request is malformed.
        """
        if self.responses is None:
            raise PreconditionFailed("received transfer on half open management link pair")
        session = self._pairs.session
        if not session.vhost.dialect.holds_responses and self.responses.credit <= self._asked:
            session.engine.end(
                PreconditionFailed(
                    f"insufficient credit ({self.responses.credit - self._asked}) for management link from the server "
                    "to the client: grant it before a request"
                )
            )
            return
        connection = session.connection
        connection.engine.spend(METHOD_WORK_UNITS)
        try:
            answer = self._pairs.management.answer(request)
        except AccessRefused as error:
            # The session ends instead of a status (RabbitMQ): later requests may rely on this one.
            session.engine.end(error)
            return
        except DecodeError as malformed:
            raise DecodeError(f"failed to parse request: {malformed.text}", SCOPE_LINK) from None
        self._asked += 1
        connection.engine.spend(len(answer.message) // ANSWER_BYTES_PER_UNIT)
        purge = answer.purge
        if purge is not None and not purge.has_ended:
            purge.on_end = self._go_on
        self._purging.append(answer)
        self._go_on()

    def _go_on(self) -> None:
        """Have the responses wait for the disk, up to the first whose purge goes on. A fault of a purge ends the pair.

        A response waits even if nothing was changed, because responses keep the order of the requests.
        """
        answers = self._purging
        confirms = self._pairs.session.connection.confirms
        while answers and (answers[0].purge is None or answers[0].purge.has_ended):
            answer = answers.popleft()
            if answer.purge is not None and answer.purge.fault is not None:
                self._end(answer.purge.fault)
                return
            confirms.add(_Response(self, answer.message))

    def respond(self, message: bytes) -> None:
        self._ready.append(message)
        self.send()

    def send(self) -> None:
        """Send the responses that there is credit for."""
        link = self.responses
        while self._ready and link is not None and link.can_send:
            self._number += 1
            self._asked -= 1
            link.send(self._number, self._ready.popleft(), b"", True)
            if self.requests is not None:
                self.requests.grant(self.requests.credit + 1)

    def fail(self, reason: str) -> None:
        """Detach both halves because the storage failed: a restart may not find what the requests changed."""
        self._end(InternalError(f"nothing durable can be stored: {reason}"))

    def _end(self, error: AmqpError) -> None:
        for link in (self.requests, self.responses):
            if link is not None:
                link.detach(error)
        self.requests = None
        self.responses = None
        self._pairs.forget(self._name)

    def left(self, is_requests: bool) -> None:
        """A half is detached. The pair is over once both are."""
        if is_requests:
            self.requests = None
        else:
            self.responses = None
            self._asked -= len(self._ready) + len(self._purging)
            self._ready.clear()
            self._purging.clear()
        if self.requests is None and self.responses is None:
            self._pairs.forget(self._name)


@final
class _Requests(ReceiverOwner):
    def __init__(self, pair: _Pair, link: ReceiverLink) -> None:
        self._pair = pair
        self._link = link

    def on_message(self, link: ReceiverLink, delivery: IncomingDelivery | None, payload: bytes) -> None:
        self._pair.ask(link, payload)
        if delivery is not None and not delivery.is_settled:
            link.accept_delivery(delivery)

    def on_disposition(self, delivery: IncomingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """Nothing to do: requests are settled when they are answered."""

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._pair.left(True)


@final
class _Responses(SenderOwner):
    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    def on_flow(self, link: SenderLink) -> None:
        self._pair.send()
        link.drained()

    def on_room(self, link: SenderLink) -> None:
        self._pair.send()

    def on_disposition(self, delivery: OutgoingDelivery, state: DeliveryState | None, settled: bool) -> None:
        """Nothing to do: responses are sent settled."""

    def on_detached(self, error: FlintError | None, closed: bool) -> None:
        self._pair.left(False)


@final
class _Response(PendingReply):
    def __init__(self, pair: _Pair, message: bytes) -> None:
        self._pair = pair
        self._message = message

    def send(self) -> None:
        self._pair.respond(self._message)

    def fail(self, reason: str) -> None:
        self._pair.fail(reason)
