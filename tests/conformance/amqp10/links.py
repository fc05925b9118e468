"""Links of the test's peer."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from flintmq.wire.amqp10.performatives import Attach, Detach, Flow, Transfer
from flintmq.wire.amqp10.spec import RECEIVER, SENDER
from flintmq.wire.amqp10.states import ACCEPTED, DeliveryState, Error
from tests.conformance.amqp10.encoding import Message

if TYPE_CHECKING:
    from tests.conformance.amqp10.session import Session

_NAMES = itertools.count(1)
# Room for a transfer's performative, whatever is in it.
_PERFORMATIVE_BYTES: Final = 128
_FRAME_BYTES: Final = 100_000


class Link:
    """`attached` is the server's attach, `detached` its detach."""

    ROLE: ClassVar[bool]

    def __init__(self, session: Session) -> None:
        self.session = session
        self.name = f"link-{next(_NAMES)}"
        self.handle = 0
        self.asked = Attach()
        self.attached: Attach | None = None
        self.detached: Detach | None = None
        self.is_gone = False
        self.flows: list[Flow] = []

    def on_attached(self) -> None:
        """The server answered."""

    @property
    def answer(self) -> Attach:
        assert self.attached is not None
        return self.attached

    def ill(self) -> str:
        """Why nothing is to be waited for any more, if that is so."""
        return self.session.ill() or (f"the server detached {self.name}: {self.detached}" if self.detached else "")

    def detach(self, closed: bool = True, error: Error | None = None) -> Detach:
        """Detach, and see the server do the same."""
        self.session.write(Detach(self.handle, closed=closed, error=error))
        self.is_gone = True
        self.session.peer.wait(lambda: self.detached is not None, self.session.ill)
        assert self.detached is not None
        return self.detached

    def expect_detach(self, condition: str | None, closed: bool = True) -> Error | None:
        """The server detaches the link with this error; agree."""
        self.session.peer.wait(lambda: self.detached is not None, self.session.ill)
        assert self.detached is not None
        error = self.detached.error
        assert (error.condition if error else None) == condition, error
        assert self.detached.closed == closed
        if not self.is_gone:
            self.is_gone = True
            self.session.write(Detach(self.handle, closed=closed))
        return error

    def expect_refusal(self, condition: str) -> Error:
        """The server attached without a terminus of its own, and detaches with this error."""
        terminus = self.answer.source if self.answer.role == SENDER else self.answer.target
        assert terminus is None, f"a terminus was made: {terminus}"
        error = self.expect_detach(condition)
        assert error is not None
        return error


class Sender(Link):
    """Sends. Delivery tags are numbers, unless told otherwise."""

    ROLE = SENDER

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.delivery_count = 0
        # Of the delivery that was begun last.
        self.tag = b""

    @property
    def credit(self) -> int:
        """What the server lets us send now."""
        if not self.flows:
            return 0
        flow = self.flows[-1]
        start = self.asked.initial_delivery_count if flow.delivery_count is None else flow.delivery_count
        assert start is not None
        return start + (flow.link_credit or 0) - self.delivery_count

    def send(
        self,
        message: bytes,
        settled: bool | None = None,
        tag: bytes | None = None,
        state: DeliveryState | None = None,
        **fields: object,
    ) -> int:
        """Send a message, in as many transfers as it takes; returns its delivery id."""
        self.session.peer.wait(lambda: self.credit > 0, self.ill)
        id = self.number(tag)
        room = min(_FRAME_BYTES, self.session.peer.opened.max_frame_size) - _PERFORMATIVE_BYTES
        chunks = [message[start : start + room] for start in range(0, len(message), room)] or [b""]
        for number, chunk in enumerate(chunks):
            more = number < len(chunks) - 1
            if number == 0:
                first = Transfer(self.handle, id, self.tag, 0, settled=settled, more=more, state=state, **fields)  # type: ignore[arg-type]
                self.session.transfer(first, chunk)
            else:
                self.session.transfer(Transfer(self.handle, more=more), chunk)
        return id

    def number(self, tag: bytes | None = None) -> int:
        """Count a delivery, whose transfers are still to be written; returns its id."""
        id = self.session.next_delivery_id
        self.session.next_delivery_id = id + 1 & 0xFFFF_FFFF
        self.delivery_count = self.delivery_count + 1 & 0xFFFF_FFFF
        self.tag = b"%d" % id if tag is None else tag
        return id

    def begin(self, payload: bytes, tag: bytes | None = None, more: bool = True, **fields: object) -> int:
        """The first transfer of a delivery, of which there is more to come; returns the delivery id."""
        id = self.number(tag)
        self.session.transfer(Transfer(self.handle, id, self.tag, 0, more=more, **fields), payload)  # type: ignore[arg-type]
        return id

    def go_on(self, payload: bytes, more: bool = False, **fields: object) -> None:
        """Another transfer of the delivery that was begun."""
        self.session.transfer(Transfer(self.handle, more=more, **fields), payload)  # type: ignore[arg-type]

    def outcome(self, message: bytes, **fields: object) -> DeliveryState | None:
        """Send a message, and wait for what becomes of it."""
        id = self.send(message, **fields)  # type: ignore[arg-type]
        self.session.peer.wait(lambda: id in self.session.outcomes, self.ill)
        return self.session.outcomes[id].state

    def accepted(self, *messages: bytes, **fields: object) -> None:
        """Send messages, each of which is accepted."""
        ids = [self.send(message, **fields) for message in messages]  # type: ignore[arg-type]
        for id in ids:
            self.session.peer.wait(lambda: id in self.session.outcomes, self.ill)  # noqa: B023 - waited for at once
            assert self.session.outcomes[id].state == ACCEPTED, self.session.outcomes[id]


