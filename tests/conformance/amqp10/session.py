"""A session of the test's peer: it numbers what it sends, keeps windows and sorts what comes by link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from flintmq.wire.amqp10.composite import Composite
from flintmq.wire.amqp10.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from flintmq.wire.amqp10.states import DeliveryState, Error
from flintmq.wire.amqp10.termini import Coordinator, Source, Target
from tests.conformance.amqp10.links import Link, Receiver, Sender

if TYPE_CHECKING:
    from tests.conformance.amqp10.peer import Peer

L = TypeVar("L", bound=Link)
# So many transfers that no test has to make room.
WINDOW: Final = 0x7FFF_FFFF


class Session:
    """`outcomes` has, by delivery id, what the server last said of a delivery of ours."""

    def __init__(self, peer: Peer, channel: int) -> None:
        self.peer = peer
        self.channel = channel
        self.is_open = True
        self.begun: Begin | None = None
        self.ended: End | None = None
        self.flows: list[Flow] = []
        self.dispositions: list[Disposition] = []
        self.outcomes: dict[int, Disposition] = {}
        self.next_incoming_id = 0
        self.next_outgoing_id = 0
        self.next_delivery_id = 0
        self.window = WINDOW
        # What the server's last word lets us send.
        self.room = 0
        self.links: list[Link] = []
        self._by_handle: dict[int, Link] = {}

    # -- life ---------------------------------------------------------------------------------------------------

    def begin(self, **fields: object) -> None:
        fields.setdefault("incoming_window", WINDOW)
        fields.setdefault("outgoing_window", WINDOW)
        begin = Begin(**fields)  # type: ignore[arg-type]
        self.window = begin.incoming_window
        self.next_outgoing_id = begin.next_outgoing_id
        self.peer.write(self.channel, begin)
        self.peer.wait(lambda: self.begun is not None)
        assert self.begun is not None
        assert self.begun.remote_channel == self.channel

    def end(self) -> None:
        """End it, and see the server do the same."""
        self.write(End())
        self.peer.wait(lambda: self.ended is not None)
        self.is_open = False

    def expect_end(self, condition: str) -> Error:
        """The server ends the session with this error; agree, and see that it answers no more."""
        self.peer.wait(lambda: self.ended is not None)
        assert self.ended is not None
        error = self.ended.error
        assert error is not None, "ended without an error"
        assert error.condition == condition, error
        if self.is_open:
            self.is_open = False
            self.write(End())
        return error

    def ill(self) -> str:
        """Why nothing is to be waited for any more, if that is so."""
        return f"the server ended the session: {self.ended}" if self.ended else ""

    # -- out ----------------------------------------------------------------------------------------------------

    def write(self, body: Composite, payload: bytes = b"") -> None:
        self.peer.write(self.channel, body, payload)

    def flow(self, **fields: object) -> None:
        """A flow with the session's numbers, and these fields."""
        fields.setdefault("next_incoming_id", self.next_incoming_id)
        fields.setdefault("incoming_window", self.window)
        fields.setdefault("next_outgoing_id", self.next_outgoing_id)
        fields.setdefault("outgoing_window", WINDOW)
        self.write(Flow(**fields))  # type: ignore[arg-type]

    def transfer(self, transfer: Transfer, payload: bytes = b"") -> None:
        """One transfer; waits for room in the server's window."""
        self.peer.wait(lambda: self.room > 0, self.ill)
        self.room -= 1
        self.next_outgoing_id = self.next_outgoing_id + 1 & 0xFFFF_FFFF
        self.write(transfer, payload)

    def dispose(
        self,
        first: int,
        last: int | None = None,
        state: DeliveryState | None = None,
        settled: bool = True,
        role: bool = True,
    ) -> None:
        self.write(Disposition(role=role, first=first, last=last, settled=settled, state=state))

    def sync(self) -> None:
        """Everything sent so far has had its effect, and what the server has to say of it is here.

        The second answer is written behind all that the tick of the first one delivered.
        """
        for _ in range(2):
            before = len(self.flows)
            self.flow(echo=True)
            self.peer.wait(lambda: len(self.flows) > before, self.ill)  # noqa: B023 - waited for at once

    def outcome(self, id: int) -> DeliveryState | None:
        """What becomes of a delivery of ours: the state in its last disposition, waited for until there is one."""
        self.peer.wait(lambda: id in self.outcomes, self.ill)
        return self.outcomes[id].state

    # -- links --------------------------------------------------------------------------------------------------

    def sender(self, address: str | Target | Coordinator | None, **fields: object) -> Sender:
        """Attach a link to send by; the address is the target, or a whole target."""
        target = Target(address=address) if isinstance(address, str) else address
        fields.setdefault("source", Source())
        fields.setdefault("initial_delivery_count", 0)
        return self.attach(Sender(self), target=target, **fields)

    def receiver(self, address: str | Source | None, credit: int = 0, **fields: object) -> Receiver:
        """Attach a link to receive by; the address is the source, or a whole source."""
        source = Source(address=address) if isinstance(address, str) else address
        fields.setdefault("target", Target())
        link = self.attach(Receiver(self), source=source, **fields)
        if credit:
            link.credit(credit)
        return link

    def attach(self, link: L, **fields: object) -> L:
        """Attach, and wait for the answer. A link without a terminus is refused: `link.expect_refusal` says why."""
        self.attach_unanswered(link, **fields)
        self.peer.wait(lambda: link.attached is not None, self.ill)
        return link

    def attach_unanswered(self, link: Link, **fields: object) -> None:
        fields.setdefault("name", link.name)
        taken = {each.handle for each in self.links if not each.is_gone}
        fields.setdefault("handle", next(number for number in range(len(taken) + 1) if number not in taken))
        attach = Attach(role=link.ROLE, **fields)  # type: ignore[arg-type]
        link.name, link.handle, link.asked = attach.name, attach.handle, attach
        self.links.append(link)
        self.write(attach)

    # -- in -----------------------------------------------------------------------------------------------------

    def take(self, body: Composite, payload: bytes) -> None:
        """What came on this session."""
        match body:
            case Begin():
                self.begun = body
                self.next_incoming_id = body.next_outgoing_id
                self.room = body.incoming_window
            case Attach():
                link = next(
                    each
                    for each in self.links
                    if each.name == body.name and body.role != each.ROLE and each.attached is None
                )
                link.attached = body
                self._by_handle[body.handle] = link
                link.on_attached()
            case Flow():
                expected = self.next_outgoing_id if body.next_incoming_id is None else body.next_incoming_id
                self.room = expected + body.incoming_window - self.next_outgoing_id
                if body.handle is None:
                    self.flows.append(body)
                else:
                    self._by_handle[body.handle].flows.append(body)
            case Transfer():
                self.next_incoming_id = self.next_incoming_id + 1 & 0xFFFF_FFFF
                receiver = self._by_handle[body.handle]
                assert isinstance(receiver, Receiver)
                receiver.on_transfer(body, payload)
            case Disposition():
                self.dispositions.append(body)
                for id in range(body.first, (body.first if body.last is None else body.last) + 1):
                    if body.role:
                        self.outcomes[id] = body
            case Detach():
                link = self._by_handle.pop(body.handle)
                link.detached = body
            case End():
                self.ended = body
            case _:
                raise AssertionError(f"{body} on a session")
