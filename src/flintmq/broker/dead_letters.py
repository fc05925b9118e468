"""Dead letters: messages that a queue gave up go to its dead letter exchange, with the history of their deaths.

The history is RabbitMQ's: the header x-death lists each pair of queue and reason once, the latest first, with a count.
The copy is written to the journal in one group with the settlement of the original: a crash leaves one of the two.
"""

from typing import Final, final

from mypy_extensions import i64

from flintmq.base.values import Timestamp
from flintmq.broker.agenda import REJECTED, Agenda, DeadLetter
from flintmq.broker.exchanges import Exchanges
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.ports import Journal
from flintmq.broker.publishing import TURNED_AWAY, UNROUTED, put
from flintmq.broker.queue.base import Queue
from flintmq.broker.timers import Timed

# Letters of one tick: others get their turn in between.
_LETTERS_PER_TICK: Final = 4_096
# Bytes of their bodies that go into one block of the journal, beyond the last letter.
_LETTER_BYTES_PER_TICK: Final = 16 * 1024 * 1024
# How long a letter nobody took waits on its queue, where the queue asks for at-least-once.
_RETRY_MS: Final = 10_000


@final
class DeadLetters:
    """Publishes the dead letters of all queues. `exchanges` are those of every virtual host, by its name."""

    def __init__(self, agenda: Agenda, exchanges: dict[str, Exchanges], journal: Journal) -> None:
        self._agenda = agenda
        self._exchanges = exchanges
        self._journal = journal

    def publish(self) -> bool:
        """Publish what is waiting; True when some is left for the next tick."""
        letters = self._agenda.dead_letters
        if not letters:
            return False
        left: i64 = _LETTERS_PER_TICK
        bytes_left: i64 = _LETTER_BYTES_PER_TICK
        self._journal.begin_group()
        try:
            while letters and left > 0 and bytes_left > 0:
                letter = letters.popleft()
                self._publish(letter)
                left -= 1
                bytes_left -= len(letter.entry.message.body)
        finally:
            self._journal.end_group()
        return bool(letters)

    def _publish(self, letter: DeadLetter) -> None:
        queue = letter.queue
        outcome = UNROUTED
        exchange = queue.settings.dead_letter_exchange
        exchanges = self._exchanges.get(queue.vhost)
        if exchange is not None and exchanges is not None and exchange in exchanges.by_name:
            outcome = self._send(exchanges, exchange, letter)
        if (outcome == UNROUTED or outcome == TURNED_AWAY) and queue.settings.dead_letters_at_least_once:
            self._agenda.timers.at(self._agenda.now_ms + _RETRY_MS, _Retry(self._agenda, letter))
            return
        queue.settle(letter.entry)

    def _send(self, exchanges: Exchanges, exchange: str, letter: DeadLetter) -> int:
        queue = letter.queue
        original = letter.entry.message
        headers = original.codec.headers(original.properties)
        new_key = queue.settings.dead_letter_key
        copies = _copies(headers)
        keys = [original.address.routing_key, *copies]
        deaths = _buried(headers, letter, keys, self._agenda.now_ms)
        if new_key is not None:
            headers.pop("CC", None)
            copies = []
        _wait_no_more(headers)
        properties = original.codec.edited(original.properties, headers, False)
        message = Message(
            Address(exchange, keys[0] if new_key is None else new_key),
            original.codec,
            properties,
            original.body,
            original.codec.handling(properties),
            self._agenda.now_ms,
        )
        targets = exchanges.router.queues_from(
            exchanges.find(exchange), [message.address.routing_key, *copies], message
        )
        return put([target for target in targets if not _is_cycle(target, deaths)], message, self._journal)


@final
class _Retry(Timed):
    """A letter that found no queue, or a full one, on a queue that asks for at-least-once: it is not settled yet."""

    def __init__(self, agenda: Agenda, letter: DeadLetter) -> None:
        super().__init__()
        self._agenda = agenda
        self._letter = letter

    def on_due(self, now_ms: i64) -> None:
        letter = self._letter
        if letter.queue.gone:
            letter.queue.settle(letter.entry)
        else:
            self._agenda.dead_letters.append(letter)


def _wait_no_more(headers: Table) -> None:
    """A delay is over once its queue has had the message; the sign tells, as after a delayed exchange."""
    delay = headers.get("x-delay")
    if isinstance(delay, int) and not isinstance(delay, bool) and delay > 0:
        headers["x-delay"] = -delay


def _copies(headers: Table) -> list[str]:
    """Further routing keys: BCC is no longer there to be seen once a message is on a queue."""
    listed = headers.get("CC")
    return [key for key in listed if isinstance(key, str)] if isinstance(listed, list) else []


def _buried(headers: Table, letter: DeadLetter, keys: list[str], now_ms: i64) -> list[Table]:
    """Write this death into the headers; returns all deaths, the latest first."""
    listed = headers.get("x-death")
    deaths: list[Table] = [death for death in listed if isinstance(death, dict)] if isinstance(listed, list) else []
    name, reason, message = letter.queue.name, letter.reason, letter.entry.message
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
        death["count"] = count + 1 if isinstance(count, int) else 1
    deaths.insert(0, death)
    headers["x-death"] = deaths
    if "x-first-death-queue" not in headers:
        headers["x-first-death-exchange"] = message.address.exchange
        headers["x-first-death-queue"] = name
        headers["x-first-death-reason"] = reason
    headers["x-last-death-exchange"] = message.address.exchange
    headers["x-last-death-queue"] = name
    headers["x-last-death-reason"] = reason
    return deaths


def _is_cycle(target: Queue, deaths: list[Table]) -> bool:
    """Whether the message came from this queue before, and nobody has rejected it since: it would go round for ever."""
    for death in deaths:
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == target.name:
            return True
    return False
