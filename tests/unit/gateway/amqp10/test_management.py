"""HTTP over AMQP: each resource, each method, and RabbitMQ's answers to what cannot be."""

import pytest
from librt.strings import BytesWriter

from flintmq.base.errors import AccessRefused, InvalidField, SyntaxFault
from flintmq.base.values import Int32, UInt8
from flintmq.broker.ports import LimitRecord
from flintmq.broker.vhost_access import enter
from flintmq.gateway.amqp10.management import Management
from flintmq.gateway.conversion.parts import write_properties
from flintmq.wire.amqp091.tables import decode_arguments, encode_table
from flintmq.wire.amqp10 import sections as wire
from flintmq.wire.amqp10.properties import Properties
from flintmq.wire.amqp10.values import Array, Byte, Described, Int, MapKey, Short, Symbol, UByte, UInt, ULong, UShort
from flintmq.wire.amqp10.writer import encode_value
from tests.unit.broker.memory import message
from tests.unit.gateway.amqp091.pair import Server

OWNER = object()


class Client:
    """Asks, and reads the answers."""

    def __init__(self, server: Server, owner: object = OWNER) -> None:
        self.server = server
        self.vhost = server.vhost
        self.tokens: list[bytes] = []
        access = enter(server.user, server.vhost, lambda why: None)
        self.management = Management(access, owner, self._renew, self._audit)
        self.events: list[tuple[str, str, str]] = []
        self.waits = False

    def _renew(self, token: bytes) -> None:
        if token == b"wrong":
            raise SyntaxFault("no token")
        self.tokens.append(token)

    def _audit(self, act: str, name: str, refusal: str) -> None:
        self.events.append((act, name, refusal))

    def ask(self, method: str, target: str, body: object = None) -> tuple[str, object]:
        request = write_properties(Properties(message_id=ULong(7), subject=method, to=target, reply_to="$me"))
        answer = self.management.answer(request + wire.encode_amqp_value(body))
        self.waits = answer.waits
        found = wire.scan(answer.message)
        said = wire.decode_properties(answer.message, found.properties)
        assert said.correlation_id == ULong(7)
        application = wire.decode_application_properties(answer.message, found.application_properties)
        assert application == {"http:response": "1.1"}
        assert said.subject is not None
        return said.subject, wire.decode_amqp_value(answer.message, found.body)


@pytest.fixture
def client() -> Client:
    return Client(Server())


def description(name: str, **more: object) -> dict[str, object]:
    said = {
        "leader": "flintmq",
        "message_count": ULong(0),
        "consumer_count": UInt(0),
        "name": name,
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "classic",
        "arguments": {"x-queue-type": "classic"},
        "replicas": Array("string", ["flintmq"]),
    }
    return said | more


def test_a_queue_is_declared_described_purged_and_deleted(client: Client) -> None:
    """201 the first time, 200 after that; deleting what is not there is no error."""
    assert client.ask("PUT", "/queues/a%2Fb", {}) == ("201", description("a/b"))
    assert client.waits
    assert client.ask("PUT", "/queues/a%2Fb", {"durable": True}) == ("200", description("a/b"))
    client.vhost.deliver(message(), [client.vhost.queues["a/b"]])
    assert client.ask("GET", "/queues/a%2Fb") == ("200", description("a/b", message_count=ULong(1)))
    assert not client.waits
    assert client.ask("DELETE", "/queues/a%2Fb/messages") == ("200", {"message_count": ULong(1)})
    client.vhost.deliver(message(), [client.vhost.queues["a/b"]])
    assert client.ask("DELETE", "/queues/a%2Fb") == ("200", {"message_count": ULong(1)})
    assert client.ask("DELETE", "/queues/a%2Fb") == ("200", {"message_count": ULong(0)})
    assert client.ask("GET", "/queues/a%2Fb") == ("404", "queue 'a/b' in vhost '/' not found")


