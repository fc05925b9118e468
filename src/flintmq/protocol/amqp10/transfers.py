"""The transfers of a session: its windows, unsettled deliveries, and outgoing dispositions (amqp-1.0 part 2 §2.5.6).

This part of a session knows no links. `SessionConnection` is the part of a connection that sessions use.
"""

from abc import abstractmethod

from mypy_extensions import i64

from flintmq.base.errors import Amqp10Error, AmqpError, FrameSizeTooSmall
from flintmq.base.limits import SESSION_WINDOW_TRANSFERS, TICK_WORK_UNITS
from flintmq.protocol.amqp10.delivery import Unsettled
from flintmq.protocol.amqp10.disposition_batch import DispositionBatch
from flintmq.protocol.amqp10.frame_writer import FrameWriter, encode
from flintmq.protocol.amqp10.reassembly import ReassemblyBudget
from flintmq.protocol.amqp10.serial import after
from flintmq.protocol.amqp10.states import Endpoint
from flintmq.protocol.output import LARGE_BODY_BYTES, Output
from flintmq.wire.amqp10.performatives import Flow, Open, Transfer
from flintmq.wire.amqp10.spec import UINT_MAX
from flintmq.wire.amqp10.states import DeliveryState


class SessionConnection:
    """A connection as its sessions use it. `handle_max` and `message_max` (in bytes) are limits of this side."""

    def __init__(self, output: Output, reassembly: ReassemblyBudget, handle_max: i64, message_max: i64) -> None:
        self.output = output
        self.frames = FrameWriter(output)
        self.reassembly = reassembly
        self.handle_max: i64 = handle_max
        self.message_max: i64 = message_max
        # The peer's open.
        self.peer: Open | None = None
        # Whether to accept what the specification forbids and RabbitMQ accepts: an error without a condition, a frame
        # for a session that does not exist, a detach for a link that does not exist, a flow with fields of a link but
        # without a handle, a delivery without a tag.
        self.is_lenient: bool = False
        # The session that began a delivery last. `resume` comes to it last.
        self.last: SessionTransfers | None = None
        self._dirty: list[SessionTransfers] = []
        self._work: i64 = TICK_WORK_UNITS

    def mark_dirty(self, session: "SessionTransfers") -> None:
        """Note that a session has something to write at the next `flush`."""
        self._dirty.append(session)

    def flush(self) -> None:
        """Write what the sessions gathered. An owner that settles outside of `receive` must call this afterwards."""
        dirty = self._dirty
        if dirty:
            self._dirty = []
            for session in dirty:
                session.flush()

    def spend(self, units: i64) -> None:
        """Charge the peer for work of the owner. After TICK_WORK_UNITS in a tick, its next frame waits."""
        self._work -= units

    @abstractmethod
    def release(self, session: "SessionTransfers") -> None:
        """Free the channels of a session that both sides have ended."""


