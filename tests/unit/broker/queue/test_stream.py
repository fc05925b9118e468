"""The stream queue: where consumers begin, what they choose, whose turn it is, and what is kept."""

from dataclasses import dataclass, field

import pytest

from flintmq.base.errors import PreconditionFailed
from flintmq.base.values import Timestamp
from flintmq.broker.arguments import age_ms, check_queue_arguments
from flintmq.broker.broker import Broker
from flintmq.broker.message import Address, Message, Table
from flintmq.broker.ports import PolicyRecord, StreamLimits
from flintmq.broker.queue.stream import StreamQueue
from flintmq.broker.tick import Tick
from tests.unit.broker.memory import HeaderCodec, MemoryDefinitions, MemoryStorage, MemoryStream, Taker

HOUR_MS = 3_600_000


def published(number: int, headers: str = "") -> Message:
    """Message number n was received after n hours."""
    codec = HeaderCodec()
    properties = headers.encode()
    return Message(Address("", ""), codec, properties, b"%d" % number, codec.options(properties), number * HOUR_MS)


@dataclass
class Stream:
    """A queue over a log in memory, in which everything is durable at once."""

    arguments: Table = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tick = Tick()
        self.log = MemoryStream()
        self.definitions = MemoryDefinitions()
        self.restart()

    def restart(self) -> None:
        self.queue = StreamQueue(1, "/", "s", self.arguments, self.tick, self.log, self.definitions)
        for place in self.definitions.load().reader_offsets:
            self.queue.reader_offsets.restore(place)

    def publish(self, count: int, headers: str = "") -> None:
        for _ in range(count):
            self.queue.enqueue(published(self.log.next_offset, headers))
        self.log.durable = self.log.next_offset
        self.tick.now_ms = self.log.next_offset * HOUR_MS

    def consumer(self, credit: int = 100, **arguments: object) -> Taker:
        taker = Taker(credit)
        self.queue.subscribe(taker, {name.replace("_", "-"): value for name, value in arguments.items()})
        return taker

    def dispatch(self) -> None:
        while self.queue.dispatch():
            pass


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        ("first", 3),
        ("last", 19),
        ("next", 20),
        (None, 20),
        (7, 7),
        (0, 3),
        (-1, 3),
        (22, 20),
        (Timestamp(3600 * 5), 5),
        (Timestamp(3600 * 5 + 1), 6),
        (Timestamp(2**64 - 1), None),
        (Timestamp(0), 3),
        ("4h", 16),
        ("30m", 20),
        ("1D", 3),
        ("100Y", 3),
    ],
)
def test_where_a_consumer_begins(wanted: object, first: int | None) -> None:
    """At a name, a number, a time or so long ago; never before what is kept or behind it."""
    stream = Stream()
    stream.publish(20)
    stream.log.first = 3
    taker = stream.consumer() if wanted is None else stream.consumer(x_stream_offset=wanted)
    stream.publish(5)
    stream.dispatch()
    assert [int(body) for body in taker.bodies] == ([] if first is None else list(range(first, 25)))


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        ("1s", 1),
        ("2m", 120),
        ("1h", 3600),
        ("1D", 86_400),
        ("1M", 30 * 86_400),
        ("1Y", 365 * 86_400),
        ("007s", 7),
        ("0s", 0),
        ("s", 0),
        ("", 0),
        ("1", 0),
        ("1d", 0),
        ("-1s", 0),
        ("1.5h", 0),
        ("1hh", 0),
        ("²s", 0),
        ("9" * 5000 + "Y", 10**12),
    ],
)
def test_ages(age: str, seconds: int) -> None:
    """A number and a unit, as RabbitMQ counts them; what is none is 0, and ages without end are cut."""
    assert age_ms(age) == seconds * 1000


@pytest.mark.parametrize(
    ("argument", "value", "fault"),
    [
        ("x-max-age", "1h", ""),
        ("x-max-age", "0h", "invalid arg 'x-max-age' for queue 's' in vhost '/': invalid_max_age"),
        ("x-max-age", 5, "invalid arg 'x-max-age' for queue 's' in vhost '/': {unacceptable_type,signedint}"),
        ("x-max-length-bytes", 0, ""),
        ("x-max-length-bytes", -1, "invalid arg 'x-max-length-bytes' for queue 's' in vhost '/': {value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", 3_000_000_000, ""),
        (
            "x-stream-max-segment-size-bytes",
            3_000_000_001,
            "Exceeded max value for x-stream-max-segment-size-bytes",
        ),
        ("x-stream-filter-size-bytes", 16, ""),
        ("x-stream-filter-size-bytes", 255, ""),
        ("x-stream-filter-size-bytes", 15, "Invalid value for  x-stream-filter-size-bytes"),
        ("x-stream-filter-size-bytes", 256, "Invalid value for  x-stream-filter-size-bytes"),
        ("x-single-active-consumer", True, ""),
        ("x-max-length", 5, "invalid arg 'x-max-length' for queue 's' in vhost '/' of queue type stream"),
    ],
)
def test_arguments(argument: str, value: object, fault: str) -> None:
    """Streams take what is theirs, and refuse the rest in RabbitMQ's words."""
    told = ""
    try:
        check_queue_arguments({argument: value}, "stream", "s", "/")
    except PreconditionFailed as error:
        told = error.text
    assert told == fault


