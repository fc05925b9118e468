"""Messages looked at, searched, moved and driven back, however deep they lie, and none of them lost."""

from itertools import pairwise

import pytest

from flintmq.base.limits import EXPIRY_STEP_MESSAGES, STEP_UNITS
from flintmq.broker.message import Address, Entry, Message
from flintmq.broker.ports import Page, PermissionRecord
from flintmq.broker.queue.classic import ClassicQueue
from flintmq.broker.queue.peek import peek
from flintmq.gateway.amqp091.codec import CODEC_091
from flintmq.management.messages import move
from flintmq.wire.amqp091.properties import Properties, encode_properties
from tests.unit.gateway.amqp091.pair import PERSISTENT
from tests.unit.management.api.test_live_objects import publish
from tests.unit.management.fake_node import Alarmed, Api, refused

Q = "/api/queues/%2F/q"


@pytest.fixture
def api() -> Api:
    made = Api()
    made.put(Q, {"durable": True})
    made.put("/api/queues/%2F/other", {"durable": True})
    return made


def fill(api: Api, count: int, name: str = "q") -> None:
    vhost = api.broker.vhosts["/"]
    for number in range(count):
        body = f"message {number}".encode()
        message = Message(Address("", name), CODEC_091, PERSISTENT, body, CODEC_091.options(PERSISTENT), 0)
        vhost.deliver(message, [vhost.queues[name]])


def seen(api: Api, query: str = "") -> list[str]:
    return [message["payload"] for message in api.found(f"{Q}/messages{query}")["messages"]]


def queue(api: Api, name: str = "q") -> ClassicQueue:
    found = api.broker.vhosts["/"].queues[name]
    assert isinstance(found, ClassicQueue)
    return found


def page_out(api: Api) -> None:
    """Pack all messages but the first and last ones, as if memory were low."""
    before = queue(api)
    before.page_out()
    assert any(part.pages for part in before.store.parts())


def test_what_is_delayed_is_not_shown_before_it_is_due(api: Api) -> None:
    """A look shows what is ready: what a queue holds back comes to it later."""
    publish(api, "later", headers={"x-delay": 1_000})
    publish(api, "now")
    assert seen(api) == ["now"]
    api.node.now += 1_001
    api.node.now_ms()
    api.broker.dispatch()
    assert seen(api) == ["now", "later"]


@pytest.mark.parametrize("packed", [False, True])
def test_page_by_page(api: Api, packed: bool) -> None:
    """Browsing takes and marks nothing; each page continues where the last one ended, also through packed messages."""
    fill(api, 2_500)
    if packed:
        page_out(api)
    found: list[str] = []
    after = ""
    while True:
        page = api.found(f"{Q}/messages?count=300&after={after}")
        found += [message["payload"] for message in page["messages"]]
        assert all(not message["redelivered"] for message in page["messages"])
        if page["next"] is None:
            break
        after = page["next"]
    assert found == [f"message {number}" for number in range(2_500)]
    assert queue(api).message_count == 2_500
    assert queue(api).unacked == 0


def test_priorities(api: Api) -> None:
    """Messages are listed in the order of delivery, across pages, too."""
    api.delete(Q)
    api.put(Q, {"durable": True, "arguments": {"x-max-priority": 9}})
    for number, priority in enumerate([0, 5, 0, 9, 5]):
        publish(api, f"{priority}-{number}", priority=priority)
    expected = ["9-3", "5-1", "5-4", "0-0", "0-2"]
    assert seen(api) == expected
    found: list[str] = []
    after = ""
    for _ in expected:
        page = api.found(f"{Q}/messages?count=1&after={after}")
        found += [message["payload"] for message in page["messages"]]
        after = page["next"]
    assert found == expected


def test_searching(api: Api) -> None:
    """A search covers body, routing key and headers, ignores case, and is not limited to ASCII."""
    fill(api, 30)
    publish(api, "ÄRGER")
    publish(api, "", headers={"Tenant": "Acme"})
    assert seen(api, "?search=MESSAGE 17") == ["message 17"]
    assert seen(api, "?search=ärger") == ["ÄRGER"]
    assert seen(api, "?search=acme") == [""]
    assert seen(api, "?search=nothing like it") == []
    assert len(seen(api, "?search=q&count=500")) == 32


def test_what_is_refused(api: Api) -> None:
    """Limits are told."""
    for query in (
        "count=0",
        "count=501",
        "count=x",
        "after=1.x",
        "after=1." + "9" * 19,
        "truncate=0",
        "truncate=1048577",
        f"search={'a' * 1025}",
    ):
        assert refused(api.get(f"{Q}/messages?{query}"))[0] == 400, query


