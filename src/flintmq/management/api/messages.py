"""Messages of a queue: browse, search, move to another queue, and redrive dead letters."""

from collections import Counter
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from starlette.responses import Response

from flintmq.broker.access.permission import WRITE
from flintmq.broker.dead_letter.dead_letters import last_death
from flintmq.broker.queue.base import Queue
from flintmq.broker.queue.entries import EntryQueue
from flintmq.broker.queue.peek import peek
from flintmq.broker.queue.transfer import Plan
from flintmq.broker.vhost import VHost
from flintmq.management.api.queues import readable_queue
from flintmq.management.errors import BadRequest, Missing
from flintmq.management.http.access import Right
from flintmq.management.http.call import Call, answer
from flintmq.management.http.listing import encoded_object
from flintmq.management.http.routes import Route
from flintmq.management.messages import move
from flintmq.management.messages.browse import SHOWN_MAX_MESSAGES, browse
from flintmq.management.messages.move import move_chosen, to_queue
from flintmq.management.messages.redrive import Redrive
from flintmq.management.messages.selection import POSITIONS_MAX, Selection
from flintmq.management.slices import each

_COUNT: Final = 50
_TRUNCATE_BYTES: Final = 64 * 1024
# The limit for each message; `get` returns large messages completely.
_TRUNCATE_MAX_BYTES: Final = 1024 * 1024
_MOVED_MAX_MESSAGES: Final = 1_000_000
# The causes are counted for so many of the oldest dead letters of a queue; the answer says for how many.
_CAUSES_OF_MESSAGES: Final = 200

Positions = Annotated[list[int], Meta(max_length=POSITIONS_MAX)]


class Page(Struct):
    """A page of messages. `next` is the value of `after` for the next page, None at the end; `looked` is the number of
    examined messages.
    """

    messages: list[dict[str, Any]]
    next: str | None
    looked: int


class Selected(Struct):
    """The messages to choose: by position, as browsing returns it, or by text; all if neither is given."""

    positions: Positions | None = None
    search: str = ""
    count: Annotated[int, Meta(ge=1)] = _MOVED_MAX_MESSAGES
    after: str = ""


class Move(Struct):
    destination: str
    positions: Positions | None = None
    search: str = ""
    count: Annotated[int, Meta(ge=1)] = _MOVED_MAX_MESSAGES
    after: str = ""


class Moved(Struct):
    """The result of a move. `skipped` counts chosen messages that stayed because the other queue had no room, even if
    it drops its oldest messages. `next` is the value of `after` to continue, None at the end.
    """

    moved: int
    skipped: int
    next: str | None


class Redriven(Struct):
    """The result of a redrive. `skipped` counts messages that stayed: the queue that their history names does not
    exist, does not send its dead letters here, may not be written to by the caller, or has no room. `next` is the value
    of `after` to continue, None at the end.
    """

    redriven: int
    skipped: int
    next: str | None


def _number(call: Call, name: str, default: int, most: int) -> int:
    """A number in the query, from 1 to `most`. Raises BadRequest."""
    text = call.query(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= most):
        raise BadRequest(f"{name} is a number from 1 to {most}, not '{text}'")
    return int(text)


def _entries(queue: Queue) -> EntryQueue:
    if not isinstance(queue, EntryQueue):
        raise BadRequest("messages of a stream can be browsed, but not moved")
    return queue


async def _browse(call: Call) -> Response:
    queue = readable_queue(call)
    count = _number(call, "count", _COUNT, SHOWN_MAX_MESSAGES)
    truncate = _number(call, "truncate", _TRUNCATE_BYTES, _TRUNCATE_MAX_BYTES)
    page = await browse(queue, call.query("after"), Selection(call.query("search")), count, truncate)
    messages = page.pop("messages")
    return await encoded_object(page, {"messages": iter(messages)})


async def _move(call: Call) -> Response:
    given = await call.body(Move)
    queue = _entries(readable_queue(call))
    target = call.vhost().queues.get(given.destination)
    if target is None:
        raise Missing("not_found", f"no queue '{given.destination}' in vhost '{queue.vhost}'")
    if target is queue:
        raise BadRequest("the messages are on that queue already")
    call.caller.rights_in(queue.vhost).check(WRITE, "queue", target.name)
    target.check_access(None)
    done = await _moved(call, queue, given, to_queue(target))
    return answer(Moved(done.moved, done.stayed, done.next))