@pytest.mark.parametrize("argument", ["x-max-age", "x-stream-max-segment-size-bytes"])
def test_arguments_of_streams_alone(argument: str) -> None:
    """Other queues refuse them."""
    with pytest.raises(PreconditionFailed, match="of queue type classic"):
        check_queue_arguments({argument: "1h" if argument == "x-max-age" else 9}, "classic", "q", "/")


@pytest.mark.parametrize(
    ("wanted", "unfiltered", "bodies"),
    [
        ("a", False, ["0", "1"]),
        ("a", True, ["0", "1", "4"]),
        (["a", "b"], False, ["0", "1", "2", "3"]),
        (["c"], False, []),
        ([], True, ["4"]),
        ("1", False, []),
    ],
)
def test_filters(wanted: object, unfiltered: bool, bodies: list[str]) -> None:
    """A consumer gets the messages with one of its values, those without one if it wants them, and no others."""
    stream = Stream()
    stream.publish(2, "x-stream-filter-value=a")
    stream.publish(2, "x-stream-filter-value=b")
    stream.publish(1)
    arguments = {"x_stream_offset": "first", "x_stream_filter": wanted, "x_stream_match_unfiltered": unfiltered}
    taker = stream.consumer(credit=5, **arguments)
    stream.dispatch()
    assert taker.bodies == bodies
    assert taker.credit == 5 - len(bodies)


def test_an_empty_filter_value_is_none() -> None:
    """As in RabbitMQ: only who matches the unfiltered gets such a message."""
    stream = Stream()
    stream.publish(1, "x-stream-filter-value=")
    empty = stream.consumer(x_stream_offset="first", x_stream_filter=["", "a"])
    unfiltered = stream.consumer(x_stream_offset="first", x_stream_filter="a", x_stream_match_unfiltered=True)
    stream.dispatch()
    assert (empty.bodies, unfiltered.bodies) == ([], ["0"])


def test_a_number_is_no_filter_value() -> None:
    """A filter value is a string; another one counts as none."""
    stream = Stream()
    stream.publish(1, "x-stream-filter-value=7")
    assert stream.consumer(x_stream_offset="first", x_stream_filter="7") is not None
    unfiltered = stream.consumer(x_stream_offset="first", x_stream_filter=[], x_stream_match_unfiltered=True)
    stream.dispatch()
    assert unfiltered.bodies == ["0"]


def test_single_active_consumer() -> None:
    """One gets everything; the next in line goes on behind what that has acknowledged, wherever it asked to begin."""
    stream = Stream({"x-single-active-consumer": True})
    stream.publish(10)
    first = stream.consumer(credit=6, x_stream_offset=2)
    second = stream.consumer(x_stream_offset="first")
    third = stream.consumer(x_stream_offset="next")
    stream.dispatch()
    assert first.bodies == ["2", "3", "4", "5", "6", "7"]
    assert second.bodies == third.bodies == []
    # Out of order: 4 is still in its hands, and so is all behind it.
    for entry in (first.taken[3], first.taken[0], first.taken[1]):
        stream.queue.settle(entry)
    stream.queue.unsubscribe(third)
    stream.queue.unsubscribe(first)
    stream.dispatch()
    assert second.bodies == ["4", "5", "6", "7", "8", "9"]


def test_what_an_active_consumer_gave_back() -> None:
    """It is not acknowledged, and the next one gets it, with everything behind it."""
    stream = Stream({"x-single-active-consumer": True})
    stream.publish(5)
    first = stream.consumer(x_stream_offset="first")
    second = stream.consumer()
    stream.dispatch()
    stream.queue.settle(first.taken[0])
    stream.queue.requeue([first.taken[1]])
    for entry in first.taken[2:]:
        stream.queue.settle(entry)
    stream.publish(1)
    stream.dispatch()
    assert first.bodies == ["0", "1", "2", "3", "4", "5"]
    stream.queue.unsubscribe(first)
    stream.dispatch()
    assert second.bodies == ["1", "2", "3", "4", "5"]


