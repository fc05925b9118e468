"""Files of definitions: RabbitMQ's exports come in, mistakes name their entry, and what goes out comes in again."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from flintmq.base.errors import AccessRefused, ConfigurationError
from flintmq.broker.access.permission import CONFIGURE, READ, WRITE
from flintmq.broker.broker import Broker
from flintmq.broker.ports import LimitRecord, PermissionRecord, PolicyRecord, UserRecord, VHostRecord
from flintmq.management.definitions.document import Document
from flintmq.management.definitions.exporter import export_definitions
from flintmq.management.definitions.importer import import_in_steps
from tests.unit.broker.memory import MemoryStorage

EXPORT = Path(__file__).with_name("rabbitmq.json").read_bytes()


def hasher(user: UserRecord | None, password: str) -> tuple[str, str]:
    """Says whose hash was there."""
    return f"hash of {password}, was {user.password_hash if user else None}", "argon2id"


def bring(broker: Broker, document: dict[str, Any] | bytes) -> list[str]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    steps = import_in_steps(Document(data, "file.json"), broker, hasher)
    return [remark for remark in steps if remark is not None]


def imported(document: dict[str, Any] | bytes = EXPORT) -> Broker:
    broker = Broker(MemoryStorage())
    bring(broker, document)
    return broker


def test_rabbitmqs_users() -> None:
    """Users come with their hashes, tags in both of RabbitMQ's forms, and limits."""
    users = imported().users
    assert sorted(users) == ["billing", "certificate-only", "old", "orders"]
    assert users["billing"].record.tags == ("policymaker", "impersonator")
    assert users["billing"].may_impersonate
    assert users["orders"].record.tags == ("monitoring",)
    assert users["orders"].limits.values == {"max-connections": 20, "max-channels": 200}
    assert users["old"].record.hashing_algorithm == "rabbit_password_hashing_md5"


def test_rabbitmqs_vhosts() -> None:
    """Virtual hosts come with what is said of them, in old and new places, their limits, and our own dialect."""
    shop = imported().vhosts["shop"]
    assert shop.record == VHostRecord("shop", "rabbitmq", "quorum", "The shop", ("production",))
    assert shop.limits.values == {"max-connections": 500, "max-queues": 1000}


def test_rabbitmqs_permissions() -> None:
    """Permissions come as they are meant."""
    users = imported().users
    orders, billing = users["orders"].rights("shop"), users["billing"].rights("shop")
    orders.check(CONFIGURE, "queue", "orders.x")
    orders.check(WRITE, "exchange", "")
    orders.check_topic(WRITE, "orders.events", "orders.created")
    with pytest.raises(AccessRefused):
        orders.check_topic(WRITE, "orders.events", "billing.created")
    billing.check(READ, "queue", "orders.x")
    with pytest.raises(AccessRefused):
        billing.check(CONFIGURE, "queue", "billing.x")
    assert users["old"].rights("shop").permission is None


def test_rabbitmqs_topology() -> None:
    """Queues, exchanges and bindings come; names that every broker makes for itself do not."""
    shop = imported().vhosts["shop"]
    assert {queue.name: queue.kind for queue in shop.queues.values()} == {
        "orders.new": "quorum",
        "legacy.orders": "classic",
        "orders.log": "stream",
    }
    exchanges = shop.exchanges.by_name
    assert exchanges["orders.events"].alternate == "orders.dead"
    assert exchanges["orders.copies"].internal
    found = [(b.source.name, b.destination.name, b.routing_key, b.arguments) for b in _bindings(shop.exchanges.by_name)]
    assert found == [
        ("orders.copies", "orders.log", "", {"x-match": "any", "kind": "audit", "version": 2}),
        ("orders.events", "orders.copies", "#", {}),
        ("orders.events", "orders.new", "orders.created.#", {}),
    ]


