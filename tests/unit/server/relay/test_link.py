"""Channels over a link: bytes arrive in order, and nobody's bytes fill memory or delay others."""

import itertools

import pytest

from flintmq.base.limits import (
    LINK_FIRST_BYTES,
    LINK_NARROW_BYTES,
    LINK_REPORT_BYTES,
    LINK_SHARED_BYTES,
    LINK_UNSENT_BYTES,
    LINK_WIDE_BYTES,
)
from flintmq.server.acceptor import ACCEPTED_PER_TURN
from flintmq.server.relay.client import NOT_FETCHED, Fetched
from flintmq.server.relay.frames import NOTE
from tests.unit.server.relay.pair import PEERNAME, Pair, Socket

MIB = 1024 * 1024
# Not the same byte everywhere, and of a length that no window divides.
LONG = bytes(range(251)) * 20_000


@pytest.fixture
def pair() -> Pair:
    return Pair()


def say_all(pair: Pair, socket: Socket, data: bytes) -> None:
    """The client goes on as soon as it is read."""
    at = 0
    while at < len(data):
        size = socket.say(data[at:])
        at += size
        pair.run()
        assert size or socket.is_read, f"stuck at {at}"


def test_bytes_arrive_both_ways(pair: Pair) -> None:
    """What a client sends gets to the broker, what the broker sends to the client, and addresses are known."""
    socket, server = pair.connected()
    say_all(pair, socket, LONG)
    server.end.write(LONG)
    pair.run()
    assert bytes(server.received) == LONG
    assert bytes(socket.written) == LONG
    assert server.end.get_extra_info("peername") == PEERNAME
    assert server.end.get_write_buffer_size() == 0


def test_small_pieces_are_not_reported_one_by_one(pair: Pair) -> None:
    """Of many small deliveries that the client reads, no credit and no unsent byte is left that matters."""
    socket, server = pair.connected()
    for _ in range(20_000):
        server.end.write(b"delivery" * 4)
        pair.run()
        assert server.end.get_write_buffer_size() == 0
    assert len(socket.written) == 640_000
    assert pair.broker.outstanding < 2 * LINK_REPORT_BYTES


def test_before_its_login_a_client_is_read_in_turns(pair: Pair) -> None:
    """Each read waits for the one before to be handled, so that a broker that reads no more is not sent more."""
    socket = pair.connect()
    pair.run()
    server = pair.servers[0]
    server.end.pause_reading()
    assert socket.say(bytes(10)) == 10
    pair.run()
    assert not socket.is_read
    server.end.resume_reading()
    pair.run()
    assert socket.is_read
    assert len(server.received) == 10
    assert socket.say(bytes(MIB)) <= LINK_FIRST_BYTES


def test_a_client_that_the_broker_does_not_read_delays_nobody(pair: Pair) -> None:
    """Its bytes stay in its socket beyond the window; others go on, and it does, too, once it is read."""
    socket, server = pair.connected()
    other, others_server = pair.connected()
    server.end.pause_reading()
    said = socket.say(LONG)
    pair.run()
    assert LINK_NARROW_BYTES - 4096 <= said <= LINK_NARROW_BYTES
    assert not server.received
    say_all(pair, other, LONG)
    assert bytes(others_server.received) == LONG
    server.end.resume_reading()
    pair.run()
    say_all(pair, socket, LONG[said:])
    assert bytes(server.received) == LONG