class Measured(Taker):
    """Takes messages as long as their bodies fit."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.has_byte_window = True
        self.room = room

    def is_within_window(self, message: Message) -> bool:
        return len(message.body) <= self.room


def test_a_window_of_bytes() -> None:
    """What does not fit a consumer's window waits for it, and nothing overtakes it."""
    stream = Stream()
    stream.publish(12)
    taker = Measured(1)
    stream.queue.subscribe(taker, {"x-stream-offset": 8})
    stream.dispatch()
    assert taker.bodies == ["8", "9"]
    taker.room = 2
    stream.dispatch()
    assert taker.bodies == ["8", "9", "10", "11"]
    assert [entry.seq for entry in taker.taken] == [8, 9, 10, 11]


def test_limits_are_handed_on() -> None:
    """Arguments, and policies when they change, are what the log keeps by; it is asked to let go soon after."""
    stream = Stream({"x-max-age": "1h", "x-max-length-bytes": 5, "x-stream-max-segment-size-bytes": 9_000})
    assert stream.log.limits == StreamLimits(5, HOUR_MS, 9_000)
    stream.queue.configure({"x-max-age": "2h"})
    assert stream.log.limits == StreamLimits(-1, 2 * HOUR_MS, 0)
    assert stream.log.retired_ms == []
    stream.tick.timers.run(1)
    assert stream.log.retired_ms == [1]


def test_ages_are_looked_at_by_the_clock() -> None:
    """Where messages may become too old, nobody has to publish for them to go; and where there was more, soon again."""
    stream = Stream({"x-max-age": "100s"})
    due = []
    for _ in range(4):
        now = stream.tick.timers.next_ms
        due.append(now)
        stream.log.has_more_to_retire = now == 5001
        stream.tick.timers.run(now)
    assert due == stream.log.retired_ms == [1, 5001, 5201, 10_201]
    stream.queue.delete()
    assert stream.tick.timers.next_ms == 0
    assert Stream().tick.timers.next_ms == 0


# -- places of readers ----------------------------------------------------------------------------------------------


def named(stream: Stream, credit: int = 100, start: object = "first", **arguments: object) -> Taker:
    return stream.consumer(credit, x_stream_reader="r", x_stream_offset=start, **arguments)


def test_a_named_reader_comes_back() -> None:
    """It goes on behind what it has acknowledged without a gap, whatever it asks for; its first time as it asked."""
    stream = Stream()
    stream.publish(10)
    taker = named(stream, start=2)
    stream.dispatch()
    for number in (0, 1, 2, 4):
        stream.queue.settle(taker.taken[number])
    stream.queue.unsubscribe(taker)
    again = named(stream, credit=1)
    stream.dispatch()
    assert (taker.bodies[0], again.bodies) == ("2", ["5"])
    other = stream.consumer(x_stream_reader="another", x_stream_offset="last")
    stream.dispatch()
    assert other.bodies == ["9"]


def test_places_are_kept_at_times() -> None:
    """Many acknowledgements are one change of definitions, which is what a restart finds."""
    stream = Stream()
    stream.publish(10)
    taker = named(stream)
    stream.dispatch()
    for entry in taker.taken[:7]:
        stream.queue.settle(entry)
    kept = stream.definitions.reader_offsets
    assert kept == {}
    stream.tick.timers.run(stream.tick.now_ms + 249)
    assert kept == {}
    stream.tick.timers.run(stream.tick.now_ms + 250)
    assert kept == {(1, "r"): 7}
    stream.restart()
    again = named(stream)
    stream.dispatch()
    assert again.bodies == ["7", "8", "9"]
    stream.definitions.has_staged = False
    stream.tick.timers.run(stream.tick.now_ms + 1000)
    assert not stream.definitions.has_staged


def test_where_a_reader_begins_is_kept() -> None:
    """One that was told to begin with what comes next misses nothing of it when it is gone for a while."""
    stream = Stream()
    stream.publish(3)
    stream.queue.unsubscribe(named(stream, start="next"))
    stream.publish(2)
    again = named(stream, start="next")
    stream.dispatch()
    assert again.bodies == ["3", "4"]


def test_what_was_not_wanted_is_not_looked_at_again() -> None:
    """A place moves on over messages that a filter leaves out."""
    stream = Stream()
    stream.publish(500)
    named(stream, x_stream_filter="a")
    stream.dispatch()
    stream.tick.timers.run(stream.tick.now_ms + 250)
    assert stream.definitions.reader_offsets == {(1, "r"): 500}