def _bindings(exchanges: dict[str, Any]) -> list[Any]:
    bindings = [binding for exchange in exchanges.values() for binding in exchange.each_binding()]
    return sorted(bindings, key=lambda binding: (binding.source.name, binding.destination.name))


def test_rabbitmqs_policies() -> None:
    """Policies are in force, operator policies too, whatever else they say."""
    queues = imported().vhosts["shop"].queues
    assert (queues["orders.new"].settings.ttl_ms, queues["orders.new"].settings.max_length) == (86_400_000, 100_000)
    assert (queues["legacy.orders"].settings.ttl_ms, queues["legacy.orders"].settings.max_length) == (-1, 100_000)
    assert queues["orders.new"].settings.dead_letter_exchange == "orders.dead"


def test_what_has_no_effect_is_said() -> None:
    """Parameters of components we do not have are kept, and whoever imports them hears of it."""
    broker = Broker(MemoryStorage())
    assert bring(broker, EXPORT) == [
        "the federation-upstream 'elsewhere' is kept for the next export, and has no effect"
    ]


def test_again_is_the_same() -> None:
    """Importing a file twice is importing it once; so is importing what was exported."""
    broker = imported()
    once = export_definitions(broker, "1")
    bring(broker, EXPORT)
    assert export_definitions(broker, "1") == once
    bring(broker, once)
    assert export_definitions(broker, "1") == once


def test_what_goes_out_comes_in() -> None:
    """An export makes an equal broker of a new one, arguments of every type and dialects included."""
    broker = imported()
    bring(
        broker,
        {
            "vhosts": [{"name": "strict", "dialect": "strict"}],
            "exchanges": [{"name": "x", "vhost": "strict", "type": "direct", "arguments": {"a": {"$bytes": "AAE="}}}],
        },
    )
    exported = export_definitions(broker, "1")
    again = imported(json.loads(json.dumps(exported)))
    assert export_definitions(again, "1") == exported
    assert again.vhosts["strict"].exchanges.by_name["x"].arguments == {"a": b"\0\1"}
    assert again.vhosts["strict"].dialect.name == "strict"


def test_what_does_not_last_is_not_exported() -> None:
    """Transient and exclusive queues and what is bound to them end by themselves."""
    broker = imported()
    shop = broker.vhosts["shop"]
    before = export_definitions(broker, "1")
    shop.declare_queue("transient", False, False, False, {"x-queue-type": "classic"}, None)
    exclusive = shop.declare_queue("exclusive", True, True, False, {}, object())
    shop.exchanges.bind_queue(exclusive, "orders.dead", "", {})
    shop.exchanges.declare("x", "direct", False, False, False, {})
    assert export_definitions(broker, "1") == before


def test_after_a_restart() -> None:
    """Imported definitions are there after a restart."""
    broker = imported()
    again = Broker(broker.storage)
    again.restore(broker.storage.definitions.load())
    for vhost in again.vhosts.values():
        # The memory has one table of names for all virtual hosts; the database is tested with many.
        assert vhost.name in broker.vhosts
    assert again.users["orders"].limits.values == broker.users["orders"].limits.values
    assert again.vhosts["shop"].policies.records == broker.vhosts["shop"].policies.records


# -- users --------------------------------------------------------------------------------------------------------


def test_a_password_in_plain_text() -> None:
    """A plain-text password is hashed; the hasher decides for users that have it already."""
    broker = imported({"users": [{"name": "a", "password": "p"}]})
    assert broker.users["a"].record == UserRecord("a", "hash of p, was None")
    bring(broker, {"users": [{"name": "a", "password": "q"}]})
    assert broker.users["a"].record.password_hash == "hash of q, was hash of p, was None"


def test_a_hash_without_algorithm() -> None:
    """A hash without an algorithm has the algorithm that was RabbitMQ's default at that time."""
    broker = imported({"users": [{"name": "a", "password_hash": "AAAA", "tags": ""}]})
    assert broker.users["a"].record == UserRecord("a", "AAAA", (), "rabbit_password_hashing_sha256")