def test_a_client_that_reads_nothing_fills_no_memory(pair: Pair) -> None:
    """A worker holds no more for it than the window, and the rest waits in the broker, which knows how much."""
    socket, server = pair.connected()
    server.end.set_write_buffer_limits(high=MIB, low=MIB // 4)
    socket.takes = 100_000
    for _ in range(100):
        server.end.write(bytes(100_000))
    pair.run(5.0)
    assert len(socket.written) <= LINK_UNSENT_BYTES + 100_000
    assert server.is_full
    assert 7_700_000 < server.end.get_write_buffer_size() <= 9_900_000
    other, others_server = pair.connected()
    others_server.end.write(LONG)
    pair.run()
    assert bytes(other.written) == LONG
    # A slow reader is seen to read, before it has read everything.
    before = server.end.get_write_buffer_size()
    socket.let_read(50_000)
    pair.run(2.0)
    assert before - server.end.get_write_buffer_size() == 50_000
    for _ in range(100):
        socket.let_read(LINK_WIDE_BYTES)
        pair.run(2.0)
    assert len(socket.written) == 10_000_000
    assert not server.is_full
    assert server.end.get_write_buffer_size() == 0


def test_the_receiver_learns_that_it_writes_too_much(pair: Pair) -> None:
    """Also where the window has room for all of it."""
    socket, server = pair.connected()
    server.end.set_write_buffer_limits(high=MIB, low=MIB // 4)
    socket.takes = 0
    server.end.write(bytes(LINK_UNSENT_BYTES))
    assert server.is_full
    pair.run()
    socket.let_read(LINK_UNSENT_BYTES)
    pair.run(2.0)
    assert not server.is_full


def test_many_clients_that_read_nothing_share_the_wide_window(pair: Pair) -> None:
    """However many do not read, a worker holds little more of each than the narrow window."""
    sockets = []
    for _ in range(200):
        socket, server = pair.connected()
        socket.takes = 0
        server.end.write(bytes(4 * MIB))
        sockets.append(socket)
        pair.run()
    held = sum(socket.unsent for socket in sockets)
    assert held <= LINK_SHARED_BYTES + LINK_UNSENT_BYTES + 200 * LINK_NARROW_BYTES


def test_many_clients_that_are_not_read_share_the_wide_window(pair: Pair) -> None:
    """The same in the other direction; and what clients had is free again when they are gone."""
    sockets = [pair.connected() for _ in range(100)]
    for socket, _server in sockets:
        say_all(pair, socket, LONG[:MIB])
    assert 0 < pair.broker.granted <= LINK_SHARED_BYTES
    for _socket, server in sockets:
        server.end.pause_reading()
    said = sum(socket.say(bytes(2 * MIB)) for socket, _ in sockets)
    assert said <= LINK_SHARED_BYTES + 100 * LINK_NARROW_BYTES
    for _socket, server in sockets:
        server.end.abort()
    pair.run()
    assert pair.broker.granted == 0
    assert pair.broker.outstanding == 0
    assert len(pair.broker) == 0


def test_small_pieces_are_kept_together(pair: Pair) -> None:
    """A client that sends two bytes at a time and is not read takes little more memory than its window."""
    socket, server = pair.connected()
    server.end.pause_reading()
    said = 0
    while socket.is_read:
        said += socket.say(LONG[said : said + 2])
        pair.run()
    server.end.resume_reading()
    pair.run()
    assert bytes(server.received) == LONG[:said]
    assert said > LINK_NARROW_BYTES // 2
    assert len(server.pieces) <= 2 * LINK_NARROW_BYTES // 4096


def test_the_receiver_gets_its_share_at_a_time(pair: Pair) -> None:
    """What came in one read is given in pieces of the share, and no more of them once the receiver pauses."""
    socket, server = pair.connected()
    server.share = 1000
    server.pause_at = 2500
    assert socket.say(LONG[:20_000]) == 20_000
    pair.run()
    assert server.pieces == [1000, 1000, 1000]
    server.pause_at = 1 << 40
    server.end.resume_reading()
    assert server.pieces == [1000, 1000, 1000]
    pair.run()
    assert server.pieces == [1000] * 20
    assert bytes(server.received) == LONG[:20_000]


def test_few_clients_are_accepted_in_a_turn(pair: Pair) -> None:
    """Those that a worker has accepted together are not begun together, and no byte of theirs overtakes another."""
    sockets = [pair.connect() for _ in range(3 * ACCEPTED_PER_TURN)]
    for number, socket in enumerate(sockets):
        socket.say(b"client %d" % number)
    counts: list[int] = []

    def look() -> None:
        counts.append(len(pair.servers))
        if len(counts) < 40:
            pair.loop.call_soon(look)

    look()
    pair.run()
    steps = [after - before for before, after in itertools.pairwise(counts)]
    assert max(steps) <= ACCEPTED_PER_TURN
    assert [bytes(server.received) for server in pair.servers] == [b"client %d" % n for n in range(len(sockets))]


def test_room_for_more_channels(pair: Pair) -> None:
    """It comes back with each that the other end has handled, also if it is refused, or its client is gone."""
    told: list[int] = []
    pair.worker.on_room = lambda: told.append(pair.worker.room())
    for _ in range(ACCEPTED_PER_TURN):
        socket = pair.connect()
        assert socket.client is not None
        socket.client.connection_lost(None)
    pair.refuses = True
    pair.connect()
    assert pair.worker.room() == -1
    pair.run()
    assert told[-1] == pair.worker.room() == ACCEPTED_PER_TURN
    assert len(pair.worker) == len(pair.broker) == 0


def test_the_end_of_a_client_comes_behind_its_bytes(pair: Pair) -> None:
    """A client that sends and hangs up is heard to the end, even by a broker that was not reading."""
    socket, server = pair.connected()
    server.end.pause_reading()
    socket.say(b"last words")
    assert socket.client is not None
    socket.client.connection_lost(ConnectionResetError("reset by peer"))
    pair.run()
    assert not server.is_lost
    server.end.resume_reading()
    pair.run()
    assert bytes(server.received) == b"last words"
    assert server.is_lost
    assert str(server.reason) == "reset by peer"
    assert len(pair.worker) == len(pair.broker) == 0


def test_writing_to_a_client_that_is_gone_ends_it(pair: Pair) -> None:
    """As a socket does: the write finds out, and nobody waits for input that is not read."""
    socket, server = pair.connected()
    server.end.pause_reading()
    socket.say(b"not read")
    assert socket.client is not None
    socket.client.connection_lost(None)
    pair.run()
    server.end.write(b"too late")
    pair.run()
    assert server.is_lost
    assert not server.received


def test_closing_waits_for_what_was_written(pair: Pair) -> None:
    """CLOSE comes behind all output, and the connection is lost only when the socket is closed."""
    socket, server = pair.connected()
    socket.takes = 0
    server.end.write(LONG)
    server.end.close()
    server.end.write(b"ignored")
    pair.run()
    assert not socket.is_closed
    while not socket.is_closed:
        socket.let_read(LINK_WIDE_BYTES)
        pair.run(2.0)
    assert bytes(socket.written) == LONG
    assert not server.is_lost
    assert socket.client is not None
    socket.client.connection_lost(None)
    pair.run()
    assert server.is_lost
    assert server.reason is None


@pytest.mark.parametrize("end", ["close", "write_eof"])
def test_the_last_bytes_are_seen_to_be_read(pair: Pair, end: str) -> None:
    """Once nothing more is sent, the broker knows of each byte that the client has not read, however few there are."""
    socket, server = pair.connected()
    socket.takes = 0
    server.end.write(bytes(2 * LINK_REPORT_BYTES))
    pair.run()
    assert server.end.get_write_buffer_size() == 0
    getattr(server.end, end)()
    pair.run()
    assert server.end.get_write_buffer_size() == 2 * LINK_REPORT_BYTES
    for left in range(2 * LINK_REPORT_BYTES - 100, 32_000, -100):
        socket.let_read(100)
        pair.run(2.0)
        assert server.end.get_write_buffer_size() == left


def test_the_end_of_output_leaves_input_open(pair: Pair) -> None:
    """After END the client is still read."""
    socket, server = pair.connected()
    server.end.write(b"the reason")
    server.end.write_eof()
    pair.run()
    assert socket.is_ended
    assert bytes(socket.written) == b"the reason"
    socket.say(b"I see")
    pair.run()
    assert bytes(server.received) == b"I see"


def test_aborting_ends_both_sides(pair: Pair) -> None:
    """The receiver is told in a later turn, as by any transport, and what the client still sends is ignored."""
    socket, server = pair.connected()
    server.end.abort()
    assert not server.is_lost
    socket.say(b"ignored")
    pair.run()
    assert server.is_lost
    assert socket.is_aborted
    assert not server.received


def test_a_lost_link_ends_all_its_clients(pair: Pair) -> None:
    """On both sides, with the reason."""
    socket, server = pair.connected()
    pair.pipes[0].abort()
    pair.run()
    assert server.is_lost
    assert "ended" in str(server.reason)
    assert socket.is_aborted
    assert len(pair.lost) == 2
    server.end.write(b"ignored")
    server.end.abort()
    pair.run()


def test_an_internal_error_while_a_link_is_lost(pair: Pair) -> None:
    """The receiver of one channel raises what nobody expected; the others still learn that they are lost."""
    _, server = pair.connected()
    _, others_server = pair.connected()
    server.is_broken = True
    pair.pipes[0].abort()
    pair.run()
    assert server.is_lost
    assert others_server.is_lost
    assert len(pair.lost) == 2


def test_what_is_no_frame_ends_the_link(pair: Pair) -> None:
    """A violation cannot be answered: nothing behind it can be read."""
    pair.connected()
    pair.pipes[0].write(b"\x7f\x00\x00\x00\x00\x00\x00\x00")
    pair.run()
    assert any("no frame" in reason for reason in pair.lost)


def test_notes_are_for_the_program(pair: Pair) -> None:
    """What is sent on channel 0 belongs to no client."""
    pair.worker.send(NOTE, 0, b"{}")
    pair.run()
    assert pair.notes == [b"{}"]


def test_an_internal_error_ends_one_client_only(pair: Pair) -> None:
    """The receiver of one channel raises what nobody expected; the others go on."""
    socket, server = pair.connected()
    other, others_server = pair.connected()
    server.is_broken = True
    socket.say(b"poison")
    other.say(b"fine")
    pair.run()
    assert server.is_lost
    assert bytes(others_server.received) == b"fine"


# -- fetches that the other end answers ---------------------------------------------------------------------------


@pytest.fixture
def reading(pair: Pair) -> Pair:
    """A pair whose worker's end can read streams."""
    pair.broker.answers_fetches = lambda: True
    pair.fetches = {b"many": Fetched([b"1, ", memoryview(b"2, "), b"3"], 9, 3), b"none": NOT_FETCHED}
    return pair


def test_an_answer_is_between_what_is_written_before_and_behind_it(reading: Pair) -> None:
    """The broker learns how far it went, and no byte of it came over the link."""
    socket, server = reading.connected()
    server.end.write(b"before ")
    assert server.end.fetch(b"many", MIB)
    server.end.write(b" behind")
    reading.run()
    assert bytes(socket.written) == b"before 1, 2, 3 behind"
    assert server.answers == [(9, 3)]
    reading.fetch_seconds = 1.0
    assert server.end.fetch(b"many", MIB)
    server.end.write(b" end")
    server.end.close()
    reading.run()
    assert not socket.is_closed
    reading.run(1.0)
    assert bytes(socket.written) == b"before 1, 2, 3 behind1, 2, 3 end"
    assert socket.is_closed
    assert server.end.get_write_buffer_size() == 0
    assert reading.broker.outstanding < 2 * LINK_REPORT_BYTES


def test_an_end_that_has_no_answer(reading: Pair) -> None:
    """It says so, and the client gets nothing."""
    socket, server = reading.connected()
    assert server.end.fetch(b"none", MIB)
    reading.run()
    assert (bytes(socket.written), server.answers) == (b"", [(0, 0)])
    assert server.end.get_write_buffer_size() == 0


def test_who_is_not_asked_for_an_answer(reading: Pair) -> None:
    """An end that never can, one that cannot now, and one that has much for the client already, or is closing."""
    _socket, server = reading.connected()
    reading.broker.answers_fetches = None
    assert not server.end.fetch(b"many", MIB)
    reading.broker.answers_fetches = lambda: False
    assert not server.end.fetch(b"many", MIB)
    reading.broker.answers_fetches = lambda: True
    server.end.write(bytes(2 * LINK_UNSENT_BYTES))
    assert not server.end.fetch(b"many", MIB)
    _, other = reading.connected()
    other.end.close()
    assert not other.end.fetch(b"many", MIB)
    reading.run()
    assert not server.answers
    assert not other.answers


def test_a_client_that_does_not_read_its_answers(reading: Pair) -> None:
    """The broker knows that the client has more to read than it should, until it has read that."""
    reading.fetches[b"long"] = Fetched([bytes(4 * MIB)], 100, 100)
    socket, server = reading.connected()
    server.end.set_write_buffer_limits(high=MIB, low=MIB // 4)
    socket.takes = 0
    assert server.end.fetch(b"long", 4 * MIB)
    assert server.is_full
    reading.run(2.0)
    assert server.end.get_write_buffer_size() > 3 * MIB
    assert not server.end.fetch(b"long", 4 * MIB)
    socket.let_read(5 * MIB)
    reading.run(2.0)
    assert not server.is_full
    assert server.end.get_write_buffer_size() == 0
    assert server.end.fetch(b"long", 4 * MIB)


def test_the_end_of_a_client_whose_fetch_is_not_answered(reading: Pair) -> None:
    """Nobody waits for the answer any more."""
    socket, server = reading.connected()
    assert socket.client is not None
    assert server.end.fetch(b"many", MIB)
    socket.client.connection_lost(None)
    reading.run()
    assert server.is_lost
    assert not server.answers
    assert reading.broker.outstanding == 0
