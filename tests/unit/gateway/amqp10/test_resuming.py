"""Links that are suspended and attached again: what outlives them, and what becomes of their deliveries."""

import pytest

from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.broker.queue.base import Queue
from flintmq.gateway.amqp10.incoming_link import LINK_CREDIT
from flintmq.protocol.amqp10.connection import Tuning
from flintmq.protocol.amqp10.frame_writer import encode
from flintmq.protocol.amqp10.receiver import IncomingDelivery
from flintmq.protocol.amqp10.sender import OutgoingDelivery
from flintmq.wire.amqp10.performatives import Attach, Transfer
from flintmq.wire.amqp10.sections import encode_data, encode_header
from flintmq.wire.amqp10.spec import (
    DURABLE_UNSETTLED_STATE,
    EXPIRE_NEVER,
    EXPIRE_SESSION_END,
    RCV_FIRST,
    RCV_SECOND,
    SND_UNSETTLED,
)
from flintmq.wire.amqp10.states import ACCEPTED, RELEASED, DeliveryState, Received, Rejected
from flintmq.wire.amqp10.termini import Source, Target
from tests.unit.gateway.amqp10.pair import Client, Receiver, Sender, Server, body_of


def _source(durable: int = DURABLE_UNSETTLED_STATE) -> Source:
    return Source(address="/queues/q", durable=durable, expiry_policy=EXPIRE_NEVER)


def _receive(
    client: Client,
    unsettled: dict[bytes, DeliveryState | None] | None = None,
    mode: int = RCV_FIRST,
    credit: int = 10,
    source: Source | None = None,
) -> Receiver:
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED, rcv_settle_mode=mode, unsettled=unsettled)
    receiver = client.receiver(source=source or _source(), attach=attach, credit=0)
    client.durable()
    if credit and not receiver.detached:
        receiver.link.grant(credit)
        client.tick()
        client.durable()
    return receiver


def _publish(client: Client, *bodies: str) -> None:
    client.sender(attach=Attach(name="publisher")).publish(*bodies)


def _delivery(receiver: Receiver) -> tuple[IncomingDelivery, bytes]:
    ((delivery, payload),) = receiver.take()
    assert delivery is not None
    return delivery, payload


def _lose(client: Client) -> None:
    client.connection.engine.lost(None)


# -- the client receives ---------------------------------------------------------------------------------------------


def test_what_is_within_the_header_is_aborted_and_sent_anew(client: Client, server: Server) -> None:
    """Case 7: the broker writes the header itself, and does not have the one that the client has a part of."""
    _publish(client, "one")
    first, _ = _delivery(_receive(client))
    _lose(client)
    again = _receive(Client(server), {first.tag: Received(section_number=0, section_offset=3)})
    second, payload = _delivery(again)
    assert (second.tag, second.is_resumed, body_of(payload)) == (first.tag, False, "one")


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "in-part"])
def test_what_an_answer_in_part_cannot_say_is_settled(client: Client, server: Server, *, is_whole: bool) -> None:
    """Where not all that is unsettled fits into a frame, a receiver is told what else is not: it waited for ever."""
    _publish(client, *[str(number) for number in range(100)])
    receiver = _receive(client, credit=100)
    deliveries = [delivery for delivery, _ in receiver.take() if delivery is not None]
    settled = deliveries[70]
    receiver.settle(settled, ACCEPTED)
    client.durable()
    _lose(client)
    other = Client(server, tuning=Tuning() if is_whole else Tuning(frame_max=1024))
    theirs: dict[bytes, DeliveryState | None] = dict.fromkeys([each.tag for each in deliveries], Received(2, 0))
    again = _receive(other, {**theirs, settled.tag: ACCEPTED}, credit=1)
    assert again.answer.incomplete_unsettled is not is_whole
    # That takes credit, as whatever is resumed does.
    assert again.aborted == ([] if is_whole else [settled.tag])
    again.link.grant(100)
    other.tick()
    del theirs[settled.tag]
    assert [each.tag for each, _ in again.take() if each is not None] == list(theirs)


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "new"])
def test_a_source_that_is_resumed_while_nothing_can_be_stored(
    client: Client, queue: Queue, server: Server, *, is_known: bool
) -> None:
    """The attach is refused, and what the client has in hand is nobody else's all the same."""
    tag = b""
    if is_known:
        _publish(client, "one")
        tag = _delivery(_receive(client))[0].tag
        _lose(client)
    other = Client(server)
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED, unsettled={tag: ACCEPTED} if is_known else None)
    refused = other.receiver(source=_source(), attach=attach, credit=0)
    server.storage.fence("no room")
    server.gateway.on_durable()
    other.tick()
    assert refused.refusal[1] == "nothing durable can be stored: no room"
    assert queue.consumers == []
    assert queue.message_count == 0
    assert [list(each.unsettled) for each in server.vhost.termini.sources.values()] == ([[tag]] if is_known else [])