@dataclass
class Arrived:
    """A delivery, by the transfers it came in."""

    transfers: list[Transfer]
    payload: bytes = b""
    is_whole: bool = field(default=False)

    @property
    def first(self) -> Transfer:
        return self.transfers[0]

    @property
    def id(self) -> int:
        assert self.first.delivery_id is not None
        return self.first.delivery_id

    @property
    def tag(self) -> bytes:
        assert self.first.delivery_tag is not None
        return self.first.delivery_tag

    @property
    def settled(self) -> bool:
        return any(each.settled for each in self.transfers)

    @property
    def is_aborted(self) -> bool:
        return self.transfers[-1].aborted

    @property
    def message(self) -> Message:
        return Message(self.payload)


class Receiver(Link):
    """Receives: `arrived` has whole deliveries, aborted ones too, until `get` takes them; `partial` one that is not."""

    ROLE = RECEIVER

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.delivery_count = 0
        self.arrived: deque[Arrived] = deque()
        self.partial: Arrived | None = None

    def on_attached(self) -> None:
        self.delivery_count = self.answer.initial_delivery_count or 0

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        if self.partial is None:
            self.partial = Arrived([])
            self.delivery_count = self.delivery_count + 1 & 0xFFFF_FFFF
        self.partial.transfers.append(transfer)
        self.partial.payload += payload
        if not transfer.more:
            self.partial.is_whole = True
            self.arrived.append(self.partial)
            self.partial = None

    def credit(self, credit: int, **fields: object) -> None:
        """Credit from here on, not in addition."""
        fields.setdefault("delivery_count", self.delivery_count)
        self.session.flow(handle=self.handle, link_credit=credit, **fields)

    def get(self) -> Arrived:
        """The next delivery, waited for."""
        self.session.peer.wait(lambda: bool(self.arrived), self.ill)
        return self.arrived.popleft()

    def take(self, count: int) -> list[Arrived]:
        return [self.get() for _ in range(count)]

    def bodies(self, count: int) -> list[object]:
        """The values of that many messages, accepted."""
        found = self.take(count)
        for each in found:
            self.settle(each)
        return [each.message.value for each in found]

    def settle(self, arrived: Arrived, state: DeliveryState | None = ACCEPTED, settled: bool = True) -> None:
        self.session.dispose(arrived.id, state=state, settled=settled)

    def drain(self, credit: int = 1) -> list[Arrived]:
        """What there is at once, as many as that at most; settled by nobody."""
        before = len(self.flows)
        limit = self.delivery_count + credit & 0xFFFF_FFFF
        self.credit(credit, drain=True)

        def drained() -> bool:
            used_up = any(flow.drain and flow.delivery_count == limit for flow in self.flows[before:])
            return used_up or len(self.arrived) >= credit

        self.session.peer.wait(drained, self.ill)
        self.delivery_count = limit
        found = list(self.arrived)
        self.arrived.clear()
        return found

    def is_silent(self) -> bool:
        """No delivery has come, and none is on its way."""
        self.session.sync()
        return not self.arrived and self.partial is None
