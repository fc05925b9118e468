"""Data directories of the version before this one open, and everything in them is there.

`older/format4-killed.tar.xz` and `older/format4-stopped.tar.xz` were made with commit 914883b (storage format 4,
definitions 8): a broker on an empty directory, with segments of 64 KiB, filled by clients of AMQP 0-9-1, AMQP 1.0 and
HTTP. One broker was killed by SIGKILL, the other one stopped by SIGTERM, each while its clients were connected. Their
clock began at 2026-01-01 (`time.time_ns` was shifted): what is due after an hour is due when the directory opens, and
what expires after ten years is there until the end of 2035.

In them are virtual hosts, users, permissions, limits, policies, exchanges and bindings; queues of each kind and with
most features, with messages that are acknowledged, returned, unacknowledged, delayed, expired or dead letters, or in
transactions; a stream with a named reader; two leases, one of them partly fetched and settled; a transactional id with
a committed batch, a complete attempt and an incomplete one; and suspended links of AMQP 1.0 with unsettled deliveries
and half a message. Enough was published and acknowledged for every kind of journal record to occur. Beside each
directory is `definitions.json`, the export of its broker over HTTP.
"""

import json
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

import httpx
import pytest

import flintmq.client as fc
from flintmq.base.values import Timestamp
from flintmq.wire.amqp10.received import bytes_before
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE
from flintmq.wire.amqp10.states import ACCEPTED, Received
from flintmq.wire.amqp10.termini import Source, Target
from flintmq.wire.amqp10.values import Described, Symbol, ULong
from tests.commands import run_here
from tests.conformance.amqp10.encoding import application_properties, data_section, properties, text
from tests.conformance.amqp10.peer import Peer
from tests.servers import BrokerProcess, LogLine
from tests.waiting import WAIT_SECONDS

OLDER: Final = Path(__file__).parent / "older"
GUEST: Final = ("guest", "guest")
# The messages of each queue in their order, and whether a client had received them. After a crash this is not known, so
# all messages are marked as redelivered.
MESSAGES: Final[dict[str, list[tuple[str, bool]]]] = {
    # "3" was acknowledged, "0" to "4" were returned, a transient message is lost.
    "classic": [*((f"{n}", n < 5) for n in range(10) if n != 3), ("L" * 6000, False), ("typed", False)],
    "quorum": [("failed three times", True), ("failed once", True), ("fresh", False)],
    "priority": [(f"p{n}", False) for n in (2, 2, 2, 1, 1, 1, 0, 0, 0)],
    "single": [("s0", True), ("s1", False)],
    "expiring": [("expires in ten years", False)],
    "ttl": [("ten years", False)],
    "rejecting": [],
    "capped": [("c1", False), ("c2", False)],
    "groups": [("a0", False), ("b0", False), ("a1", False)],
    "values": [("7", False), ("12", False)],
    # Whether a delayed message was received is not recorded.
    "scheduled": [("in an hour", True)],
    "tx": [("committed 1", False), ("in exchange", False)],
    # These keep a segment in front of others that are empty, so there are checkpoints.
    "kept": [(f"{n}" + "k" * 2000, False) for n in range(75)],
    # Each was unacknowledged while 2,399 others were published and acknowledged, and then compaction moved it.
    "churn": [(f"{n}" + "-" * 100, True) for n in range(0, 9600, 2400)],
}
# The headers and properties of one message: each type of AMQP 0-9-1, and each property.
TYPED: Final[dict[str, object]] = {
    "bool": True,
    "int8": -8,
    "uint8": 200,
    "int16": -300,
    "uint16": 60_000,
    "int32": -70_000,
    "uint32": 4_000_000_000,
    "int64": -(2**40),
    "long": 2**62,
    "float": 0.5,
    "double": 0.1,
    "decimal": Decimal("123.45"),
    "text": "grün",
    "binary": b"\x00\xff\x01",
    "time": Timestamp(1_767_225_600),
    "table": {"in": -1},
    "list": ["a", False],
    "void": None,
}