def test_a_time_is_no_place() -> None:
    """A reader that looks for a time has none until it has found it, or it would get what is older."""
    stream = Stream()
    stream.publish(3)
    stream.queue.unsubscribe(named(stream, start=Timestamp(3600 * 5)))
    assert stream.definitions.reader_offsets == {}
    taker = named(stream, start=Timestamp(3600 * 5))
    stream.publish(5)
    stream.dispatch()
    assert taker.bodies == ["5", "6", "7"]
    stream.queue.unsubscribe(taker)
    assert stream.definitions.reader_offsets == {(1, "r"): 5}


def test_readers_of_one_name_take_turns() -> None:
    """Two of them would overwrite each other's place: one waits until the other is gone."""
    stream = Stream()
    stream.publish(4)
    first = named(stream, credit=2)
    second = named(stream)
    alone = stream.consumer(x_stream_offset="first")
    stream.dispatch()
    stream.queue.settle(first.taken[0])
    stream.queue.unsubscribe(first)
    stream.dispatch()
    assert (first.bodies, second.bodies, alone.bodies) == (["0", "1"], ["1", "2", "3"], ["0", "1", "2", "3"])


def test_a_waiting_reader_stores_no_offset() -> None:
    """A second reader of a name, which never had its turn, leaves the offset of the first one as it is."""
    stream = Stream()
    stream.publish(4)
    active = named(stream, credit=3)
    waiting = named(stream)
    stream.dispatch()
    for entry in active.taken:
        stream.queue.settle(entry)
    stream.tick.timers.run(stream.tick.now_ms + 250)
    assert stream.definitions.reader_offsets == {(1, "r"): 3}
    stream.queue.unsubscribe(waiting)
    assert stream.definitions.reader_offsets == {(1, "r"): 3}


def test_a_place_that_is_gone() -> None:
    """A reader that was away for too long goes on at the first message there is."""
    stream = Stream()
    stream.publish(10)
    stream.queue.unsubscribe(named(stream))
    stream.log.first = 6
    taker = named(stream)
    stream.dispatch()
    assert taker.bodies == ["6", "7", "8", "9"]


def test_there_are_only_so_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that make up a name each time are told; known names go on."""
    stream = Stream()
    stream.queue.reader_offsets.by_name = {str(number): 0 for number in range(10_000)}
    with pytest.raises(PreconditionFailed, match="keeps the places of 10000 readers"):
        named(stream)
    stream.consumer(x_stream_reader="77")


# -- in a broker ----------------------------------------------------------------------------------------------------


def declared(storage: MemoryStorage, **arguments: object) -> tuple[Broker, StreamQueue]:
    broker = Broker(storage)
    vhost = broker.add_vhost("/")
    table: Table = {"x-queue-type": "stream", **{key.replace("_", "-"): value for key, value in arguments.items()}}
    queue = vhost.declare_queue("s", True, False, False, table, None)
    assert isinstance(queue, StreamQueue)
    return broker, queue


def test_policies_go_before_arguments() -> None:
    """What a policy says of retention holds at once, also for less; without it the argument holds again."""
    storage = MemoryStorage()
    broker, queue = declared(storage, x_max_age="1h", x_max_length_bytes=100)
    (log,) = storage.streams.values()
    policy = PolicyRecord("/", "p", "^s$", {"max-age": "2h", "stream-max-segment-size-bytes": 5_000}, "streams")
    broker.put_rule(policy)
    assert log.limits == StreamLimits(100, 2 * HOUR_MS, 5_000)
    broker.now_ms = 50
    broker.dispatch()
    assert len(log.retired_ms) == 1
    broker.delete_rule(policy)
    assert log.limits == StreamLimits(100, HOUR_MS, 0)
    assert queue.arguments["x-max-age"] == "1h"


def test_places_survive_a_restart() -> None:
    """They come with the definitions, and go with the stream."""
    storage = MemoryStorage()
    broker, queue = declared(storage)
    queue.enqueue(published(0))
    queue.enqueue(published(1))
    storage.sync()
    taker = Taker()
    queue.subscribe(taker, {"x-stream-reader": "r", "x-stream-offset": "first"})
    broker.dispatch()
    queue.settle(taker.taken[0])
    queue.unsubscribe(taker)
    again = Broker(storage)
    again.recover(storage.definitions.load())
    found = again.vhost("/").queues["s"]
    taker = Taker()
    found.subscribe(taker, {"x-stream-reader": "r", "x-stream-offset": "first"})
    again.dispatch()
    assert taker.bodies == ["1"]
    again.vhost("/").remove_queue(found)
    assert storage.definitions.load().reader_offsets == []
