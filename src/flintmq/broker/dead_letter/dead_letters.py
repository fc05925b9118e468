"""Publishes dead letters to dead letter exchanges, with the history of their deaths.

The history is RabbitMQ's: the header x-death lists each pair of queue and reason once, the latest first, with a count.
The journal gets the copy and the settlement of the original in one group: after a crash exactly one of the two exists.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.limits import DEAD_LETTER_STEP_UNITS, DEAD_LETTER_WORK_UNITS, TABLE_ENTRIES_MAX
from flintmq.base.values import Timestamp
from flintmq.base.work import WORK
from flintmq.broker.bounds import short
from flintmq.broker.dead_letter.held import DEAD_LETTER_BYTES_PER_TICK, HeldDeadLetters
from flintmq.broker.exchange.registry import ExchangeRegistry
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.ports import Journal
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.publish import put, put_where_taken
from flintmq.broker.tick import DELIVERY_LIMIT, REJECTED, DeadLetter, Tick

# Reasons that are caused by a consumer's settlement.
_BY_CONSUMERS: Final = (REJECTED, DELIVERY_LIMIT)
# The highest number that a field of a table can hold. The history may come from a publisher and contain anything.
_COUNT_MAX: Final = 2**63 - 1
# The number of deaths that the history keeps, the latest ones: all of them are in one frame, and are read for each
# further death.
_DEATHS_MAX: Final = 256
_DEATHS: Final = "x-death"
_ENCODED_DEATHS: Final = _DEATHS.encode()
_DELIVERY_COUNT: Final = "x-delivery-count"
_FIRST: Final = ("x-first-death-exchange", "x-first-death-queue", "x-first-death-reason")
_LAST: Final = ("x-last-death-exchange", "x-last-death-queue", "x-last-death-reason")
# The number of other headers that a table can hold beside the history and the delivery count.
_OTHER_HEADERS_MAX: Final = TABLE_ENTRIES_MAX - 8


@final
class DeadLetters:
    """Publishes the dead letters of all queues. `exchanges` has each virtual host's exchange registry, by name."""

    def __init__(self, tick: Tick, exchanges: dict[str, ExchangeRegistry], journal: Journal) -> None:
        self._tick = tick
        self._exchanges = exchanges
        self._journal = journal
        self._held = HeldDeadLetters(tick, exchanges, journal)

    def publish(self) -> bool:
        """Publish waiting dead letters. Returns True if some are left for the next tick."""
        dead_letters = self._tick.dead_letters
        bytes_left: i64 = DEAD_LETTER_BYTES_PER_TICK
        self._journal.begin_group()
        try:
            self._held.retry()
            self._publish_discarded()
            enough = WORK.spent + DEAD_LETTER_STEP_UNITS
            while dead_letters and bytes_left > 0 and WORK.spent < enough:
                dead_letter = dead_letters.popleft()
                self._publish(dead_letter)
                self._publish_discarded()
                bytes_left -= len(dead_letter.entry.message.body)
        finally:
            self._journal.end_group()
        return bool(dead_letters) or bool(self._tick.with_room)

    def publish_since(self, since: int) -> None:
        """Publish dead letters that cannot wait for the next tick.

        These are the messages that no queue keeps any more, and, of the dead letters behind the first `since`, those
        that consumers caused. The messages of all others stay on their queues until they are published.
        """
        self._publish_discarded()
        dead_letters = self._tick.dead_letters
        newer = [dead_letters.pop() for _ in range(len(dead_letters) - since)]
        newer.reverse()
        for dead_letter in newer:
            if dead_letter.reason in _BY_CONSUMERS:
                self._publish(dead_letter)
                self._publish_discarded()
            else:
                dead_letters.append(dead_letter)

    def _publish_discarded(self) -> None:
        """Publish the dead letters of discarded messages, all in this tick.

        Nothing else keeps these messages, and their publishers are answered with this tick.
        """
        discarded = self._tick.discarded
        while discarded:
            self._publish(discarded.popleft())

    def _publish(self, dead_letter: DeadLetter) -> None:
        WORK.spent += DEAD_LETTER_WORK_UNITS
        queue = dead_letter.queue
        exchange = queue.settings.dead_letter_exchange
        exchanges = self._exchanges.get(queue.vhost)
        message = dead_letter.entry.message
        targets: list[Queue] = []
        strategy = "disabled"
        if exchange is not None and exchanges is not None and exchange in exchanges.by_name:
            strategy = "at_least_once" if queue.settings.dead_letters_at_least_once else "at_most_once"
            headers = message.codec.headers(message.properties)
            copies = _cc_keys(headers)
            deaths = _with_death(headers, dead_letter, [message.address.routing_key, *copies], self._tick.now_ms)
            if queue.settings.dead_letter_key is not None:
                headers.pop("CC", None)
                copies = []
            message = self._dead_letter_message(dead_letter, exchange, headers)
            found = exchanges.router.queues_from(
                exchanges.find(exchange), [message.address.routing_key, *copies], message
            )
            targets = [target for target in found if not _is_cycle(target, deaths)]
        self._tick.churn.dead_lettered(queue.kind, strategy, dead_letter.reason)
        if exchange is not None and queue.settings.dead_letters_at_least_once:
            self._publish_at_least_once(dead_letter, message, targets)
            return
        put(targets, message, self._journal)
        queue.drop(dead_letter.entry)

    def _dead_letter_message(self, dead_letter: DeadLetter, exchange: str, headers: Table) -> Message:
        """Return the message for the dead letter exchange, with these headers."""
        original = dead_letter.entry.message
        codec = original.codec
        new_key = dead_letter.queue.settings.dead_letter_key
        _negate_delay(headers)
        properties = codec.edited(original.properties, headers, False)
        if 0 < codec.properties_max < len(properties):
            _shorten(headers)
            properties = codec.edited(original.properties, headers, False)
        failures = int(dead_letter.entry.returns)
        if failures > 0:
            properties = codec.failed(properties, failures)
        return Message(
            Address(exchange, short(original.address.routing_key if new_key is None else new_key)),
            codec,
            properties,
            original.body,
            codec.options(properties),
            self._tick.now_ms,
        )

    def _publish_at_least_once(self, dead_letter: DeadLetter, message: Message, targets: list[Queue]) -> None:
        """Publish at least once: settle the dead letter when all targets have it.

        Targets that took it when it was routed before are left out.
        """
        held = self._held
        taken = dead_letter.taken or []
        targets = [target for target in targets if target not in taken]
        free = [target for target in targets if not held.has_waiting(target)]
        lacking = put_where_taken(free, message, self._journal)
        for target in free:
            if target not in lacking:
                dead_letter.has_taken(target)
        lacking += [target for target in targets if held.has_waiting(target)]
        if lacking or not dead_letter.taken:
            held.hold(dead_letter, message, lacking)
        else:
            dead_letter.queue.drop(dead_letter.entry)