def test_what_is_declared_is_what_was_asked_for(client: Client) -> None:
    """Flags and arguments, with keys of either type."""
    body = {
        "durable": False,
        "exclusive": True,
        "auto_delete": True,
        "arguments": {"x-max-length": UInt(5), Symbol("x-queue-type"): "classic"},
    }
    status, said = client.ask("PUT", "/queues/q", body)
    assert status == "201"
    assert said == description(
        "q",
        durable=False,
        exclusive=True,
        auto_delete=True,
        arguments={"x-queue-type": "classic", "x-max-length": UInt(5)},
    )
    assert client.vhost.queues["q"].owner is OWNER


def test_exchanges_and_bindings(client: Client) -> None:
    """They are made, listed, found by their location, and removed."""
    for name, body in [("x", {"type": "topic"}), ("a%20b", {"durable": False, "arguments": {}})]:
        assert client.ask("PUT", f"/exchanges/{name}", body) == ("204", None)
        assert client.ask("PUT", f"/exchanges/{name}", body) == ("204", None)
    client.ask("PUT", "/queues/q", {})
    binding = {"source": "x", "destination_queue": "q", "binding_key": "k 1", "arguments": {"n": 1}}
    assert client.ask("POST", "/bindings", binding) == ("204", None)
    plain = {"source": "x", "destination_queue": "q", "binding_key": "k 1", "arguments": {}}
    assert client.ask("POST", "/bindings", plain) == ("204", None)
    beyond = {"source": "x", "destination_exchange": "a b", "binding_key": ""}
    assert client.ask("POST", "/bindings", beyond) == ("204", None)
    status, listed = client.ask("GET", "/bindings?src=x&dstq=q&key=k+1")
    assert status == "200"
    assert isinstance(listed, list)
    with_arguments, without = listed
    assert {**with_arguments, "location": ""} == {**binding, "location": ""}
    assert without == {**plain, "location": "/bindings/src=x;dstq=q;key=k%201;args="}
    assert client.ask("DELETE", with_arguments["location"]) == ("204", None)
    assert client.ask("GET", "/bindings?src=x&dstq=q&key=k%201") == ("200", [without])
    assert client.ask("DELETE", without["location"]) == ("204", None)
    assert client.ask("DELETE", without["location"]) == ("204", None)
    assert client.ask("GET", "/bindings?src=x&dstq=q&key=k%201") == ("200", [])
    status, listed = client.ask("GET", "/bindings?src=x&dste=a%20b&key=")
    assert isinstance(listed, list)
    assert listed[0]["destination_exchange"] == "a b"
    assert client.ask("DELETE", "/bindings/src=x;dste=a%20b;key=;args=") == ("204", None)
    assert client.ask("GET", "/bindings?src=x&dste=a%20b&key=") == ("200", [])
    assert client.ask("DELETE", "/exchanges/x") == ("204", None)
    assert client.ask("DELETE", "/exchanges/x") == ("204", None)
    assert "x" not in client.vhost.exchanges.by_name


# All that a binding may have by which it is unbound; a ulong is a long, as in RabbitMQ.
_NUMBERS: dict[str, object] = {
    "byte": Byte(-1),
    "ubyte": UByte(255),
    "short": Short(-1),
    "ushort": UShort(5),
    "int": Int(5),
    "uint": UInt(5),
    "long": 5,
    "list": [UInt(1), 1],
    "map": {Symbol("inner"): Short(1)},
}


