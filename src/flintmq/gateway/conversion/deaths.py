"""Converts the history of dead letters: tables of x-death in 0-9-1, maps of x-opt-deaths in 1.0 (RabbitMQ)."""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from flintmq.gateway.conversion import tables
from flintmq.wire.amqp091.tables import TAG_LIST, TAG_TABLE, begin_sized, end_sized
from flintmq.wire.amqp10.values import Array, Int, Symbol, TimestampMs, UInt, ULong

_UINT_MAX: Final = 2**32 - 1


def to_10(deaths: object) -> Array | None:
    """Convert the header x-death, given as values of 1.0. None if its value is not as a broker writes it."""
    if not isinstance(deaths, list) or not deaths:
        return None
    maps: list[object] = []
    for death in deaths:
        found = _map(death) if isinstance(death, dict) else None
        if found is None:
            return None
        maps.append(found)
    return Array("map", maps)


def _map(death: dict[object, object]) -> dict[object, object] | None:
    table: dict[str, object] = {}
    for key, value in death.items():
        table[str(key)] = value
    queue, reason, exchange = table.get("queue"), table.get("reason"), table.get("exchange")
    count, keys, time = table.get("count"), table.get("routing-keys"), table.get("time")
    if isinstance(count, Int):
        count = count.value
    if not isinstance(queue, str) or not isinstance(exchange, str) or not isinstance(time, TimestampMs):
        return None
    if not isinstance(reason, str) or not reason.isascii() or not isinstance(count, int) or count < 0:
        return None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        return None
    found: dict[object, object] = {}
    ttl = table.get("original-expiration")
    if isinstance(ttl, str) and ttl.isascii() and ttl.isdigit() and len(ttl) <= 10 and int(ttl) <= _UINT_MAX:
        found[Symbol("ttl")] = UInt(int(ttl))
    found[Symbol("queue")] = queue
    found[Symbol("reason")] = Symbol(reason)
    found[Symbol("count")] = ULong(count)
    found[Symbol("first-time")] = time
    # x-death does not hold the time of the last death.
    found[Symbol("last-time")] = time
    found[Symbol("exchange")] = exchange
    found[Symbol("routing-keys")] = Array("string", keys)
    return found


def push_header(w: BytesWriter, deaths: object) -> bool:
    """Append x-opt-deaths as the value of x-death. Returns False, and appends nothing, if no broker wrote it."""
    if not isinstance(deaths, (Array, list)):
        return False
    at = len(w)
    w.append(u8(TAG_LIST))
    start = begin_sized(w)
    for death in deaths.items if isinstance(deaths, Array) else deaths:
        if not isinstance(death, dict) or not _push_death(w, death):
            w.truncate(at)
            return False
    end_sized(w, start)
    return True


def _push_death(w: BytesWriter, death: dict[object, object]) -> bool:
    found: dict[str, object] = {}
    for key, value in death.items():
        found[str(key)] = value
    count, time, ttl, keys = found.get("count"), found.get("first-time"), found.get("ttl"), found.get("routing-keys")
    if not isinstance(count, ULong) or not isinstance(time, TimestampMs) or time.value < 0:
        return False
    w.append(u8(TAG_TABLE))
    start = begin_sized(w)
    depth: i64 = 3
    # Types and order are those in the broker's own x-death.
    whole = count.value
    tables.push_entry(w, "count", Int(whole) if whole < 2**31 else ULong(whole), depth)
    for name in ("exchange", "queue"):
        tables.push_entry(w, name, found.get(name), depth)
    tables.push_entry(w, "reason", found.get("reason"), depth)
    tables.push_entry(w, "routing-keys", keys, depth)
    tables.push_entry(w, "time", time, depth)
    if isinstance(ttl, UInt):
        tables.push_entry(w, "original-expiration", str(ttl.value), depth)
    end_sized(w, start)
    return True