def last_death(message: Message) -> Table | None:
    """The latest entry of the history of a dead letter; None for another message."""
    # A search in the encoded properties is much cheaper than decoding a table.
    if _ENCODED_DEATHS not in message.properties:
        return None
    deaths = _deaths(message.codec.headers(message.properties))
    return deaths[0] if deaths else None


def _deaths(headers: Table) -> list[Table]:
    """The entries of the history, the latest first. A publisher may have written anything there."""
    listed = headers.get(_DEATHS)
    return [death for death in listed if isinstance(death, dict)] if isinstance(listed, list) else []


def _negate_delay(headers: Table) -> None:
    """Negate a delay header: the delay is over, and consumers still see its length, as after a delayed exchange."""
    delay = headers.get("x-delay")
    if isinstance(delay, int) and not isinstance(delay, bool) and delay > 0:
        headers["x-delay"] = -delay


def _cc_keys(headers: Table) -> list[str]:
    """Return the further routing keys in CC. The BCC header was removed when the message was routed."""
    listed = headers.get("CC")
    return [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []


def _with_death(headers: Table, dead_letter: DeadLetter, keys: list[str], now_ms: i64) -> list[Table]:
    """Write this death into the headers. Returns all deaths, the latest first."""
    if dead_letter.entry.message.origin != 0:
        # The message comes directly from a client, which may have copied these headers from another message.
        for field in (_DEATHS, *_FIRST, _DELIVERY_COUNT):
            headers.pop(field, None)
    deaths = _deaths(headers)
    name, reason, message = dead_letter.queue.name, dead_letter.reason, dead_letter.entry.message
    death: Table | None = None
    for known in deaths:
        if known.get("queue") == name and known.get("reason") == reason:
            death = known
    if death is None:
        death = {
            "count": 1,
            "exchange": message.address.exchange,
            "queue": name,
            "reason": reason,
            "routing-keys": list(keys),
            "time": Timestamp(int(now_ms) // 1000),
        }
        expiration = message.codec.property_text(message.properties, "expiration")
        if expiration:
            death["original-expiration"] = expiration
    else:
        deaths.remove(death)
        count = death.get("count")
        # The count may come from a publisher and be anything.
        if isinstance(count, int) and not isinstance(count, bool) and 0 < count < _COUNT_MAX:
            death["count"] = count + 1
        else:
            death["count"] = 1
    if message.codec.dates_deaths:
        death.setdefault("first-time", int(now_ms))
        death["last-time"] = int(now_ms)
    deaths.insert(0, death)
    del deaths[_DEATHS_MAX:]
    _make_room(headers)
    headers[_DEATHS] = deaths
    facts = (message.address.exchange, name, reason)
    if "x-first-death-queue" not in headers:
        headers.update(zip(_FIRST, facts, strict=True))
    headers.update(zip(_LAST, facts, strict=True))
    return deaths


def _make_room(headers: Table) -> None:
    """Drop headers that a publisher put last if the history would make the table too large."""
    if len(headers) > _OTHER_HEADERS_MAX:
        own = (_DEATHS, _DELIVERY_COUNT, *_FIRST, *_LAST)
        others = [field for field in headers if field not in own]
        for field in others[_OTHER_HEADERS_MAX:]:
            del headers[field]


def _shorten(headers: Table) -> None:
    """Reduce the history to its latest death with one routing key, so that the headers fit a frame."""
    deaths = headers.get(_DEATHS)
    if isinstance(deaths, list) and deaths and isinstance(deaths[0], dict):
        latest = dict(deaths[0])
        keys = latest.get("routing-keys")
        if isinstance(keys, list):
            latest["routing-keys"] = keys[:1]
        headers[_DEATHS] = [latest]


def _is_cycle(target: Queue, deaths: list[Table]) -> bool:
    """Whether the message came from this queue before without a reject since: it would circulate forever."""
    for death in deaths:
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == target.name:
            return True
    return False