def test_integers_of_arguments_keep_their_types(client: Client) -> None:
    """A client that compares what is listed with what it asked for finds its binding, and its queue's arguments."""
    client.ask("PUT", "/exchanges/x", {"type": "headers", "arguments": {}})
    client.ask("PUT", "/queues/q", {"arguments": {"x-max-length": UInt(7)}})
    _, described = client.ask("GET", "/queues/q")
    assert isinstance(described, dict)
    assert described["arguments"]["x-max-length"] == UInt(7)
    binding = {"source": "x", "destination_queue": "q", "binding_key": "k", "arguments": _NUMBERS}
    assert client.ask("POST", "/bindings", binding) == ("204", None)
    _, listed = client.ask("GET", "/bindings?src=x&dstq=q&key=k")
    assert isinstance(listed, list)
    assert listed[0]["arguments"] == _NUMBERS
    assert client.ask("DELETE", listed[0]["location"]) == ("204", None)
    assert client.ask("GET", "/bindings?src=x&dstq=q&key=k") == ("200", [])


def test_arguments_of_the_older_protocol_keep_their_types(client: Client) -> None:
    """What was bound by AMQP 0-9-1 is listed with the types that it came with."""
    client.ask("PUT", "/exchanges/x", {"type": "headers"})
    client.ask("PUT", "/queues/q", {})
    w = BytesWriter()
    encode_table(w, {"n": Int32(5), "m": UInt8(5), "long": 5_000_000_000})
    arguments = decode_arguments(w.getvalue(), 0)[0]
    client.vhost.exchanges.bind_queue(client.vhost.queues["q"], "x", "k", arguments)
    _, listed = client.ask("GET", "/bindings?src=x&dstq=q&key=k")
    assert isinstance(listed, list)
    assert listed[0]["arguments"] == {"n": Int(5), "m": UByte(5), "long": 5_000_000_000}


def test_integers_of_all_types_are_equal(client: Client) -> None:
    """A binding is unbound by its values, whatever integers they are, and does not come back with a restart."""
    client.ask("PUT", "/exchanges/x", {"type": "headers"})
    client.ask("PUT", "/queues/q", {})
    binding = {"source": "x", "destination_queue": "q", "binding_key": "k", "arguments": {"n": UInt(5)}}
    for number in (UInt(5), Int(5), 5):
        client.ask("POST", "/bindings", {**binding, "arguments": {"n": number}})
    definitions = client.server.storage.memory_definitions
    assert [record.arguments for record in definitions.bindings] == [{"n": 5}]
    client.vhost.exchanges.unbind_queue(client.vhost.queues["q"], "x", "k", {"n": 5})
    assert not definitions.bindings
    assert client.ask("GET", "/bindings?src=x&dstq=q&key=k") == ("200", [])


