"""Every method of AMQP 0-9-1, and every operation of AMQP 1.0, by a user with each set of permissions there is."""

from collections.abc import Callable
from itertools import combinations

import pytest

from flintmq.base.errors import AccessRefused, ClosedByPeer, EndedByPeer
from flintmq.gateway.amqp091 import connection
from flintmq.wire.amqp091 import methods
from flintmq.wire.amqp091.methods import (
    AccessRequest,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    LeaseExtend,
    LeaseFetch,
    LeaseOpen,
    LeaseQuery,
    LeaseRelease,
    LeaseSettle,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    StageAbort,
    StageCommit,
    StageForget,
    StageOpen,
    StageReady,
    StageSelect,
    StreamFetch,
    StreamQuery,
    StreamSpan,
    TxCommit,
    TxRollback,
    TxSelect,
)
from flintmq.wire.amqp10.performatives import Attach
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.termini import Coordinator, Source, Target
from tests.unit.gateway.amqp091.pair import Client, Server
from tests.unit.gateway.amqp10.pair import Client as Client10
from tests.unit.gateway.amqp10.pair import Server as Server10
from tests.unit.gateway.amqp10.test_management import Client as Asking

# All sets of the three, as letters.
GRANTS = ["".join(letters) for count in range(4) for letters in combinations("cwr", count)]
# What any one of them is enough for.
ANY = "any"
NONE = ""


def _suffices(grant: str, needed: str) -> bool:
    return bool(grant) if needed == ANY else set(needed) <= set(grant)


def _allow(server: Server | Server10, grant: str) -> None:
    server.allow(*(".*" if letter in grant else "^$" for letter in "cwr"))


# By method: what has to be there first, what is sent, and which permissions it needs.
DEAD_LETTERS = {"x-dead-letter-exchange": "x"}
MATRIX: list[tuple[Method, str]] = [
    (AccessRequest(), NONE),
    (ChannelFlow(active=True), NONE),
    (ChannelFlowOk(active=True), NONE),
    (ExchangeDeclare(exchange="new"), "c"),
    (ExchangeDeclare(exchange="x"), "c"),
    (ExchangeDeclare(exchange="new", arguments={"alternate-exchange": "x"}), "cwr"),
    (ExchangeDeclare(exchange="x", passive=True), ANY),
    (ExchangeDeclare(exchange="nowhere", passive=True), ANY),
    (ExchangeDelete(exchange="x"), "c"),
    (ExchangeDelete(exchange="nowhere"), "c"),
    (ExchangeBind(destination="x", source="y"), "wr"),
    (ExchangeUnbind(destination="x", source="y"), "wr"),
    (QueueDeclare(queue="new"), "c"),
    (QueueDeclare(queue="q", durable=True), "c"),
    (QueueDeclare(queue="", exclusive=True), "c"),
    (QueueDeclare(queue="new", arguments=dict(DEAD_LETTERS)), "cwr"),
    (QueueDeclare(queue="q", passive=True), ANY),
    (QueueDeclare(queue="nowhere", passive=True), ANY),
    (QueueDelete(queue="q"), "c"),
    (QueueDelete(queue="nowhere"), "c"),
    (QueueBind(queue="q", exchange="x", routing_key="k"), "wr"),
    (QueueUnbind(queue="q", exchange="x", routing_key="k"), "wr"),
    (QueuePurge(queue="q"), "r"),
    (BasicQos(prefetch_count=1), NONE),
    (BasicConsume(queue="q"), "r"),
    (BasicConsume(queue="nowhere"), "r"),
    (BasicCancel(consumer_tag="c"), NONE),
    (BasicCancelOk(consumer_tag="c"), NONE),
    (BasicGet(queue="q"), "r"),
    (BasicGet(queue="nowhere"), "r"),
    (BasicReject(delivery_tag=1), NONE),
    (BasicNack(delivery_tag=1), NONE),
    (BasicRecover(), NONE),
    (BasicRecoverAsync(), NONE),
    (ConfirmSelect(), NONE),
    (TxSelect(), NONE),
    (TxCommit(), NONE),
    (TxRollback(), NONE),
    (StreamQuery(queue="s"), "r"),
    (StreamSpan(queue="s"), "r"),
    (StreamFetch(queue="s"), "r"),
    (LeaseOpen(queue="q", consumer="l"), "r"),
    (LeaseExtend(queue="q", consumer="l"), "r"),
    (LeaseFetch(queue="q", consumer="l"), "r"),
    (LeaseSettle(queue="q", consumer="l"), "r"),
    (LeaseRelease(queue="q", consumer="l"), "r"),
    (LeaseQuery(queue="q", consumer="l"), "r"),
    # These are about transactional ids, which are their user's; what is published in them needs what publishing does.
    (StageOpen(transactional_id="t"), NONE),
    (StageSelect(transactional_id="t"), NONE),
    (StageReady(), NONE),
    (StageCommit(transactional_id="t"), NONE),
    (StageAbort(transactional_id="t"), NONE),
    (StageForget(transactional_id="t"), NONE),
]


