"""Halves of messages that nobody is connected to go on with: they have a bound, for each user and for the node."""

from flintmq.broker.ports import PermissionRecord, UserRecord
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.sections import encode_data
from flintmq.wire.amqp10.spec import DURABLE_UNSETTLED_STATE, EXPIRE_NEVER, SND_UNSETTLED
from flintmq.wire.amqp10.states import ACCEPTED, DeliveryState
from flintmq.wire.amqp10.termini import Target
from tests.unit.gateway.amqp10.pair import Client, Sender, Server

# Of this much the whole frames are kept: two of 128 KiB.
HALF = 300_000
BODY = b"x" * (2 * HALF)


def made(user_most: int = 3 * HALF, most: int = 5 * HALF) -> Server:
    server = Server()
    server.queue("q")
    server.gateway.tick.partial_messages.bound(user_most, most)
    return server


def attach(client: Client, link: str, unsettled: dict[bytes, DeliveryState | None] | None = None) -> Sender:
    target = Target(address="/queues/q", durable=DURABLE_UNSETTLED_STATE, expiry_policy=EXPIRE_NEVER)
    asked = Attach(name=link, snd_settle_mode=SND_UNSETTLED, unsettled=unsettled)
    sender = client.sender(target=target, attach=asked)
    client.durable()
    return sender


def begin(server: Server, link: str, user: str = "u") -> Client:
    """Half a message comes."""
    client = Client(server, user=user)
    sender = attach(client, link)
    sender.link.send_tagged(b"a", [encode_data(BODY)], False, 0, None, 1)
    client.connection.engine.receive(b"".join(client._up.take())[:HALF], 0.0)
    server.gateway.end_tick()
    server.storage.sync()
    server.gateway.on_durable()
    return client


def lose(client: Client) -> None:
    client.connection.engine.lost(None)


def kept(server: Server) -> list[str]:
    """The links of which half a message is there."""
    return [key[2] for key, target in server.vhost.termini.targets.items() if target.partial_bytes > 0]


def test_halves_of_a_user_have_a_bound() -> None:
    """Those that were left longest ago are given up, with their notes; links and what was answered stay."""
    server = made()
    for number in range(6):
        lose(begin(server, f"link{number}"))
        assert server.gateway.tick.partial_messages.held <= 3 * HALF
    assert kept(server) == ["link3", "link4", "link5"]
    assert len(server.vhost.termini.targets) == 6
    assert server.gateway.tick.partial_messages.discarded == 3


def test_one_users_halves_are_not_another_ones() -> None:
    """Each has its own bound, until the node has no more room for all of them: then the oldest go."""
    server = made(most=4 * HALF)
    server.broker.put_user(UserRecord("v", ""))
    server.broker.put_rule(PermissionRecord("/", "v", ".*", ".*", ".*"))
    server.host.users.add("v")
    for number in range(4):
        lose(begin(server, f"u{number}"))
    lose(begin(server, "v0", "v"))
    assert "v0" in kept(server)
    for number in range(1, 4):
        lose(begin(server, f"v{number}", "v"))
        assert server.gateway.tick.partial_messages.held <= 4 * HALF
    assert "v3" in kept(server)


def test_who_is_connected_loses_nothing() -> None:
    """What is on its way has bounds of its own; it counts here when its connection is lost."""
    server = made(user_most=HALF)
    clients = [begin(server, f"link{number}") for number in range(3)]
    assert len(kept(server)) == 3
    assert server.gateway.tick.partial_messages.held == 0
    for client in clients:
        lose(client)
    assert len(kept(server)) <= 1


def test_a_half_that_was_given_up_comes_again_from_the_beginning() -> None:
    """Its sender finds nothing of it in the map, and sends the message as a new one."""
    server = made(user_most=0)
    lose(begin(server, "link"))
    assert kept(server) == []
    client = Client(server)
    sender = attach(client, "link", {b"a": None})
    assert not sender.answer.unsettled
    sender.link.send_tagged(b"a", [encode_data(BODY)], False, 0, None, 1)
    client.durable()
    assert sender.said == [(1, ACCEPTED, True)]
    assert server.vhost.queues["q"].message_count == 1