class SessionTransfers:
    """A session without its links. It sends on channel `number`; the peer sends on channel `remote_number`."""

    def __init__(self, connection: SessionConnection, number: i64) -> None:
        self.connection = connection
        self.frames: FrameWriter = connection.frames
        self.output: Output = connection.output
        self.reassembly: ReassemblyBudget = connection.reassembly
        self.number: i64 = number
        self.remote_number: i64 = -1
        self.local: Endpoint = Endpoint.UNSENT
        self.remote: Endpoint = Endpoint.UNSENT
        # The largest frame to the peer, in bytes.
        self.frame_max: i64 = connection.frames.frame_max
        # The unsettled deliveries that this side sent, and those that the peer sent.
        self.outgoing: Unsettled = Unsettled()
        self.incoming: Unsettled = Unsettled()
        # The windows (part 2 §2.5.6): `_remote_window` transfers may still be sent, `_incoming_left` may still arrive.
        self._next_outgoing_id: i64 = 0
        self._remote_window: i64 = 0
        self._next_incoming_id: i64 = 0
        self._incoming_left: i64 = SESSION_WINDOW_TRANSFERS
        self._next_delivery_id: i64 = 0
        # Whether a link was refused room.
        self._is_starved = False
        # Dispositions and a window that `flush` has to write.
        self._as_sender = DispositionBatch(False)
        self._as_receiver = DispositionBatch(True)
        self._owes_window = False
        self._is_dirty = False
        # Whether a disposition waits to be joined with others. It must be written before any later transfer.
        self.has_dispositions: bool = False

    @abstractmethod
    def end(self, error: AmqpError | Amqp10Error | None = None) -> None:
        """Send end. The session sends and accepts nothing more. Does nothing if this side has ended it already."""

    @abstractmethod
    def flush(self) -> None:
        """Write the dispositions, the flows of links and the window that were gathered."""

    @abstractmethod
    def pump(self) -> None:
        """Continue messages that were sent in part, and then call the owners of links that have credit.

        Does nothing if no link was refused room since the last call.
        """

    # -- transfers to the peer ----------------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Return whether a transfer may be written now. If not, the links are told when there is room."""
        if self._remote_window > 0 and self.output.has_room():
            return True
        self._is_starved = True
        return False

    def send_transfer(self, transfer: Transfer) -> None:
        """Send a transfer without a payload."""
        self.begin_transfer(encode(transfer), 0)
        self.sent_transfer()

    def begin_transfer(self, transfer: bytes, size: i64) -> None:
        """Write a transfer up to its payload. The caller writes the payload of `size` bytes."""
        if self.has_dispositions:
            self.flush_dispositions()
        self.frames.begin(self.number, transfer, size)
        self.output.charge(size)
        self.output.touch()

    def write_payload(self, data: bytes, start: i64, stop: i64) -> None:
        """Write data[start:stop] as a part of the payload of the transfer that was begun. A large one is not copied."""
        if stop - start >= LARGE_BODY_BYTES:
            self.output.lay_behind(data, start, stop)
        else:
            self.output.writer.write(data[start:stop])

    def sent_transfer(self) -> None:
        """Count a transfer that was written against the peer's window."""
        self._next_outgoing_id = after(self._next_outgoing_id, 1)
        self._remote_window -= 1

    # -- transfers from the peer --------------------------------------------------------------------------------

    def _count_incoming(self) -> None:
        self._next_incoming_id = after(self._next_incoming_id, 1)
        self._incoming_left -= 1
        if self._incoming_left < SESSION_WINDOW_TRANSFERS // 2 and not self._owes_window:
            self._owe_window()

    def _uncount_incoming(self) -> None:
        self._next_incoming_id = after(self._next_incoming_id, -1)
        self._incoming_left += 1

    # -- dispositions and flows ---------------------------------------------------------------------------------

    def add_disposition(self, as_receiver: bool, delivery_id: i64, state: DeliveryState | None, settled: bool) -> None:
        """Send a disposition with the next `flush`. It may be joined with the one before it."""
        if self.local is not Endpoint.ACTIVE:
            return
        batch = self._as_receiver if as_receiver else self._as_sender
        try:
            batch.add(self.frames, self.number, delivery_id, state, settled)
        except FrameSizeTooSmall as error:
            self.end(error)
            return
        self.has_dispositions = True
        if not self._is_dirty:
            self._mark_dirty()

    def flush_dispositions(self) -> None:
        """Write the dispositions that wait to be joined with others."""
        self.has_dispositions = False
        try:
            self._as_sender.write(self.frames, self.number)
            self._as_receiver.write(self.frames, self.number)
        except FrameSizeTooSmall as error:
            # The delivery state, which an owner chose, is too large for a frame.
            self.end(error)

    def send_flow(self, flow: Flow) -> None:
        """Complete a flow with the state of the session, and send it."""
        flow.next_incoming_id = self._next_incoming_id if self.remote is not Endpoint.UNSENT else None
        flow.incoming_window = SESSION_WINDOW_TRANSFERS
        flow.next_outgoing_id = self._next_outgoing_id
        flow.outgoing_window = UINT_MAX >> 1
        self._incoming_left = SESSION_WINDOW_TRANSFERS
        self._owes_window = False
        self.frames.send(self.number, flow)

    def _owe_window(self) -> None:
        """Send a flow with the state of the session at the next `flush`."""
        self._owes_window = True
        if not self._is_dirty:
            self._mark_dirty()

    def _mark_dirty(self) -> None:
        self._is_dirty = True
        self.connection.mark_dirty(self)