def _server() -> Server:
    server = Server()
    vhost = server.vhost
    for name in ("x", "y"):
        vhost.exchanges.declare(name, "direct", True, False, False, {})
    vhost.declare_queue("q", True, False, False, {}, None)
    vhost.declare_queue("s", True, False, False, {"x-queue-type": "stream"}, None)
    return server


def _is_refused(reason: object) -> bool:
    return isinstance(reason, ClosedByPeer) and reason.code == 403 and "refused for user 'u'" in str(reason)


@pytest.mark.parametrize(
    ("method", "needed"), MATRIX, ids=[f"{method.name}-{at}" for at, (method, _) in enumerate(MATRIX)]
)
def test_methods(method: Method, needed: str) -> None:
    """Who lacks a permission is refused with 403, whether the object exists or not; whoever has it is not."""
    for grant in GRANTS:
        server = _server()
        _allow(server, grant)
        client = Client(server)
        channel = client.channel()
        channel.send(method)
        client.tick()
        client.durable()
        refused = not channel.channel.is_open and _is_refused(channel.closed)
        assert refused == (not _suffices(grant, needed)), f"{method.name} with '{grant}'"


def test_the_matrix_is_whole() -> None:
    """A method that is added has a line above, or is one of publishing and acknowledging, which have tests below."""
    covered = {method.id for method, _ in MATRIX}
    assert covered == set(connection._HANDLERS) - {methods.BASIC_PUBLISH, methods.BASIC_ACK}


@pytest.mark.parametrize(
    ("exchange", "needed"), [("", "w"), ("x", "w"), ("amq.direct", "w"), ("amq.topic", "w"), ("nowhere", "w")]
)
def test_publishing(exchange: str, needed: str) -> None:
    """Needs write on the exchange, the default one included, whether it is there or not."""
    for grant in GRANTS:
        server = _server()
        _allow(server, grant)
        client = Client(server)
        channel = client.channel()
        channel.publish("m", "q", exchange)
        client.tick()
        refused = not channel.channel.is_open and _is_refused(channel.closed)
        assert refused == (not _suffices(grant, needed)), f"'{exchange}' with '{grant}'"


def test_permissions_that_are_withdrawn() -> None:
    """Count for what was allowed, and done, a moment before: nothing is remembered for longer."""
    server = _server()
    client = Client(server)
    publisher, getter = client.channel(), client.channel()
    publisher.publish("m", "q")
    assert len(getter.call(BasicGet(queue="q"))) == 0
    server.allow("^$", "^$", "^$")
    publisher.publish("m", "q")
    getter.send(BasicGet(queue="q"))
    client.tick()
    assert _is_refused(publisher.closed)
    assert _is_refused(getter.closed)


def test_no_permissions_at_all() -> None:
    """The virtual host is closed: there is no channel to ask on."""
    server = _server()
    server.broker.add_vhost("other")
    assert "access to vhost 'other' refused for user 'u'" in str(Client(server, vhost="other").closed)


# -- AMQP 1.0 ----------------------------------------------------------------------------------------------------

Operation = Callable[[Client10], list[object]]


def _sender(address: str | None, **properties: str) -> Operation:
    """Attach a link to it, and send one message; returns what it ended with."""

    def operation(client: Client10) -> list[object]:
        sender = client.sender(address)
        if not sender.detached and not client.ended:
            sender.send("m", properties=Properties(to=properties["to"]) if properties else None)
            client.tick()
        return [*sender.detached, *[state for _, state, _ in sender.said]]

    return operation