def test_halves_that_are_resumed_or_forgotten_count_no_more() -> None:
    """A link that attaches again has its half back, and one that is closed leaves none."""
    server = made()
    partial_messages = server.gateway.tick.partial_messages
    lose(begin(server, "link"))
    assert partial_messages.held > 0
    client = Client(server)
    attach(client, "link", {b"a": None})
    assert partial_messages.held == 0
    lose(client)
    assert partial_messages.held > 0
    server.vhost.termini.targets["u", "client", "link"].expire()
    assert partial_messages.held == 0


def parts_of(server: Server, link: str) -> list[bytes]:
    (half,) = server.vhost.termini.targets["u", "client", link].partial_messages
    return half.parts


def test_halves_of_suspended_links_are_put_out_of_memory() -> None:
    """They come back with a link of their name, however often, and their message is whole in the end."""
    server = made()
    pages = server.storage.memory_pages
    lose(begin(server, "link"))
    target = server.vhost.termini.targets["u", "client", "link"]
    assert parts_of(server, "link") == []
    assert target.paged_out_bytes == target.partial_bytes > HALF // 2
    client = Client(server)
    attach(client, "link", {b"a": None})
    assert target.paged_out_bytes == 0
    assert len(b"".join(parts_of(server, "link"))) == target.partial_bytes
    assert not pages.put
    lose(client)
    assert len(pages.put) == 1
    client = Client(server)
    sender = attach(client, "link", {b"a": None})
    assert sender.answer.unsettled is not None
    place = sender.answer.unsettled[b"a"]
    message = encode_data(BODY)
    sender.link.resume(b"a", [message], None, False, 0, 1)
    client.durable()
    assert place is not None
    assert sender.said == [(1, ACCEPTED, True)]
    assert server.vhost.queues["q"].message_count == 1
    assert target.partial_bytes == 0
    assert not pages.put


def test_a_half_that_is_given_up_leaves_nothing_on_the_disk() -> None:
    """Nor one whose link is closed: its page goes, and its notes."""
    server = made()
    lose(begin(server, "link"))
    server.vhost.termini.targets["u", "client", "link"].expire()
    assert not server.storage.memory_pages.put
    lose(begin(server, "other"))
    server.gateway.tick.partial_messages.bound(0, 0)
    assert kept(server) == []
    assert not server.storage.memory_pages.put
    server.storage.sync()


def test_a_half_that_cannot_be_read_comes_again_from_the_beginning() -> None:
    """It is given up, which is counted, and its sender hears that there is nothing."""
    server = made()
    lose(begin(server, "link"))
    server.storage.memory_pages.is_readable = False
    client = Client(server)
    sender = attach(client, "link", {b"a": None})
    assert not sender.answer.unsettled
    assert server.gateway.tick.partial_messages.discarded == 1
    sender.link.send_tagged(b"a", [encode_data(BODY)], False, 0, None, 1)
    client.durable()
    assert sender.said == [(1, ACCEPTED, True)]


def test_halves_stay_in_memory_while_the_disk_is_low() -> None:
    """What is free there is for the journal."""
    server = made()
    server.gateway.tick.partial_messages.is_disk_low = True
    lose(begin(server, "link"))
    assert parts_of(server, "link") != []
    assert not server.storage.memory_pages.put


def test_a_bound_that_is_lowered_holds_at_once() -> None:
    """As after a start, which brings back all there was, and then says what there may be."""
    server = made()
    for number in range(3):
        lose(begin(server, f"link{number}"))
    server.gateway.tick.partial_messages.bound(2 * HALF, 2 * HALF)
    assert kept(server) == ["link1", "link2"]
    server.gateway.tick.partial_messages.bound(2 * HALF, HALF)
    assert kept(server) == ["link2"]