@pytest.mark.parametrize("packed", [False, True])
def test_moving_some(api: Api, packed: bool) -> None:
    """Messages chosen by position move in order, and the journal has each of them once."""
    fill(api, 2_500)
    if packed:
        page_out(api)
    positions = [message["position"] for message in api.found(f"{Q}/messages?search=7&count=500")["messages"]]
    response = api.post(f"{Q}/move", {"destination": "other", "positions": positions})
    assert response.json() == {"moved": len(positions), "skipped": 0, "next": None}
    others = [entry.message.body.decode() for entry in entries(api, "other")]
    assert (
        others == [text for text in (f"message {number}" for number in range(2_500)) if "7" in text][: len(positions)]
    )
    assert queue(api).message_count == 2_500 - len(positions)
    kept = sorted(body.decode() for body in api.node.storage.memory_journal.kept.values())
    assert kept == sorted(f"message {number}" for number in range(2_500))
    assert queue(api).ready_bytes == sum(len(entry.message.body) for entry in entries(api, "q"))


def entries(api: Api, name: str) -> list[Entry]:
    found: list[Entry] = []
    place = (0, -1)
    while (peeked := peek(queue(api, name), *place)) is not None:
        found += peeked.entries
        place = (int(peeked.part), int(peeked.entries[-1].position))
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_moving_all(api: Api, packed: bool) -> None:
    """Without a choice all messages move, and the answer comes when they are synced."""
    fill(api, 1_500)
    if packed:
        page_out(api)
    assert api.post(f"{Q}/move", {"destination": "other"}).json() == {"moved": 1_500, "skipped": 0, "next": None}
    assert (queue(api).message_count, queue(api, "other").message_count) == (0, 1_500)
    assert len(api.node.storage.memory_journal.kept) == 1_500


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
@pytest.mark.parametrize("limit", [{"x-max-length": 3}, {"x-max-length-bytes": 3 * len("message 0")}])
def test_moving_to_a_full_queue(api: Api, overflow: str, limit: dict[str, int]) -> None:
    """Messages for which the other queue has no room stay, and it drops nothing for them."""
    api.put("/api/queues/%2F/small", {"durable": True, "arguments": {**limit, "x-overflow": overflow}})
    fill(api, 10)
    assert api.post(f"{Q}/move", {"destination": "small"}).json() == {"moved": 3, "skipped": 7, "next": None}
    assert (queue(api).message_count, queue(api, "small").message_count) == (7, 3)