def test_a_target_that_is_resumed_while_nothing_can_be_stored(client: Client, server: Server) -> None:
    """The attach is refused, and what was taken from the client is not taken again."""
    target = Target(address="/queues/q", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    sender = client.sender(target=target, attach=Attach(name="s", rcv_settle_mode=RCV_SECOND))
    client.durable()
    sender.send("one")
    client.durable()
    (terminus,) = server.vhost.termini.targets.values()
    taken = list(terminus.unsettled)
    assert len(taken) == 1
    _lose(client)
    other = Client(server)
    attach = Attach(name="s", rcv_settle_mode=RCV_SECOND, unsettled=dict.fromkeys(taken))
    refused = other.sender(target=target, attach=attach)
    server.storage.fence("no room")
    server.gateway.on_durable()
    other.tick()
    assert refused.refusal[1] == "nothing durable can be stored: no room"
    assert list(server.vhost.termini.targets.values()) == [terminus]
    assert list(terminus.unsettled) == taken


def test_draining_a_link_that_may_only_resume(client: Client, server: Server) -> None:
    """A receiver that told a part of what it holds gets no new message, and its credit back when it asks for that."""
    _publish(client, "one", "two")
    delivery, _ = _delivery(_receive(client, credit=1))
    _lose(client)
    attach = Attach(
        name="r", snd_settle_mode=SND_UNSETTLED, unsettled={delivery.tag: Received(2, 0)}, incomplete_unsettled=True
    )
    other = Client(server)
    again = other.receiver(source=_source(), attach=attach, credit=0)
    other.durable()
    again.link.grant(5)
    again.link.drain_credit()
    other.tick()
    assert [each.tag for each, _ in again.take() if each is not None] == [delivery.tag]
    assert again.link.credit == 0


def test_new_messages_come_behind_resumed_ones(client: Client, server: Server) -> None:
    """What is unsettled was sent before."""
    _publish(client, "one", "two")
    receiver = _receive(client)
    assert len(receiver.take()) == 2
    _lose(client)
    other = Client(server)
    _publish(other, "three")
    assert _receive(other).bodies() == ["one", "two", "three"]


def test_resuming_takes_credit(client: Client, server: Server) -> None:
    """A resumed delivery is one like others."""
    _publish(client, "one", "two")
    assert len(_receive(client).take()) == 2
    _lose(client)
    receiver = _receive(Client(server), credit=1)
    assert receiver.bodies() == ["one"]
    receiver.link.grant(1)
    receiver.client.tick()
    assert receiver.bodies() == ["two"]


def test_deliveries_wait_for_their_notes(client: Client, server: Server) -> None:
    """What the client has, the broker knows after a crash."""
    _publish(client, "one")
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED)
    receiver = client.receiver(source=_source(), attach=attach, credit=0)
    client.durable()
    receiver.link.grant(10)
    client.tick()
    assert receiver.take() == []
    client.durable()
    assert receiver.bodies() == ["one"]


def test_what_needs_no_note_does_not_overtake(client: Client) -> None:
    """A transient message waits for the note of a durable one before it."""
    receiver = _receive(client, credit=0)
    publisher = client.sender(attach=Attach(name="publisher"))
    publisher.send("one")
    publisher.send("two", durable=False)
    client.durable()
    receiver.link.grant(10)
    client.tick()
    assert receiver.take() == []
    client.durable()
    assert receiver.bodies() == ["one", "two"]