async def _redrive(call: Call) -> Response:
    given = await call.body(Selected)
    queue = _entries(readable_queue(call))
    vhost = call.vhost()
    plan = Redrive(vhost, queue, call.caller.rights_in(vhost.name), call.node.now_ms).plan
    done = await _moved(call, queue, given, plan)
    return answer(Redriven(done.moved, done.stayed, done.next))


async def _moved(call: Call, queue: EntryQueue, given: Move | Selected, plan: Plan) -> move.Moved:
    selection = Selection(given.search, given.positions)
    node = call.node
    most = min(given.count, _MOVED_MAX_MESSAGES)
    call.check_alarms()
    moved = await move_chosen(queue, selection, most, plan, node, given.after)
    # The answer waits until the move is synced.
    await node.durable()
    return moved


# -- dead letters -------------------------------------------------------------------------------------------------


def _dead_letter_queues(vhost: VHost) -> set[Queue]:
    """The queues that may get dead letters: those bound to an exchange that some queue names as its dead-letter
    exchange.
    """
    found: set[Queue] = set()
    exchanges = {queue.settings.dead_letter_exchange for queue in vhost.queues.values()}
    for queue in vhost.queues.values():
        if queue.settings.dead_letter_exchange == "" and queue.settings.dead_letter_key is not None:
            target = vhost.queues.get(queue.settings.dead_letter_key)
            if target is not None:
                found.add(target)
    for name in exchanges - {None, ""}:
        exchange = vhost.exchanges.by_name.get(name or "")
        if exchange is not None:
            found |= {destination for destination in exchange.bindings if isinstance(destination, Queue)}
    return found


def _dead_letter_facts(queue: Queue) -> dict[str, object]:
    causes: Counter[tuple[str, str]] = Counter()
    peeked = peek(queue, 0, -1) if isinstance(queue, EntryQueue) else None
    examined = peeked.entries[:_CAUSES_OF_MESSAGES] if peeked is not None else []
    for entry in examined:
        death = last_death(entry.message)
        if death is not None:
            causes[str(death.get("reason", "")), str(death.get("queue", ""))] += 1
    told = [{"reason": reason, "queue": died_on, "count": count} for (reason, died_on), count in causes.most_common(8)]
    return {
        "vhost": queue.vhost,
        "queue": queue.name,
        "messages": queue.message_count,
        "messages_examined": len(examined),
        "causes": told,
    }


async def _list_dead_letters(vhosts: list[VHost]) -> Response:
    queues = [queue for vhost in vhosts for queue in _dead_letter_queues(vhost) if queue.message_count > 0]
    queues.sort(key=lambda queue: (queue.vhost, queue.name))
    return answer(await each(queues, _dead_letter_facts))


async def _all_dead_letters(call: Call) -> Response:
    return await _list_dead_letters(call.visible_vhosts())


async def _dead_letters(call: Call) -> Response:
    return await _list_dead_letters([call.vhost()])


_WHERE: Final = "/api/queues/{vhost}/{name}"
ROUTES: Final = (
    Route("GET", f"{_WHERE}/messages", _browse, Right.VHOST,
          "Browse and search ready messages (count, search, after, truncate); nothing is taken.", Page),
    Route("POST", f"{_WHERE}/move", _move, Right.VHOST,
          "Move messages to another queue of the virtual host.", Moved, Move, "queue.move"),
    Route("POST", f"{_WHERE}/redrive", _redrive, Right.VHOST,
          "Move dead letters back to the queues they came from.", Redriven, Selected, "queue.redrive"),
    Route("GET", "/api/dead-letters", _all_dead_letters, Right.USER,
          "Queues with dead letters, and their causes.", list[dict[str, Any]]),
    Route("GET", "/api/dead-letters/{vhost}", _dead_letters, Right.VHOST_VISIBLE,
          "Queues with dead letters in a virtual host, and their causes.", list[dict[str, Any]]),
)  # fmt: skip