@pytest.mark.parametrize(
    ("size", "algorithm"), [(20, "md5"), (36, "sha256"), (68, "sha512"), (3, "sha256"), (0, "sha256")]
)
def test_a_hash_tells_its_algorithm(size: int, algorithm: str) -> None:
    """Exports before RabbitMQ 3.6.1 name no algorithm: the length of the hash tells it."""
    password_hash = b64encode(bytes(size)).decode()
    broker = imported({"users": [{"name": "a", "password_hash": password_hash, "hashing_algorithm": None, "tags": ""}]})
    assert broker.users["a"].record.hashing_algorithm == f"rabbit_password_hashing_{algorithm}"
    said = {"name": "a", "password_hash": password_hash, "hashing_algorithm": "rabbit_password_hashing_sha512"}
    assert imported({"users": [said]}).users["a"].record.hashing_algorithm == "rabbit_password_hashing_sha512"


@pytest.mark.parametrize(
    ("default", "said", "kind"),
    [
        ("", "quorum", "quorum"),
        ("", "rabbit_stream_queue", "stream"),
        ("quorum", "classic", "classic"),
        ("quorum", None, "quorum"),
        ("", "rabbit_mqtt_qos0_queue", "classic"),
    ],
)
def test_the_type_of_a_queue(default: str, said: str | None, kind: str) -> None:
    """The field `type` applies if the arguments name no type, whatever the default type; exports always have it."""
    queue = {"name": "q", "vhost": "v", "durable": True, "arguments": {}, **({"type": said} if said else {})}
    document = {"vhosts": [{"name": "v", "default_queue_type": default}], "queues": [queue]}
    broker = imported(document)
    assert broker.vhosts["v"].queues["q"].kind == kind
    exported = export_definitions(broker, "1")
    assert [each["type"] for each in exported["queues"]] == [kind]
    assert export_definitions(imported(exported), "1") == exported


def test_our_own_lists_of_limits() -> None:
    """Limits may stand in lists of their own, as RabbitMQ's HTTP API gives them."""
    broker = imported(
        {
            "vhosts": [{"name": "v"}],
            "users": [{"name": "u", "password": "p"}],
            "vhost_limits": [{"vhost": "v", "value": {"max-queues": 3}}],
            "user_limits": [{"user": "u", "value": {"max-channels": 4}}],
        }
    )
    assert (broker.vhosts["v"].limits.values, broker.users["u"].limits.values) == (
        {"max-queues": 3},
        {"max-channels": 4},
    )


# -- mistakes -----------------------------------------------------------------------------------------------------

