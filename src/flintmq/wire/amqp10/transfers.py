"""Reads and writes transfer, disposition and flow without an object per field: every message needs at least one.

Readers begin behind the descriptor. `composite_reader` and `writer` handle the rare fields.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from flintmq.base.errors import DecodeError
from flintmq.wire.amqp10 import spec, types
from flintmq.wire.amqp10.composite_reader import read_state
from flintmq.wire.amqp10.performatives import Disposition, Flow, Transfer
from flintmq.wire.amqp10.reader import ABSENT, Reader
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, DeliveryState
from flintmq.wire.amqp10.writer import unsigned, write_binary, write_composite, write_fields, write_uint

UINT_MAX: Final = 0xFFFF_FFFF


def _open_list(reader: Reader, mandatory: i64, most: i64) -> tuple[i64, i64]:
    code = reader.code()
    if code != types.LIST8 and code != types.LIST32:
        raise DecodeError(f"the described value at byte {reader.pos - 1} is not a list, or is empty")
    count, outer = reader.open(code)
    if count < mandatory:
        raise DecodeError(f"{count} fields, the first {mandatory} are mandatory")
    if count > most:
        raise DecodeError(f"{count} fields, the type has {most}")
    return count, outer


def _state(reader: Reader) -> DeliveryState:
    """Read a delivery state: nearly always accepted or released, in the encoding that all peers use."""
    data = reader.data
    pos = reader.pos
    if (
        pos + 4 <= reader.end
        and data[pos] == types.DESCRIBED
        and data[pos + 1] == types.SMALLULONG
        and data[pos + 3] == types.LIST0
    ):
        if data[pos + 2] == spec.ACCEPTED:
            reader.pos = pos + 4
            return ACCEPTED
        if data[pos + 2] == spec.RELEASED:
            reader.pos = pos + 4
            return RELEASED
    return read_state(reader, 2)


def read_transfer(reader: Reader) -> Transfer:
    count, outer = _open_list(reader, 1, 11)
    transfer = Transfer(reader.uint())
    if count > 1:
        number = reader.uint_or_null()
        if number != ABSENT:
            transfer.delivery_id = number
    if count > 2 and not reader.is_null():
        transfer.delivery_tag = reader.binary()
    if count > 3:
        number = reader.uint_or_null()
        if number != ABSENT:
            transfer.message_format = number
    if count > 4 and not reader.is_null():
        transfer.settled = reader.boolean()
    if count > 5:
        transfer.more = reader.flag()
    if count > 6:
        if not reader.is_null():
            transfer.rcv_settle_mode = reader.ubyte()
        if count > 7 and not reader.is_null():
            transfer.state = _state(reader)
        if count > 8:
            transfer.resume = reader.flag()
        if count > 9:
            transfer.aborted = reader.flag()
        if count > 10:
            transfer.batchable = reader.flag()
    reader.close(outer)
    return transfer


def read_disposition(reader: Reader) -> Disposition:
    count, outer = _open_list(reader, 2, 6)
    disposition = Disposition(reader.boolean(), reader.uint())
    if count > 2:
        number = reader.uint_or_null()
        if number != ABSENT:
            disposition.last = number
    if count > 3:
        disposition.settled = reader.flag()
    if count > 4 and not reader.is_null():
        disposition.state = _state(reader)
    if count > 5:
        disposition.batchable = reader.flag()
    reader.close(outer)
    return disposition


def read_flow(reader: Reader) -> Flow:
    count, outer = _open_list(reader, 4, 11)
    number = reader.uint_or_null()
    flow = Flow(None, reader.uint(), reader.uint(), reader.uint())
    if number != ABSENT:
        flow.next_incoming_id = number
    if count > 4:
        number = reader.uint_or_null()
        if number != ABSENT:
            flow.handle = number
    if count > 5:
        number = reader.uint_or_null()
        if number != ABSENT:
            flow.delivery_count = number
    if count > 6:
        number = reader.uint_or_null()
        if number != ABSENT:
            flow.link_credit = number
    if count > 7:
        number = reader.uint_or_null()
        if number != ABSENT:
            flow.available = number
    if count > 8:
        flow.drain = reader.flag()
    if count > 9:
        flow.echo = reader.flag()
    if count > 10 and not reader.is_null():
        flow.properties = reader.fields(2)
    reader.close(outer)
    return flow


def _begin(w: BytesWriter, descriptor: i64, count: i64) -> i64:
    """Begin a list. Returns the position of its size, which `_end` fills in."""
    w.append(types.DESCRIBED)
    w.append(types.SMALLULONG)
    w.append(descriptor)
    w.append(types.LIST8)
    at = i64(len(w))
    w.append(0)
    w.append(count)
    return at


def _end(w: BytesWriter, at: i64) -> bool:
    """End a list. Returns False if it exceeds the short form and has to be written again."""
    size = i64(len(w)) - at - 1
    if size > 0xFF:
        w.truncate(at - 4)
        return False
    w[at] = u8(size)
    return True


def _uint_or_null(w: BytesWriter, value: int | None, what: str) -> None:
    if value is None:
        w.append(types.NULL)
    else:
        write_uint(w, unsigned(value, UINT_MAX, what))


def _write_flag(w: BytesWriter, value: bool) -> None:
    w.append(types.TRUE if value else types.FALSE)


def _write_state(w: BytesWriter, state: DeliveryState | None) -> None:
    if state is None:
        w.append(types.NULL)
    elif state is ACCEPTED:
        w.append(types.DESCRIBED)
        w.append(types.SMALLULONG)
        w.append(spec.ACCEPTED)
        w.append(types.LIST0)
    else:
        write_composite(w, state, 2)


def _transfer_fields(transfer: Transfer) -> i64:
    """Return the number of fields to write: up to the last one that is set."""
    if transfer.batchable:
        return 11
    if transfer.aborted:
        return 10
    if transfer.resume:
        return 9
    if transfer.state is not None:
        return 8
    if transfer.rcv_settle_mode is not None:
        return 7
    if transfer.more:
        return 6
    if transfer.settled is not None:
        return 5
    if transfer.message_format is not None:
        return 4
    if transfer.delivery_tag is not None:
        return 3
    return 1 if transfer.delivery_id is None else 2


def write_transfer(w: BytesWriter, transfer: Transfer) -> None:
    count = _transfer_fields(transfer)
    at = _begin(w, spec.TRANSFER, count)
    write_uint(w, unsigned(transfer.handle, UINT_MAX, "transfer handle"))
    if count > 1:
        _uint_or_null(w, transfer.delivery_id, "transfer delivery-id")
    if count > 2:
        tag = transfer.delivery_tag
        if tag is None:
            w.append(types.NULL)
        else:
            write_binary(w, tag)
    if count > 3:
        _uint_or_null(w, transfer.message_format, "transfer message-format")
    if count > 4:
        settled = transfer.settled
        if settled is None:
            w.append(types.NULL)
        else:
            _write_flag(w, settled)
    if count > 5:
        _write_flag(w, transfer.more)
    if count > 6:
        mode = transfer.rcv_settle_mode
        if mode is None:
            w.append(types.NULL)
        else:
            w.append(types.UBYTE)
            w.append(unsigned(mode, 0xFF, "transfer rcv-settle-mode"))
    if count > 7:
        _write_state(w, transfer.state)
    if count > 8:
        _write_flag(w, transfer.resume)
    if count > 9:
        _write_flag(w, transfer.aborted)
    if count > 10:
        _write_flag(w, transfer.batchable)
    if not _end(w, at):
        write_composite(w, transfer)


def write_disposition(w: BytesWriter, disposition: Disposition) -> None:
    count: i64 = 2
    if disposition.batchable:
        count = 6
    elif disposition.state is not None:
        count = 5
    elif disposition.settled:
        count = 4
    elif disposition.last is not None:
        count = 3
    at = _begin(w, spec.DISPOSITION, count)
    _write_flag(w, disposition.role)
    write_uint(w, unsigned(disposition.first, UINT_MAX, "disposition first"))
    if count > 2:
        _uint_or_null(w, disposition.last, "disposition last")
    if count > 3:
        _write_flag(w, disposition.settled)
    if count > 4:
        _write_state(w, disposition.state)
    if count > 5:
        w.append(types.TRUE)
    if not _end(w, at):
        write_composite(w, disposition)


def _flow_fields(flow: Flow) -> i64:
    if flow.properties is not None:
        return 11
    if flow.echo:
        return 10
    if flow.drain:
        return 9
    if flow.available is not None:
        return 8
    if flow.link_credit is not None:
        return 7
    if flow.delivery_count is not None:
        return 6
    return 4 if flow.handle is None else 5


def write_flow(w: BytesWriter, flow: Flow) -> None:
    count = _flow_fields(flow)
    at = _begin(w, spec.FLOW, count)
    _uint_or_null(w, flow.next_incoming_id, "flow next-incoming-id")
    write_uint(w, unsigned(flow.incoming_window, UINT_MAX, "flow incoming-window"))
    write_uint(w, unsigned(flow.next_outgoing_id, UINT_MAX, "flow next-outgoing-id"))
    write_uint(w, unsigned(flow.outgoing_window, UINT_MAX, "flow outgoing-window"))
    if count > 4:
        _uint_or_null(w, flow.handle, "flow handle")
    if count > 5:
        _uint_or_null(w, flow.delivery_count, "flow delivery-count")
    if count > 6:
        _uint_or_null(w, flow.link_credit, "flow link-credit")
    if count > 7:
        _uint_or_null(w, flow.available, "flow available")
    if count > 8:
        _write_flag(w, flow.drain)
    if count > 9:
        _write_flag(w, flow.echo)
    properties = flow.properties
    if properties is not None:
        write_fields(w, properties, 2)
    if not _end(w, at):
        write_composite(w, flow)