def test_settling_forgets_the_note(client: Client, server: Server, queue: Queue) -> None:
    """Nothing is left of a delivery that was settled."""
    _publish(client, "one")
    receiver = _receive(client)
    delivery, _ = _delivery(receiver)
    receiver.settle(delivery, ACCEPTED)
    client.durable()
    assert server.storage.memory_journal.kept == {}
    _lose(client)
    assert _receive(Client(server)).answer.unsettled == {}
    assert queue.message_count == 0


def test_an_outcome_is_settled_once_the_note_cannot_come_back(client: Client, server: Server) -> None:
    """Whoever had forgotten the delivery before a crash would get it again behind it."""
    _publish(client, "one")
    receiver = _receive(client, mode=RCV_SECOND)
    delivery, _ = _delivery(receiver)
    receiver.link.update(delivery, ACCEPTED)
    client.tick()
    # Once more, or something else, changes nothing.
    receiver.link.update(delivery, RELEASED)
    client.tick()
    assert receiver.said == []
    client.durable()
    assert receiver.said == [(ACCEPTED, True)]
    assert server.storage.memory_journal.kept == {}


def test_without_notes_an_outcome_waits_for_nothing(client: Client) -> None:
    """A crash takes the link then, and all that is known of its deliveries."""
    _publish(client, "one")
    receiver = _receive(client, mode=RCV_SECOND, source=Source(address="/queues/q"))
    delivery, _ = _delivery(receiver)
    receiver.link.update(delivery, ACCEPTED)
    client.tick()
    assert receiver.said == [(ACCEPTED, True)]


def test_a_link_may_end_before_its_settlement_is_safe(client: Client, server: Server) -> None:
    """The next one is attached when it is, or what is not in its map might come again."""
    _publish(client, "one")
    receiver = _receive(client, mode=RCV_SECOND)
    delivery, _ = _delivery(receiver)
    receiver.link.update(delivery, ACCEPTED)
    client.tick()
    receiver.link.detach(closed=False)
    client.tick()
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED, unsettled={delivery.tag: ACCEPTED})
    again = client.receiver(source=_source(), attach=attach)
    assert again.attached == []
    client.durable()
    assert again.answer.unsettled == {}
    assert receiver.said == []


def test_an_outcome_that_the_client_came_back_with_is_settled_once_that_is_safe(client: Client, server: Server) -> None:
    """What it has no outcome of waits for that, so that all come in their order."""
    _publish(client, "one", "two")
    (first, _), (second, _) = _receive(client).take()
    assert first is not None
    assert second is not None
    _lose(client)
    again = Client(server)
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED, unsettled={first.tag: ACCEPTED, second.tag: None})
    receiver = again.receiver(source=_source(), attach=attach, credit=0)
    server.storage.sync()
    server.gateway.on_durable()
    again.tick()
    receiver.link.grant(10)
    again.tick()
    assert receiver.attached != []
    assert receiver.take() == []
    again.durable()
    assert [(told.tag, told.is_settled) for told, _ in receiver.take() if told is not None] == [
        (first.tag, True),
        (second.tag, False),
    ]


def test_by_default_a_detached_link_may_come_back_until_its_session_ends(client: Client, queue: Queue) -> None:
    """session-end is the expiry policy of who asks for none (part 3 §3.5.3)."""
    _publish(client, "one")
    receiver = client.receiver(attach=Attach(name="r", snd_settle_mode=SND_UNSETTLED))
    delivery, payload = _delivery(receiver)
    receiver.link.detach(closed=False)
    client.tick()
    assert queue.message_count == 0
    again = client.receiver(
        attach=Attach(name="r", snd_settle_mode=SND_UNSETTLED, unsettled={delivery.tag: None}), credit=10
    )
    assert _delivery(again)[1] == payload
    again.link.detach(closed=False)
    client.tick()
    client.session.end()
    client.tick()
    assert queue.message_count == 1


def _expiring(policy: str) -> Source:
    return Source(address="/queues/q", expiry_policy=policy)