REFUSED = [
    ("PUT", "/queues/", {}, "400", "declare queue with empty name not allowed"),
    ("PUT", "/queues/a%0Ab", {}, "400", "Bad name 'a\nb': line feed and carriage return characters not allowed"),
    ("PUT", "/queues/amq.q", {}, "403", "queue 'amq.q' in vhost '/' starts with reserved prefix 'amq.'"),
    ("PUT", "/queues/q", {"unknown": "bla"}, "400", 'bad queue property {{utf8,<<"unknown">>},{utf8,<<"bla">>}}'),
    (
        "PUT",
        "/queues/there",
        {"auto_delete": True},
        "409",
        "inequivalent arg 'auto_delete' for queue 'there' in vhost '/': received 'true' but current is 'false'",
    ),
    (
        "PUT",
        "/queues/s",
        {"auto_delete": True, "arguments": {"x-queue-type": "stream"}},
        "400",
        "invalid property 'auto-delete' for queue 's' in vhost '/'",
    ),
    (
        "PUT",
        "/queues/q",
        {"arguments": {"x-dead-letter-exchange": 5}},
        "400",
        "invalid type 'signedint' for arg 'x-dead-letter-exchange'",
    ),
    ("DELETE", "/queues/none/messages", None, "404", "no queue 'none' in vhost '/'"),
    ("DELETE", "/queues/stream/messages", None, "400", "purge not supported by queue 'stream' in vhost '/'"),
    ("PUT", "/exchanges/", {}, "403", "operation not permitted on the default exchange"),
    ("PUT", "/exchanges/amq.x", {}, "403", "exchange 'amq.x' in vhost '/' starts with reserved prefix 'amq.'"),
    ("PUT", "/exchanges/x", {"type": "new"}, "400", "unknown exchange type 'new'"),
    ("PUT", "/exchanges/x", {"type": 5}, "400", 'bad exchange property {{utf8,<<"type">>},{long,5}}'),
    (
        "PUT",
        "/exchanges/amq.direct",
        {"type": "topic"},
        "409",
        "inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'topic' but current is 'direct'",
    ),
    ("DELETE", "/exchanges/", None, "403", "operation not permitted on the default exchange"),
    ("DELETE", "/exchanges/amq.x", None, "403", "exchange 'amq.x' in vhost '/' starts with reserved prefix 'amq.'"),
    (
        "POST",
        "/bindings",
        {"source": "", "destination_queue": "there", "binding_key": ""},
        "403",
        "operation not permitted on the default exchange",
    ),
    (
        "POST",
        "/bindings",
        {"source": "amq.direct", "destination_queue": "none", "binding_key": ""},
        "400",
        "no queue 'none' in vhost '/'",
    ),
    ("POST", "/bindings", {"color": "red"}, "400", 'bad binding field {{utf8,<<"color">>},{utf8,<<"red">>}}'),
    ("DELETE", "/bindings/src=x;dst=q", None, "400", "bad binding path segment 'src=x;dst=q'"),
    ("GET", "/bindings?src=x", None, "400", "missing 'dste' or 'dstq' in query: #{<<\"src\">> => <<\"x\">>}"),
    ("GET", "👎", None, "400", "failed to normalize URI '👎': invalid_uri \"👎\""),
    ("GET", "/queues/%zz", None, "400", "failed to normalize URI '/queues/%zz': invalid_uri \"/queues/%zz\""),
    ("GET", "/queues/%ff", None, "400", "'%ff' is no UTF-8 when its percent signs are resolved"),
    ("GET", "/nothing", None, "404", "there is no resource '/nothing'"),
    ("POST", "/queues/q", {}, "405", "the resource '/queues/q' knows no method POST"),
    ("PUT", "/queues/q", None, "400", "a map is due as the body that says what the queue is"),
    ("PUT", "/auth/tokens", "text", "400", "a token is binary"),
    ("PUT", "/auth/tokens", b"wrong", "400", "no token"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "target", "body", "status", "why"), REFUSED)
def test_refusals(client: Client, method: str, target: str, body: object, status: str, why: str) -> None:
    """Statuses and texts are RabbitMQ's where it has them; nothing is changed, and the connection goes on."""
    client.ask("PUT", "/queues/there", {})
    client.ask("PUT", "/queues/stream", {"arguments": {"x-queue-type": "stream"}})
    assert client.ask(method, target, body) == (status, why)
    assert not client.waits
    assert set(client.vhost.queues) == {"there", "stream"}


def test_exclusive_queues_are_their_connection_s_alone() -> None:
    """Others can neither declare, nor purge, nor delete them."""
    server = Server()
    Client(server).ask("PUT", "/queues/q", {"exclusive": True})
    other = Client(server, object())
    for method, target in [("PUT", "/queues/q"), ("DELETE", "/queues/q/messages"), ("DELETE", "/queues/q")]:
        status, why = other.ask(method, target, {"exclusive": True} if method == "PUT" else None)
        assert status == "400"
        assert str(why).startswith("cannot obtain exclusive access to locked queue 'q' in vhost '/'")