@pytest.mark.parametrize("packed", [False, True])
def test_a_long_search(api: Api, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request examines a limited number of messages and says where to continue; later messages are not examined."""
    monkeypatch.setattr(move, "EXAMINED_MAX_MESSAGES", 600)
    fill(api, 2_500)
    if packed:
        page_out(api)
    asked = {"destination": "other", "search": "message 17"}
    total, after, requests = 0, "", 0
    while after is not None:
        answer = api.post(f"{Q}/move", {**asked, "after": after}).json()
        fill(api, 18)
        total += answer["moved"]
        after = answer["next"]
        requests += 1
    assert (total, requests > 1) == (111, True)
    for bad in ("x", "1.2", "1.2.3.4", "1.2." + "9" * 19):
        assert refused(api.post(f"{Q}/move", {**asked, "after": bad}))[0] == 400


@pytest.mark.parametrize("packed", [False, True])
def test_steps_without_time(api: Api, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is moved once, even if it takes all the time of a step."""
    monkeypatch.setattr(move, "_STEP_SECONDS", -1.0)
    fill(api, 300)
    if packed:
        page_out(api)
    assert api.post(f"{Q}/move", {"destination": "other"}).json() == {"moved": 300, "skipped": 0, "next": None}
    assert [entry.message.body.decode() for entry in entries(api, "other")] == [f"message {n}" for n in range(300)]


def test_a_page_is_read_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed messages are moved page by page, and nothing is packed again."""
    monkeypatch.setattr(move, "_STEP_SECONDS", 60.0)
    fill(api, 3_000)
    page_out(api)
    pages = api.node.storage.pages
    reads: list[int] = []
    read = pages.read

    def counted(page: Page) -> list[Entry]:
        reads.append(int(page.count))
        return read(page)

    monkeypatch.setattr(pages, "read", counted)
    monkeypatch.setattr(pages, "repack", None)
    assert api.post(f"{Q}/move", {"destination": "other"}).json()["moved"] == 3_000
    assert sum(reads) == 3_000


def test_alarms(api: Api) -> None:
    """While there is no room nothing is published or moved; what goes on meanwhile ends where the alarm came."""
    fill(api, 300)
    api.node.alarms = [Alarmed("disk"), Alarmed("memory")]
    body = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}}
    status, word, reason = refused(api.post("/api/exchanges/%2F/amq.default/publish", body))
    assert (status, word) == (503, "service_unavailable")
    assert "disk and memory alarm" in reason
    assert refused(api.post(f"{Q}/move", {"destination": "other"}))[0] == 503
    assert refused(api.post(f"{Q}/redrive", {}))[0] == 503
    api.node.alarms = []
    begin = api.node.now_ms

    def alarmed_meanwhile() -> int:
        if queue(api, "other").message_count > 0:
            api.node.alarms = [Alarmed("disk")]
        return begin()

    api.node.now_ms = alarmed_meanwhile  # type: ignore[method-assign]
    moved = api.post(f"{Q}/move", {"destination": "other"}).json()["moved"]
    assert 0 < moved < 300
    assert queue(api, "other").message_count == moved


def test_looking_by_get(api: Api) -> None:
    """Messages that are taken and put back do not count as failures; rejected ones do."""
    api.put(
        "/api/queues/%2F/limited", {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 2}}
    )
    publish(api, "precious", "limited")
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for _ in range(5):
        assert len(api.post("/api/queues/%2F/limited/get", get).json()) == 1
    for found in (1, 1, 1, 0):
        answered = api.post("/api/queues/%2F/limited/get", {**get, "ackmode": "reject_requeue_true"}).json()
        assert len(answered) == found


def test_a_get_finds_what_is_behind_expired_messages(api: Api) -> None:
    """However many of them there are: they are removed a part at a time, and the request waits."""
    api.put("/api/queues/%2F/short", {"durable": True, "arguments": {"x-message-ttl": 1_000}})
    short = queue(api, "short")
    fill(api, 10 * EXPIRY_STEP_MESSAGES, "short")
    api.node.now += 2_000
    api.node.now_ms()
    publish(api, "next", "short")
    assert short.get() is None
    assert short.is_behind
    found = api.post("/api/queues/%2F/short/get", {"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"})
    assert [each["payload"] for each in found.json()] == ["next"]


def test_moves_that_make_no_sense(api: Api) -> None:
    """Onto itself, or to nowhere."""
    assert refused(api.post(f"{Q}/move", {"destination": "q"}))[0] == 400
    assert refused(api.post(f"{Q}/move", {"destination": "none"}))[0] == 404


def test_driving_back(api: Api) -> None:
    """Dead letters go back to the queue they died on, with the key they had; others stay."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    api.put("/api/queues/%2F/work", {"durable": True, "arguments": arguments})
    publish(api, "no letter")
    for body in ("one", "two"):
        publish(api, body, "work", delivery_mode=2)
    get = {"count": 2, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(api.post("/api/queues/%2F/work/get", get).json()) == 2
    api.broker.dispatch()
    (graveyard,) = api.found("/api/dead-letters")
    assert graveyard == {
        "vhost": "/",
        "queue": "q",
        "messages": 3,
        "messages_examined": 3,
        "causes": [{"reason": "rejected", "queue": "work", "count": 2}],
    }
    assert api.found("/api/dead-letters/%2F") == [graveyard]
    two = api.found(f"{Q}/messages?search=two")["messages"][0]
    assert api.post(f"{Q}/redrive", {"positions": [two["position"]]}).json() == {
        "redriven": 1,
        "skipped": 0,
        "next": None,
    }
    assert api.post(f"{Q}/redrive", {}).json() == {"redriven": 1, "skipped": 1, "next": None}
    assert seen(api) == ["no letter"]
    back = api.post("/api/queues/%2F/work/get", {**get, "ackmode": "ack_requeue_true"}).json()
    assert [(each["payload"], each["exchange"], each["routing_key"]) for each in back] == [
        ("two", "", "work"),
        ("one", "", "work"),
    ]
    assert back[0]["properties"]["headers"]["x-death"][0]["count"] == 1


def test_causes_say_of_how_many_messages(api: Api) -> None:
    """Causes are counted of the oldest 200 dead letters, and the answer tells that there are more."""
    api.put("/api/queues/%2F/work", {"arguments": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}})
    for number in range(250):
        publish(api, f"message {number}", "work")
    get = {"count": 250, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(api.post("/api/queues/%2F/work/get", get).json()) == 250
    while api.broker.dispatch():
        pass
    (graveyard,) = api.found("/api/dead-letters")
    assert (graveyard["messages"], graveyard["messages_examined"]) == (250, 200)
    assert graveyard["causes"] == [{"reason": "rejected", "queue": "work", "count": 200}]


def forge(api: Api, queue: str, exchange: str, key: str, *, by_client: bool = False) -> None:
    """A message on `q` that says it has died on another queue."""
    headers: dict[str, object] = {
        "x-death": [{"queue": queue, "exchange": exchange, "routing-keys": [key], "reason": "rejected", "count": 1}]
    }
    properties = encode_properties(Properties(headers=headers))
    vhost = api.broker.vhosts["/"]
    message = Message(Address("", "q"), CODEC_091, properties, b"evil", CODEC_091.options(properties), 0)
    if by_client:
        message.origin = 7
    vhost.deliver(message, [vhost.queues["q"]])


def test_forged_deaths(api: Api) -> None:
    """A message goes back to no queue that does not send its dead letters here, whatever it tells of itself."""
    api.put("/api/queues/%2F/payroll", {"durable": True})
    elsewhere = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "other"}
    api.put("/api/queues/%2F/buried-elsewhere", {"durable": True, "arguments": elsewhere})
    here = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    api.put("/api/queues/%2F/work", {"durable": True, "arguments": here})
    for name in ("payroll", "buried-elsewhere", "q", "none"):
        forge(api, name, "", name)
    forge(api, "work", "", "work", by_client=True)
    assert api.post(f"{Q}/redrive", {}).json() == {"redriven": 0, "skipped": 5, "next": None}


def test_an_address_that_does_not_lead_there(api: Api) -> None:
    """A redriven message gets its former address only if that leads to its queue and the caller may use it."""
    here = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    api.put("/api/queues/%2F/work", {"durable": True, "arguments": here})
    api.put("/api/exchanges/%2F/jobs", {"type": "topic"})
    api.put("/api/exchanges/%2F/secure-ex", {"type": "direct"})
    api.post("/api/bindings/%2F/e/jobs/q/work", {"routing_key": "job.#"})
    api.user("driver", "management")
    api.broker.put_rule(PermissionRecord("/", "driver", "^$", "^(work|jobs)$", ".*"))
    for exchange, key in (("secure-ex", "admin.cmd"), ("jobs", "admin.cmd"), ("jobs", "job.new"), ("", "work")):
        forge(api, "work", exchange, key)
    assert api.post(f"{Q}/redrive", {}, by="driver").json() == {"redriven": 4, "skipped": 0, "next": None}
    addresses = [(each.message.address.exchange, each.message.address.routing_key) for each in entries(api, "work")]
    assert addresses == [("", "work"), ("", "work"), ("jobs", "job.new"), ("", "work")]


def test_deaths_by_a_policy(api: Api) -> None:
    """A dead-letter exchange may come from a policy, and may route to the queue through another exchange."""
    api.put("/api/queues/%2F/work", {"durable": True})
    api.put("/api/exchanges/%2F/dead", {"type": "topic"})
    api.post("/api/bindings/%2F/e/dead/q/q", {"routing_key": "job.#"})
    policy = {"pattern": "^work$", "definition": {"dead-letter-exchange": "dead"}, "apply-to": "queues"}
    assert api.put("/api/policies/%2F/letters", policy).status_code == 201
    forge(api, "work", "", "job.new")
    forge(api, "work", "", "work")
    assert api.post(f"{Q}/redrive", {}).json() == {"redriven": 1, "skipped": 1, "next": None}


def test_a_user_who_may_not_write_there(api: Api) -> None:
    """Moving needs what reading here and writing there need."""
    fill(api, 1)
    api.user("reader", "management")
    api.broker.put_rule(PermissionRecord("/", "reader", "^$", "^$", "q"))
    assert api.get(f"{Q}/messages", by="reader").status_code == 200
    assert refused(api.get("/api/queues/%2F/other/messages", by="reader"))[0] == 401
    assert refused(api.post(f"{Q}/move", {"destination": "other"}, by="reader"))[0] == 401
    assert queue(api).message_count == 1


def test_a_long_queue_is_purged_in_steps(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes when the last of the messages is gone, and no tick drops very many of them."""
    fill(api, 3 * STEP_UNITS)
    counts = [3 * STEP_UNITS]
    durable = api.node.durable

    async def after_a_tick() -> None:
        counts.append(queue(api).message_count)
        api.broker.dispatch()
        await durable()

    monkeypatch.setattr(api.node, "durable", after_a_tick)
    assert api.delete(f"{Q}/contents").status_code == 204
    assert [before - after for before, after in pairwise(counts)] == [STEP_UNITS] * 3
    assert api.found(Q)["messages"] == 0