@pytest.mark.parametrize(
    ("policy", "detached", "ended", "lost"),
    [("link-detach", 1, 1, 1), ("session-end", 0, 1, 1), ("connection-close", 0, 0, 1), ("never", 0, 0, 0)],
)
def test_expiry_policies(client: Client, queue: Queue, policy: str, detached: int, ended: int, lost: int) -> None:
    """When what a suspended source holds is given back (part 3 §3.5.6)."""
    _publish(client, "one")
    receiver = _receive(client, source=_expiring(policy))
    assert len(receiver.take()) == 1
    receiver.link.detach(closed=False)
    client.tick()
    assert queue.message_count == detached
    client.session.end()
    client.tick()
    assert queue.message_count == ended
    _lose(client)
    assert queue.message_count == lost


def test_a_link_is_stolen_by_one_of_the_same_name(client: Client, server: Server) -> None:
    """The first one is told so, and the second has what it had (part 2 §2.6.1)."""
    _publish(client, "one")
    receiver = _receive(client)
    delivery, _ = _delivery(receiver)
    thief = _receive(Client(server), {delivery.tag: ACCEPTED})
    client.tick()
    assert receiver.refusal[0] == "amqp:link:stolen"
    assert thief.take()[0][1] == b""


def test_a_null_source_is_the_one_that_was(client: Client, server: Server) -> None:
    """Who has forgotten what its link was is told (part 2 §2.6.13)."""
    _publish(client, "one")
    first, _ = _delivery(_receive(client))
    _lose(client)
    again = Client(server)
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED)
    attach.target = Target(address="here")
    receiver = Receiver(again, again.session, attach, 0)
    again.durable()
    assert receiver.source.address == "/queues/q"
    assert receiver.answer.unsettled == {first.tag: None}


# -- the client sends ------------------------------------------------------------------------------------------------


def _send(
    client: Client,
    unsettled: dict[bytes, DeliveryState | None] | None = None,
    durable: int = DURABLE_UNSETTLED_STATE,
    mode: int = RCV_SECOND,
) -> Sender:
    sender = _attach_sender(client, unsettled, durable, mode)
    client.durable()
    return sender


def _attach_sender(
    client: Client, unsettled: dict[bytes, DeliveryState | None] | None, durable: int, mode: int
) -> Sender:
    """Nothing is synced meanwhile."""
    target = Target(address="/queues/q", durable=durable, expiry_policy=EXPIRE_NEVER)
    attach = Attach(name="s", snd_settle_mode=SND_UNSETTLED, rcv_settle_mode=mode, unsettled=unsettled)
    return client.sender(target=target, attach=attach)


def _message(body: str) -> bytes:
    return encode_header(True, 4, None, False, 0) + encode_data(body.encode())


def _sent(sender: Sender, tag: bytes, body: str) -> OutgoingDelivery:
    delivery = sender.link.send_tagged(tag, [_message(body)], False, 0, None, 1)
    assert delivery is not None
    sender.client.durable()
    return delivery


@pytest.mark.parametrize("mode", [RCV_FIRST, RCV_SECOND])
@pytest.mark.parametrize("durable", [0, DURABLE_UNSETTLED_STATE])
def test_an_attach_tells_of_no_message_before_it_is_safe(
    client: Client, server: Server, queue: Queue, durable: int, mode: int
) -> None:
    """Who reads there that its message was taken forgets it: a crash must not take the message after that."""
    sender = _send(client, None, durable, mode)
    sender.link.send_tagged(b"a", [_message("one")], False, 0, None, 1)
    client.tick()
    sender.link.detach(closed=False)
    client.tick()
    again = _attach_sender(client, {b"a": None}, durable, mode)
    assert again.attached == []
    client.durable()
    assert again.answer.unsettled == {b"a": ACCEPTED}
    assert sender.said == []
    assert queue.message_count == 1


def test_an_attach_is_refused_where_what_it_would_tell_is_lost(client: Client, server: Server) -> None:
    """The storage fails before the message is safe, and nobody says that it was taken."""
    sender = _send(client, None, 0)
    sender.link.send_tagged(b"a", [_message("one")], False, 0, None, 1)
    client.tick()
    sender.link.detach(closed=False)
    again = _attach_sender(client, {b"a": None}, 0, RCV_SECOND)
    server.storage.fence("disk")
    server.gateway.on_durable()
    client.tick()
    assert again.answer.target is None
    assert again.answer.unsettled is None
    assert again.refusal[1] == "nothing durable can be stored: disk"


