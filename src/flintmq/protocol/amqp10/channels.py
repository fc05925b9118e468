"""The sessions of a connection by channel: incoming channels, and outgoing ones (amqp-1.0 part 2 §2.4, §2.5.1)."""

from typing import final

from mypy_extensions import i64

from flintmq.base.errors import SCOPE_CONNECTION, FramingError, IllegalState, InvalidField, ResourceLimitExceeded
from flintmq.protocol.amqp10.session import Session
from flintmq.protocol.amqp10.states import Endpoint
from flintmq.protocol.amqp10.transfers import SessionConnection, SessionTransfers
from flintmq.wire.amqp10.performatives import Begin


@final
class Channels:
    """The sessions by channel number. Channels are few and numbered from 0 on, so two lists hold them."""

    def __init__(self, connection: SessionConnection, channel_max: i64) -> None:
        self._connection = connection
        self._channel_max: i64 = channel_max
        self._incoming: list[Session | None] = []
        self._outgoing: list[Session | None] = []
        self._last: Session | None = None

    @property
    def sessions(self) -> list[Session]:
        return [session for session in self._outgoing if session is not None]

    def find(self, number: i64) -> Session | None:
        """Return the session of the peer's channel `number`, or None."""
        session = self._last
        if session is None or session.remote_number != number:
            session = self._incoming[number] if number < len(self._incoming) else None
            self._last = session
        return session

    def check(self, number: i64) -> None:
        """Check a channel number of the peer. Raises FramingError if it is above our channel-max."""
        if number > self._channel_max:
            raise FramingError(f"channel {number} is above our channel-max ({self._channel_max})")

    def new(self) -> Session:
        """Create a session on the lowest free channel. Raises ResourceLimitExceeded if the peer allows no more."""
        numbers = self._outgoing
        number: i64 = 0
        while number < len(numbers) and numbers[number] is not None:
            number += 1
        peer = self._connection.peer
        if peer is not None and number > peer.channel_max:
            raise ResourceLimitExceeded(f"all {peer.channel_max + 1} sessions that the peer allows are in use")
        session = Session(self._connection, number)
        if number == len(numbers):
            numbers.append(session)
        else:
            numbers[number] = session
        return session

    def begun(self, begin: Begin, number: i64) -> Session:
        """Return the session of the peer's begin: one of ours that it answers, or a new one.

        Raises FramingError, IllegalState or InvalidField if the channels of the begin are not possible.
        """
        self.check(number)
        numbers = self._incoming
        if number < len(numbers) and numbers[number] is not None:
            raise IllegalState(f"begin on channel {number}, which has a session")
        session: Session | None = None
        if begin.remote_channel is not None:
            ours: i64 = begin.remote_channel
            session = self._outgoing[ours] if ours < len(self._outgoing) else None
            if session is None or session.remote is not Endpoint.UNSENT:
                raise InvalidField(f"begin answers one on channel {ours}, which waits for none", SCOPE_CONNECTION)
        while len(numbers) <= number:
            numbers.append(None)
        if session is None:
            session = self.new()
        numbers[number] = session
        self._last = None
        return session

    def release(self, session: SessionTransfers) -> None:
        """Free the channels of a session that both sides have ended."""
        self._outgoing[session.number] = None
        if session.remote_number >= 0:
            self._incoming[session.remote_number] = None
        self._last = None