def test_a_vhost_that_is_full_takes_no_queue(client: Client) -> None:
    """403, as RabbitMQ has it."""
    client.server.broker.put_rule(LimitRecord("vhost", "/", "max-queues", 1))
    client.ask("PUT", "/queues/q", {})
    assert client.ask("PUT", "/queues/r", {}) == (
        "403",
        "cannot declare queue 'r': queue limit in vhost '/' (1) is reached",
    )
    assert client.ask("PUT", "/queues/q", {})[0] == "200"


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/queues/q", None),
        ("PUT", "/queues/q", {}),
        ("DELETE", "/queues/q", None),
        ("DELETE", "/queues/q/messages", None),
        ("PUT", "/exchanges/x", {}),
        ("DELETE", "/exchanges/x", None),
        ("POST", "/bindings", {"source": "amq.direct", "destination_queue": "q", "binding_key": "k"}),
        ("DELETE", "/bindings/src=amq.direct;dstq=q;key=k;args=", None),
        ("GET", "/bindings?src=amq.direct&dstq=q&key=k", None),
    ],
)
def test_what_the_user_may_not_do_ends_the_session(client: Client, method: str, target: str, body: object) -> None:
    """It is no status: RabbitMQ ends the session with amqp:unauthorized-access."""
    client.server.allow("^$", "^$", "^$")
    with pytest.raises(AccessRefused, match="refused for user 'u'"):
        client.ask(method, target, body)


def test_a_token_is_renewed(client: Client) -> None:
    """Whoever made the connection's login knows what to do with it."""
    assert client.ask("PUT", "/auth/tokens", b"token") == ("204", None)
    assert client.tokens == [b"token"]


@pytest.mark.parametrize(
    "properties",
    [Properties(), Properties(subject="GET", to="/queues/q"), Properties(subject="GET", reply_to="$me")],
)
def test_a_request_says_what_it_wants(client: Client, properties: Properties) -> None:
    """A message without method, path or "$me" is none."""
    with pytest.raises(InvalidField):
        client.management.answer(write_properties(properties) + wire.encode_amqp_value(None))


def test_sections_of_a_request_have_any_order(client: Client) -> None:
    """A client of RabbitMQ's sends its body of null before the properties."""
    request = write_properties(Properties(subject="GET", to="/queues/q", reply_to="$me"))
    answer = client.management.answer(wire.encode_amqp_value(None) + request).message
    assert b"404" in answer


@pytest.mark.parametrize("key", [Described(ULong(1), "x"), Array("uint", [UInt(1)]), [1], True, 1.5], ids=repr)
@pytest.mark.parametrize(
    ("target", "name"),
    [("/queues/q", ""), ("/queues/q", "arguments"), ("/exchanges/x", ""), ("/exchanges/x", "arguments")],
)
def test_keys_that_are_no_names_are_refused(client: Client, target: str, name: str, key: object) -> None:
    """Whatever the type of a key is, a client is told that it is none of those that are known."""
    found = {MapKey(key, encode_value(key)): 1}
    status, why = client.ask("PUT", target, {name: found} if name else found)
    assert (status, str(why).startswith(("bad ", "unsupported argument"))) == ("400", True)


def test_arguments_that_no_table_holds_are_refused(client: Client) -> None:
    """As unsupported."""
    status, why = client.ask("PUT", "/queues/q", {"arguments": {"x": Described(ULong(1), 1)}})
    assert (status, str(why).startswith("unsupported argument")) == ("400", True)


def test_changes_are_told(client: Client) -> None:
    """What changes definitions, or is refused, is told for the audit log; what is there already or only read is not."""
    client.ask("PUT", "/queues/a", {"durable": True})
    client.ask("PUT", "/queues/a", {"durable": True})
    client.ask("GET", "/queues/a")
    client.ask("PUT", "/queues/a", {"durable": True, "auto_delete": True})
    client.ask("DELETE", "/queues/a/messages")
    client.ask("DELETE", "/queues/a")
    told = [(act, name, bool(refusal)) for act, name, refusal in client.events]
    assert told == [
        ("PUT", "/queues/a", False),
        ("PUT", "/queues/a", True),
        ("DELETE", "/queues/a/messages", False),
        ("DELETE", "/queues/a", False),
    ]