def test_a_target_that_settles_first_remembers_until_it_has(client: Client, server: Server, queue: Queue) -> None:
    """The link is lost before its client hears: the next one tells, also after a crash."""
    sender = _send(client, mode=RCV_FIRST)
    sender.link.send_tagged(b"a", [_message("one")], False, 0, None, 1)
    client.tick()
    # The message and the note of it.
    assert len(server.storage.memory_journal.kept) == 2
    _lose(client)
    again = _send(Client(server), {b"a": None}, mode=RCV_FIRST)
    assert again.answer.unsettled == {b"a": ACCEPTED}
    again.link.resume(b"a", [], ACCEPTED, True)
    again.client.durable()
    assert queue.message_count == 1
    assert len(server.storage.memory_journal.kept) == 1


def test_a_target_that_has_settled_first_forgets(client: Client, server: Server) -> None:
    """Its client was told, and nothing is left of it but the message."""
    sender = _send(client, mode=RCV_FIRST)
    _sent(sender, b"a", "one")
    assert sender.said == [(1, ACCEPTED, True)]
    assert server.vhost.termini.targets["u", "client", "s"].unsettled == {}
    assert len(server.storage.memory_journal.kept) == 1


def _finish(client: Client) -> None:
    """The server's tick ends, and all is on the disk."""
    client.server.gateway.end_tick()
    client.server.storage.sync()
    client.server.gateway.on_durable()


def test_a_message_does_not_grow_too_large_by_being_resumed() -> None:
    """What came on all links together is what counts for max-message-size."""
    limit = 1_000_000
    server = Server(limit)
    server.queue("q")
    client = Client(server)
    sender = _send(client)
    assert sender.answer.max_message_size == limit
    sender.link.send_tagged(b"a", [_message("x" * (limit - 1000))], False, 0, None, 1)
    up = b"".join(client._up.take())
    client.connection.engine.receive(up[:-100_000], 0.0)
    _finish(client)
    _lose(client)
    again = _send(Client(server), {b"a": None})
    assert again.answer.unsettled is not None
    again.link.resume(b"a", [b"x" * (limit - 1000)], again.answer.unsettled[b"a"], False, 0, 1)
    again.client.durable()
    assert again.refusal[0] == "amqp:link:message-size-exceeded"


def _half(client: Client, tag: bytes, size: int, unsettled: dict[bytes, DeliveryState | None] | None) -> Sender:
    """Attach, send half a message of some size, and detach."""
    sender = _send(client, unsettled)
    if not sender.detached:
        sender.link.send_tagged(tag, [_message("x" * 2 * size)], False, 0, None, 1)
        client.connection.engine.receive(b"".join(client._up.take())[:size], 0.0)
        _finish(client)
    _lose(client)
    return sender