VHOST = {"vhosts": [{"name": "v"}]}
QUEUE = {"name": "q", "vhost": "v"}
POLICY = {"name": "p", "vhost": "v", "pattern": "", "definition": {"max-length": 1}}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "file.json: definitions are an object"),
        ({"users": {}}, "file.json: users is not a list"),
        ({"users": [{}]}, "users[0]: Object missing required field `name`"),
        (
            {"users": [{"name": "a", "password_hash": "x" * 97, "hashing_algorithm": "argon2id"}]},
            "users[0] ('a'): the password_hash must be an argon2id hash",
        ),
        ({"users": [{"name": "a"}]}, "users[0] ('a'): a user needs a password_hash or a password"),
        (
            {"users": [{"name": "a", "password_hash": "", "hashing_algorithm": "sha1"}]},
            "users[0] ('a'): hashing_algorithm 'sha1' is unknown",
        ),
        ({"users": [{"name": "a", "password": 5}]}, "users[0] ('a'): Expected `str | null`, got `int`"),
        ({"users": [{"name": "a", "password": "p", "limits": {"max-queues": 1}}]}, "a user has no limit 'max-queues'"),
        ({"users": [{"name": "a", "password": "p", "limits": {"max-channels": "1"}}]}, "is a number, not '1'"),
        ({"vhosts": [{"name": "v", "dialect": "loose"}]}, "vhosts[0] ('v'): dialect 'loose' is unknown"),
        ({"vhosts": [{"name": "v", "default_queue_type": "fast"}]}, "vhosts[0] ('v'): queue type 'fast' is unknown"),
        (
            {"permissions": [{"user": "u", "vhost": "v", "configure": "", "write": "", "read": ""}]},
            "permissions[0] ('u in v'): there is no vhost 'v', neither in the broker nor in the file",
        ),
        (
            VHOST | {"permissions": [{"user": "u", "vhost": "v", "configure": "", "write": "", "read": ""}]},
            "permissions[0] ('u in v'): there is no user 'u'",
        ),
        (VHOST | {"policies": [POLICY | {"pattern": "("}]}, "policies[0] ('p'): '(' is not a valid pattern"),
        (VHOST | {"policies": [POLICY | {"priority": "high"}]}, "policies[0] ('p'): Expected `int`, got `str`"),
        (VHOST | {"policies": [POLICY | {"definition": {"x": 1}}]}, "policies[0] ('p'): 'x' is not a key of policies"),
        (VHOST | {"queues": [QUEUE, QUEUE | {"vhost": "w"}]}, "queues[1] ('q'): there is no vhost 'w'"),
        (VHOST | {"queues": [QUEUE | {"arguments": {"x-queue-type": "fast"}}]}, "unsupported queue type 'fast'"),
        (VHOST | {"queues": [QUEUE | {"arguments": {"a": {"$bytes": "?"}}}]}, "arguments that cannot be read"),
        (VHOST | {"exchanges": [{"name": "x", "vhost": "v", "type": "odd"}]}, "exchanges[0] ('x'): "),
        (
            VHOST | {"bindings": [{"source": "amq.direct", "vhost": "v", "destination": "q"}]},
            "bindings[0] ('amq.direct to q in v'): no queue 'q' in vhost 'v'",
        ),
        (
            VHOST | {"parameters": [{"name": "o", "vhost": "v", "component": "operator_policy", "value": 5}]},
            "parameters[0] ('o'): an operator policy has a pattern and a definition",
        ),
    ],
)
def test_mistakes_name_their_entry(document: object, words: str) -> None:
    """An error names the entry in the file."""
    broker = Broker(MemoryStorage())
    with pytest.raises(ConfigurationError) as caught:
        bring(broker, json.dumps(document).encode())
    assert words in str(caught.value)
    assert str(caught.value).startswith("file.json: ")


def test_no_json() -> None:
    """A file that is not JSON is said to be none."""
    with pytest.raises(ConfigurationError, match="file.json is not valid JSON"):
        Document(b"{", "file.json")


def test_a_mistake_comes_before_everything() -> None:
    """Errors in users, rules and references are found before anything is changed."""
    broker = Broker(MemoryStorage())
    with pytest.raises(ConfigurationError):
        bring(broker, VHOST | {"users": [{"name": "u", "password": "p"}], "policies": [POLICY | {"pattern": "("}]})
    assert (broker.vhosts, broker.users) == ({}, {})


def test_rules_are_the_files() -> None:
    """Rules in a file replace the present ones of the same name; others stay."""
    broker = imported()
    bring(
        broker,
        {
            "permissions": [{"user": "old", "vhost": "/", "configure": "", "write": "", "read": "x"}],
            "user_limits": [{"user": "orders", "value": {"max-channels": 1}}],
        },
    )
    assert broker.users["old"].rights("/").permission == PermissionRecord("/", "old", "", "", "x")
    assert broker.users["orders"].limits.values == {"max-connections": 20, "max-channels": 1}
    assert LimitRecord("user", "orders", "max-channels", 1) in broker.storage.definitions.load().rules
    assert PolicyRecord in {type(rule) for rule in broker.storage.definitions.load().rules}