def _receiver(address: str | None) -> Operation:
    return lambda client: list(client.receiver(address).detached)


def _dynamic(client: Client10) -> list[object]:
    return list(client.receiver(None, source=Source(dynamic=True)).detached)


def _coordinator(client: Client10) -> list[object]:
    return list(client.sender(None, target=Coordinator(), attach=Attach(name="t")).detached)


OPERATIONS: dict[str, tuple[Operation, str]] = {
    "send to a queue": (_sender("/queues/q"), "w"),
    "send to an exchange": (_sender("/exchanges/x/k"), "w"),
    "send to an exchange that is not there": (_sender("/exchanges/nowhere/k"), "w"),
    "send to wherever a message says": (_sender(None, to="/queues/q"), "w"),
    "receive": (_receiver("/queues/q"), "r"),
    "receive from a stream": (_receiver("/queues/s"), "r"),
    "receive from a queue that is not there": (_receiver("/queues/nowhere"), "r"),
    "have a queue made for one": (_dynamic, "cr"),
    "transactions": (_coordinator, NONE),
}


def _is_unauthorized(said: object) -> bool:
    condition = getattr(said, "condition", None) or getattr(getattr(said, "error", None), "condition", None)
    return condition == "amqp:unauthorized-access"


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_of_amqp_10(name: str) -> None:
    """Links and messages need what the like of them does in AMQP 0-9-1; a refusal says amqp:unauthorized-access."""
    operation, needed = OPERATIONS[name]
    for grant in GRANTS:
        server = Server10()
        server.vhost.exchanges.declare("x", "direct", True, False, False, {})
        server.queue("q")
        server.queue("s", queue_type="stream")
        _allow(server, grant)
        client = Client10(server)
        said = [*operation(client), *client.ended, *client.closed]
        assert any(map(_is_unauthorized, said)) == (not _suffices(grant, needed)), f"{name} with '{grant}': {said}"


REQUESTS: list[tuple[str, str, object, str]] = [
    ("GET", "/queues/q", None, ANY),
    ("GET", "/queues/nowhere", None, ANY),
    ("PUT", "/queues/new", {}, "c"),
    ("DELETE", "/queues/q", None, "c"),
    ("DELETE", "/queues/q/messages", None, "r"),
    ("PUT", "/exchanges/new", {}, "c"),
    ("DELETE", "/exchanges/x", None, "c"),
    ("POST", "/bindings", {"source": "x", "destination_queue": "q", "binding_key": "k"}, "wr"),
    ("POST", "/bindings", {"source": "x", "destination_exchange": "y", "binding_key": "k"}, "wr"),
    ("DELETE", "/bindings/src=x;dstq=q;key=k;args=", None, "wr"),
    ("GET", "/bindings?src=x&dstq=q&key=k", None, "wr"),
]


@pytest.mark.parametrize(("method", "target", "body", "needed"), REQUESTS)
def test_requests_to_management(method: str, target: str, body: object, needed: str) -> None:
    """What a client may ask /management for is what it may do by methods."""
    for grant in GRANTS:
        server = _server()
        _allow(server, grant)
        client = Asking(server)
        try:
            client.ask(method, target, body)
            refused = False
        except AccessRefused:
            refused = True
        assert refused == (not _suffices(grant, needed)), f"{method} {target} with '{grant}'"


def test_ends_that_are_refused_say_why() -> None:
    """The words are those of AMQP 0-9-1."""
    server = Server10()
    server.queue("q")
    _allow(server, NONE)
    client = Client10(server)
    link = client.receiver("/queues/q")
    (ended,) = [*link.detached, *client.ended]
    assert isinstance(ended, EndedByPeer)
    assert "read access to queue 'q' in vhost '/' refused for user 'u'" in str(ended)


def test_targets_that_nobody_checks_do_not_exist() -> None:
    """A target is checked by the one it names, also where the link's other end names another."""
    server = Server10()
    server.queue("q")
    server.queue("r")
    server.allow("^$", "^q$|^amq.default$", "^q$")
    client = Client10(server)
    link = client.receiver("/queues/r", attach=Attach(name="l", target=Target(address="/queues/q")))
    assert any(map(_is_unauthorized, [*link.detached, *client.ended]))