def test_messages_that_are_begun_and_never_ended_do_not_gather() -> None:
    """The oldest are forgotten, where the client does not say which ones it knows; where it does, all others are."""
    server = Server(1_000_000)
    server.queue("q")
    for number in range(7):
        _half(Client(server), b"%d" % number, 450_000, None)
        found = server.vhost.termini.targets["u", "client", "s"]
        assert sum(received.size for received in found.unsettled.values()) < 3_000_000
    found = server.vhost.termini.targets["u", "client", "s"]
    tags = [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert list(found.unsettled) == tags
    refused = _send(Client(server), dict.fromkeys(tags))
    assert refused.refusal[0] == "amqp:resource-limit-exceeded"
    again = _send(Client(server), None)
    assert list(again.answer.unsettled or {}) == [b"2", b"3", b"4", b"5", b"6"]
    again = _send(Client(server), {b"3": None})
    assert list(again.answer.unsettled or {}) == [b"3"]


def test_small_parts_that_gather_count_for_what_they_take() -> None:
    """What is kept of links before is measured as what comes: not by the bytes of the message alone."""
    server = Server(100_000)
    server.queue("q")
    client = Client(server)
    sender = _send(client, None, 0)
    for number in range(300):
        _begin(sender, encode_data(b"x" * 4000)[:10] if number == 0 else b"xy")
    client.tick()
    _lose(client)
    assert _send(Client(server), {b"a": None}, 0).refusal[0] == "amqp:resource-limit-exceeded"
    assert _send(Client(server), None, 0).answer.unsettled == {}


@pytest.mark.parametrize("expiry", [EXPIRE_NEVER, EXPIRE_SESSION_END])
def test_who_never_settles_gets_no_more_credit(client: Client, server: Server, expiry: str) -> None:
    """In settle mode second, what the sender does not settle takes credit until it does; with resumption or without."""
    server.queue("short", False, max_length=1)
    attach = Attach(name="s", snd_settle_mode=SND_UNSETTLED, rcv_settle_mode=RCV_SECOND)
    sender = client.sender(target=Target(address="/queues/short", expiry_policy=expiry), attach=attach)
    sent: list[OutgoingDelivery] = []
    while sender.link.can_send and len(sent) < 2 * LINK_CREDIT:
        delivery = sender.link.send_tagged(b"%d" % len(sent), [encode_data(b"x")], False, 0, None, 1)
        assert delivery is not None
        sent.append(delivery)
        if not sender.link.can_send:
            client.tick()
    assert (len(sent), sender.link.credit) == (LINK_CREDIT, 0)
    for delivery in sent[:1000]:
        sender.link.settle(delivery, ACCEPTED)
    client.tick()
    assert sender.link.credit == 1000


def test_parts_that_are_kept_count_until_the_message_is_complete(client: Client) -> None:
    """A connection can begin only so much, and what it has ended does not count."""
    sender = _send(client)
    payload = _message("x" * 400_000)
    for tag in (b"a", b"b"):
        sender.link.send_tagged(tag, [payload], False, 0, None, 1)
        up = b"".join(client._up.take())
        client.connection.engine.receive(up[:300_000], 0.0)
        assert client.connection.engine.reassembly.held > 200_000
        client.connection.engine.receive(up[300_000:], 0.0)
        assert client.connection.engine.reassembly.held == 0
        client.durable()


@pytest.mark.parametrize("durable", [0, DURABLE_UNSETTLED_STATE])
def test_small_parts_count_for_what_they_take(client: Client, durable: int) -> None:
    """A message in frames of a few bytes is many parts, each of which is more than its bytes."""
    sender = _send(client, None, durable)
    head = encode_data(b"x" * 4000)[:10]
    for number in range(100):
        _begin(sender, head if number == 0 else b"xy")
    client.tick()
    assert client.connection.engine.reassembly.held == 100 * 700
    (received,) = client.server.vhost.termini.targets["u", "client", "s"].unsettled.values()
    assert received.held == 100 * 700
    assert received.size == 10 + 99 * 2
    client.session.end()
    client.tick()
    assert client.connection.engine.reassembly.held == 0


def _begin(sender: Sender, part: bytes) -> None:
    """One transfer of a delivery, and more to come."""
    session = sender.client.session
    transfer = Transfer(
        handle=sender.link.handle, delivery_id=0, delivery_tag=b"a", message_format=0, more=True, settled=False
    )
    engine = sender.client.engine
    engine.frames.begin(session.number, encode(transfer), len(part))
    engine.output.writer.write(part)
    engine.output.touch()
    session.sent_transfer()


def test_notes_under_way_take_credit(client: Client) -> None:
    """No more is acquired than there is credit for, however long the disk takes."""
    _publish(client, "one", "two", "three")
    attach = Attach(name="r", snd_settle_mode=SND_UNSETTLED)
    receiver = client.receiver(source=_source(), attach=attach, credit=0)
    client.durable()
    receiver.link.grant(2)
    client.tick()
    assert client.server.vhost.queues["q"].message_count == 1
    client.durable()
    assert receiver.bodies() == ["one", "two"]


# -- whose link it is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", ["^$", ".*"])
def test_a_link_is_its_users_own(client: Client, server: Server, queue: Queue, read: str) -> None:
    """Another user of the same container has neither its link nor what is unsettled there, whatever it may read."""
    _publish(client, "one")
    receiver = _receive(client)
    delivery, _ = _delivery(receiver)
    sender = _send(client)
    server.broker.put_user(UserRecord("other", ""))
    server.broker.put_rule(PermissionRecord("/", "other", "^$", ".*", read))
    others = Client(server, user="other")
    _send(others)
    theirs = _receive(others)
    client.tick()
    assert (receiver.detached, sender.detached) == ([], [])
    assert (len(theirs.detached) == 1) == (read == "^$")
    assert not theirs.bodies()
    assert not (theirs.answer.unsettled if read == ".*" else None)
    _lose(client)
    assert _receive(Client(server), credit=0).answer.unsettled == {delivery.tag: None}


@pytest.mark.parametrize("address", ["/queues/secret", "/queues/missing", "/nonsense"])
def test_a_refused_attach_leaves_the_link_alone(client: Client, server: Server, address: str) -> None:
    """A link gives way to one by its name that is attached, not to one that asks for what it does not get."""
    server.queue("secret")
    _publish(client, "one")
    receiver = _receive(client)
    delivery, _ = _delivery(receiver)
    sender = _send(client)
    server.allow(read="^q$", write="^(q|amq.default)$" if address != "/queues/secret" else "^q$")
    second = Client(server)
    source = Source(address=address, durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    assert _receive(second, source=source).detached
    target = Target(address=address, durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    assert second.sender(target=target, attach=Attach(name="s")).detached
    client.tick()
    assert (receiver.detached, sender.detached) == ([], [])
    _lose(client)
    assert _receive(Client(server), credit=0).answer.unsettled == {delivery.tag: None}


def test_a_queue_that_goes_with_the_link_that_gives_way_is_not_found(client: Client, server: Server) -> None:
    """Nobody is attached to a queue that is deleted."""
    server.vhost.declare_queue("fleeting", False, False, True, {}, None)
    source = Source(address="/queues/fleeting", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    _receive(client, source=source)
    assert _receive(Client(server), source=source).refusal[0] == "amqp:not-found"


def test_what_is_kept_for_a_user_goes_with_it(server: Server, queue: Queue) -> None:
    """Nobody could come back to it, and messages would wait for that for ever."""
    server.broker.put_user(UserRecord("other", ""))
    server.broker.put_rule(PermissionRecord("/", "other", ".*", ".*", ".*"))
    client = Client(server, user="other")
    _publish(client, "one")
    _delivery(_receive(client))
    _lose(client)
    assert queue.message_count == 0
    server.broker.delete_user("other")
    assert (len(server.vhost.termini), queue.message_count) == (0, 1)


def test_what_a_full_queue_does_not_keep_is_with_the_dead_letters_when_its_outcome_is_noted(server: Server) -> None:
    """Or a crash could leave the outcome alone, and the message would not come again."""
    server.queue("dead")
    server.queue("full", max_length=0, dead_letter_exchange="", dead_letter_routing_key="dead")
    client = Client(server)
    target = Target(address="/queues/full", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    attach = Attach(name="s", snd_settle_mode=SND_UNSETTLED, rcv_settle_mode=RCV_SECOND)
    sender = client.sender(target=target, attach=attach)
    client.durable()
    _sent(sender, b"t", "one")
    journal = server.storage.memory_journal
    assert len(journal.append_groups) == 2
    assert len(set(journal.append_groups)) == 1
    assert journal.append_groups[0] > 0
    assert server.vhost.queues["dead"].message_count == 1


def test_a_dead_letter_is_there_when_the_note_of_its_delivery_is_gone(server: Server) -> None:
    """Or a crash between could leave the rejected message to others."""
    server.queue("dead")
    server.queue("dying", dead_letter_exchange="", dead_letter_routing_key="dead")
    client = Client(server)
    client.sender("/queues/dying", attach=Attach(name="publisher")).publish("one")
    source = Source(address="/queues/dying", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    receiver = _receive(client, source=source)
    client.durable()
    delivery, _ = _delivery(receiver)
    journal = server.storage.memory_journal
    groups = journal.group_count
    receiver.settle(delivery, Rejected())
    assert journal.group_count == groups + 1
    assert journal.append_groups[-1] == groups + 1
    assert server.vhost.queues["dead"].message_count == 1