@dataclass
class Left:
    """A broker of today on a directory, how the former broker of the directory ended, and what it exported.

    `checked` is what `storage verify` said before the start, `complaints` what the start logged as warnings and errors.
    """

    broker: BrokerProcess
    was_killed: bool
    definitions: dict[str, list[dict[str, object]]]
    checked: str
    complaints: list[LogLine]

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"{self.broker.http_url}/api", auth=GUEST, timeout=60)


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(OLDER / f"format4-{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def verified(data: Path) -> str:
    return run_here("storage", "verify", str(data)).stdout.splitlines()[-1]


def in_order(objects: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(objects, key=lambda each: json.dumps(each, sort_keys=True))


@pytest.fixture(scope="module", params=["killed", "stopped"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    data = unpacked(request.param, tmp_path_factory.mktemp("older"))
    export = json.loads((data.parent / "definitions.json").read_text())
    definitions = {key: in_order(value) for key, value in export.items() if isinstance(value, list)}
    checked = verified(data)
    with BrokerProcess(data) as broker:
        complaints = broker.complaints
        yield Left(broker, request.param == "killed", definitions, checked, complaints)
        assert broker.stop() == 0
    assert verified(data) == "intact"


@pytest.fixture
def channel(left: Left) -> Iterator[fc.Channel]:
    with fc.connect(left.broker.url) as connection:
        yield connection.channel(confirms=True)


def taken(channel: fc.Channel, queue: str) -> list[fc.Delivery]:
    """All messages that are ready, acknowledged."""
    found = []
    while (message := channel.get(queue, no_ack=True)) is not None:
        found.append(message)
    return found


def waited(channel: fc.Channel, queue: str, count: int) -> list[fc.Delivery]:
    """So many messages, acknowledged, as soon as they are there; fewer after a time."""
    deadline = time.monotonic() + WAIT_SECONDS
    found = taken(channel, queue)
    while len(found) < count and time.monotonic() < deadline:
        time.sleep(0.02)
        found += taken(channel, queue)
    return found


def test_nothing_is_damaged(left: Left) -> None:
    assert left.checked == "intact"
    assert left.complaints == []


def test_definitions(left: Left) -> None:
    """The export is the same: virtual hosts, users, rules, exchanges, queues and bindings with their arguments."""
    with left.client() as client:
        found = client.get("/definitions").json()
    # Other fields have the name of the machine and the versions.
    assert {key: in_order(value) for key, value in found.items() if isinstance(value, list)} == left.definitions
    assert len(left.definitions["queues"]) > 30


@pytest.mark.parametrize("queue", MESSAGES)
def test_messages(left: Left, channel: fc.Channel, queue: str) -> None:
    """The same messages in the same order; those that were acknowledged or not committed are not there."""
    found = taken(channel, queue)
    assert [(message.body.decode(), message.redelivered) for message in found] == [
        (body, was_received or left.was_killed) for body, was_received in MESSAGES[queue]
    ]
    if queue == "classic":
        properties = found[-1].properties
        assert properties.headers == TYPED
        assert (properties.content_type, properties.content_encoding, properties.type) == (
            "text/plain",
            "utf-8",
            "kind",
        )
        assert (properties.message_id, properties.correlation_id, properties.reply_to) == ("id-1", "corr", "answers")
        assert (properties.user_id, properties.app_id, properties.timestamp) == ("guest", "app", 1_767_225_601)
        assert (properties.priority, properties.delivery_mode) == (5, 2)
    if queue == "quorum":
        counts = [(message.properties.headers or {}).get("x-delivery-count") for message in found]
        assert counts == [3, 1, None]


def test_other_virtual_host(left: Left) -> None:
    with fc.connect(left.broker.url.replace("%2f", "strict")) as connection:
        assert [message.body for message in taken(connection.channel(), "q.strict")] == [b"of the other virtual host"]


def test_logins(left: Left) -> None:
    """A user logs in with the password it had, and has the permissions it had."""
    url = left.broker.url.replace("guest:guest", "reader:secret")
    with fc.connect(url) as connection, pytest.raises(fc.ChannelClosed, match="refused"):
        connection.channel().get("classic")
    with pytest.raises(fc.LoginRefused), fc.connect(left.broker.url.replace("guest:guest", "reader:wrong")):
        pass


def test_dead_letters(channel: fc.Channel) -> None:
    """Those that were there, and one that expired while no broker ran. None is lost whose exchange is missing."""
    found = [(message.body, *_first_death(message)) for message in taken(channel, "dead")]
    assert found == [
        (b"rejected", "rejecting", "rejected"),
        (b"c0", "capped", "maxlen"),
        (b"expires in an hour", "expiring", "expired"),
    ]
    # A dead letter that no queue had taken is on its first queue again.
    assert [message.body for message in taken(channel, "held")] == [b"nowhere to go"]


def _first_death(message: fc.Delivery) -> tuple[object, object]:
    headers = message.properties.headers or {}
    return headers["x-first-death-queue"], headers["x-first-death-reason"]


def test_delayed_messages(channel: fc.Channel) -> None:
    """Those that are due now were routed in the order of their times; another one waits, and can still be cancelled."""
    found = taken(channel, "later")
    assert [(message.body, message.redelivered) for message in found] == [(b"half an hour", False), (b"an hour", False)]
    assert [message.properties.headers for message in found] == [{"x-delay": -1_800_000}, {"x-delay": -3_600_000}]
    # By its BCC.
    assert [message.body for message in taken(channel, "routed.three")] == [b"an hour"]
    assert [message.body for message in waited(channel, "retries", 1)] == [b"pauses"]
    cancel = fc.encode_properties(fc.Properties(headers={"x-delay-cancel": "far"}))
    channel.publish_batch([("", "scheduled", b"", cancel)])
    with pytest.raises(fc.PublishFailed):
        channel.publish_batch([("", "scheduled", b"", cancel)])


def test_deduplication(channel: fc.Channel) -> None:
    """Message-ids and producers' numbers are remembered, also those of a message that was acknowledged."""
    new = [*(fc.Properties(message_id=f"d{n}", delivery_mode=2) for n in (1, 2, 3))]
    new += [fc.Properties(headers={"x-producer-id": "pr", "x-producer-seq": n}, delivery_mode=2) for n in (1, 2, 3)]
    channel.publish_batch([("", "dedup", b"new %d" % n, each) for n, each in enumerate(new)])
    bodies = [message.body for message in taken(channel, "dedup")]
    assert bodies == [b"d2", b"seq 1", b"seq 2", b"new 2", b"new 5"]


def test_paused_queue(channel: fc.Channel) -> None:
    assert channel.declare_queue("paused", passive=True).message_count == 1
    assert channel.get("paused") is None
    resume = fc.Properties(headers={"x-queue-command": "resume"})
    channel.publish_batch([("", "paused", b"", resume)])
    assert [message.body for message in taken(channel, "paused")] == [b"waits"]


def test_routing(channel: fc.Channel) -> None:
    """Bindings lead where they led: patterns, arguments, selectors, exchanges, alternate exchanges, hashes."""
    queues = ("routed.one", "routed.two", "routed.three")
    taken(channel, "routed.three")

    def reached(exchange: str, key: str = "", headers: dict[str, object] | None = None) -> list[str]:
        properties = fc.encode_properties(fc.Properties(headers=headers))
        channel.publish_batch([(exchange, key, b"", properties)])
        return [queue for queue in queues if taken(channel, queue)]

    assert reached("topics", "a.b.c") == ["routed.one"]
    assert reached("topics", "b.c") == ["routed.two"]
    assert reached("topics", "unbound") == ["routed.three"]
    assert reached("matching", headers={"color": "red", "size": 3}) == ["routed.one"]
    assert reached("matching", headers={"x-kind": "a", "price": 11}) == ["routed.two"]
    assert reached("matching", headers={"x-kind": "a", "price": 9}) == []
    assert reached("auto", "key") == ["routed.three"]
    customers = [reached("hashed", headers={"customer": f"{number}"}) for number in range(16)]
    # Most customers belong to the queue with the greater weight, and none has moved.
    assert [number for number, reached in enumerate(customers) if reached == ["routed.two"]] == [7, 10, 12]
    assert customers.count(["routed.one"]) == 13


def test_streams(left: Left, channel: fc.Channel) -> None:
    """Records have their offsets and filter values, and a named reader continues behind what it acknowledged."""
    info = channel.stream_query("log")
    assert (info.first_offset, info.next_offset) == (0, 301)
    records = [record for chunk in channel.stream_chunks("log", 0, 301) for record in chunk.records]
    assert [record.offset for record in records] == list(range(301))
    assert [record.body for record in records] == [*(b"%d" % n + b"." * 400 for n in range(300)), b"filtered"]
    arguments: dict[str, object] = {"x-stream-offset": "first", "x-stream-filter": "red"}
    assert _first(left, arguments) == b"filtered"
    assert _first(left, {"x-stream-reader": "billing", "x-stream-offset": "first"}) == b"100" + b"." * 400


def _first(left: Left, arguments: dict[str, object]) -> bytes:
    with fc.connect(left.broker.url) as connection:
        for batch in connection.channel().consume("log", prefetch=10, arguments=arguments, timeout=WAIT_SECONDS):
            return batch.messages[0].body
    raise AssertionError("nothing came")


def test_leases(left: Left, channel: fc.Channel) -> None:
    """A lease has its epoch, positions and messages; a reader continues with its epoch."""
    state = channel.lease_query("leased", "billing")
    assert (state.first, state.next, state.fetched, state.ready) == (5, 25, 12, 15)
    assert channel.lease_open("leased", "billing", epoch=state.epoch).epoch == state.epoch
    records = [record for chunk in channel.lease_chunks("leased", "billing", 5, 25) for record in chunk.records]
    # "0" was returned before it was leased; it is settled.
    assert [(r.offset, r.body, r.redelivered) for r in records] == [(n, b"l%d" % n, False) for n in range(5, 25)]
    channel.lease_settle("leased", "billing", state.epoch, 24)
    assert channel.lease_release("leased", "billing", state.epoch) == 1
    assert [message.body for message in taken(channel, "leased")] == [b"l%d" % n for n in range(24, 40)]
    timed = channel.lease_query("leased.quorum", "timed")
    assert (timed.first, timed.next, timed.ready) == (0, 3, 2)
    with left.client() as client:
        assert [each["timeout_ms"] for each in client.get("/leases").json()] == [86_400_000]
    assert channel.lease_release("leased.quorum", "timed") == 3
    assert [message.body for message in taken(channel, "leased.quorum")] == [b"q%d" % n for n in range(5)]


def test_stages(left: Left, channel: fc.Channel) -> None:
    """A committed batch was published once. Complete attempts of the next one can be committed, others are gone."""
    committed = [b"0/%d/0/%d" % (part, n) for part in (0, 1) for n in range(4)]
    assert [message.body for message in taken(channel, "staged")] == committed
    with pytest.raises(fc.ChannelClosed, match="taken over"), fc.connect(left.broker.url) as connection:
        connection.channel().stage_open("billing", "run-1")
    info = channel.stage_open("billing", "run-2")
    assert info.last_batch == 0
    assert channel.stage_commit("billing", info.epoch, 0, {0: 0, 1: 0}).already
    with pytest.raises(fc.ChannelClosed, match="406|PRECONDITION"), fc.connect(left.broker.url) as connection:
        connection.channel().stage_commit("billing", info.epoch, 1, {0: 0, 1: 1})
    assert channel.stage_commit("billing", info.epoch, 1, {0: 0, 1: 0}).published == 8
    next_batch = [b"1/%d/0/%d" % (part, n) for part in (0, 1) for n in range(4)]
    assert [message.body for message in waited(channel, "staged", 8)] == next_batch
    deadline = time.monotonic() + WAIT_SECONDS
    while channel.stream_query("staged.log").next_offset < 16 and time.monotonic() < deadline:
        time.sleep(0.02)
    records = [record.body for chunk in channel.stream_chunks("staged.log", 0, 16) for record in chunk.records]
    assert records == committed + next_batch
    # An id that was forgotten begins anew; that of an aborted batch is known.
    assert channel.stage_open("other", "me").last_batch == -1


def test_messages_of_amqp10(left: Left) -> None:
    """The bytes of a message are the same, with an annotation that a consumer added."""
    with closing(Peer(left.broker.port).start()) as peer:
        first, second = peer.session().receiver("/queues/amqp10", 2).take(2)
        assert second.message.value == {"map": [1, "a"]}
        message = first.message
        assert (message.durable, message.priority) == (True, 7)
        assert message.own_annotations == {"x-opt-note": "kept", "x-opt-seen": "once"}
        fields = {"message_id": "id-10", "user_id": b"guest", "subject": "s", "content_type": "text/plain"}
        bare = properties(**fields, group_sequence=3) + application_properties(
            {"n": 1, "t": "text", "b": True, "f": 0.5, "nothing": None}
        )
        assert message.bare == bare + data_section(b"one") + data_section(b"two")


def test_suspended_sources(left: Left) -> None:
    """Unsettled deliveries are resumed under their tags; a link of configuration only keeps its filter."""
    with closing(Peer(left.broker.port, "container").start()) as peer:
        session = peer.session()
        source = Source("/queues/source", DURABLE_UNSETTLED_STATE, "never")
        tags = [bytes(7) + bytes([n]) for n in (1, 2, 3)]
        link = session.receiver(source, 9, name="source", unsettled={tags[0]: ACCEPTED, tags[1]: None, tags[2]: None})
        assert set(link.answer.unsettled or {}) == set(tags)
        resumed = {each.tag: each for each in link.take(4)}
        assert [resumed[tag].first.resume for tag in tags] == [True, True, True]
        assert resumed[tags[0]].payload == b""
        assert [resumed[tag].message.value for tag in tags[1:]] == ["source 1", "source 2"]
        for each in resumed.values():
            link.settle(each)
        assert link.is_silent()
        link.detach()
        link = session.receiver(None, 2, name="configuration", unsettled={})
        found = link.answer.source
        assert found is not None
        assert found.filter == {"selector": Described(Symbol("apache.org:selector-filter:string"), "TRUE")}
        assert not link.answer.unsettled
        assert [each.message.value for each in link.take(2)] == ["c 0", "c 1"]
        link.detach()


def test_suspended_copies(left: Left) -> None:
    """A link that copies a stream continues behind the copies that were accepted, wherever its source begins."""
    with closing(Peer(left.broker.port, "container").start()) as peer:
        offset: dict[str, object] = {"offset": Described(Symbol("rabbitmq:stream-offset-spec"), "first")}
        source = Source("/queues/log", DURABLE_UNSETTLED_STATE, "never", distribution_mode="copy", filter=offset)
        link = peer.session().receiver(source, 2, name="copies", unsettled={})
        found = [each.message.annotations["x-stream-offset"] for each in link.take(2)]
        assert found == [ULong(3), ULong(4)]
        link.detach()


def test_suspended_target(left: Left) -> None:
    """The outcome of one delivery is known, and another one continues at the byte that the broker has."""
    half = text("half " * 500, durable=True)
    with closing(Peer(left.broker.port, "container").start()) as peer:
        session = peer.session()
        link = session.sender(
            Target("/queues/target", DURABLE_UNSETTLED_STATE, "never"),
            name="target",
            source=Source(durable=DURABLE_UNSETTLED_STATE, expiry_policy="never"),
            unsettled={b"whole": None, b"half": None},
            rcv_settle_mode=1,
        )
        found = link.answer.unsettled or {}
        assert found[b"whole"] == ACCEPTED
        at = found[b"half"]
        assert isinstance(at, Received)
        assert bytes_before(half, at) == 1000
        peer.wait(lambda: link.credit > 1, link.ill)
        link.begin(b"", b"whole", more=False, state=ACCEPTED, settled=True, resume=True)
        id = link.begin(half[1000:], b"half", more=False, state=at, resume=True)
        assert session.outcome(id) == ACCEPTED
        link.detach()
        received = session.receiver("/queues/target", 3)
        assert [each.message.bare for each in received.take(2)] == [text("whole"), text("half " * 500)]
        assert received.is_silent()


def test_dump(tmp_path: Path) -> None:
    """`storage dump` reads the messages of both protocols."""
    ran = run_here("storage", "dump", str(unpacked("killed", tmp_path)))
    assert (ran.returncode, ran.stderr) == (0, "")
    dumped = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [each["body"] for each in dumped if each["queue"] == "priority"] == [f"p{n % 3}" for n in range(9)]
    # In the order of the journal: the first message was written again with its annotation.
    ids = [each["properties"].get("message_id") for each in dumped if each["queue"] == "amqp10"]
    assert ids == [None, "id-10"]
