"""The 115 rules of the AMQP 0-9-1 specification, and what RabbitMQ adds to it: ids, levels, and our few words for each.

`rule` and `extension` tie a test to one of them. `DIFFERENCES` says where RabbitMQ's meaning wins in the dialect
"rabbitmq", and why: its documentation's reason, in our words.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Rule:
    """`id` is class.method.field.rule, as far as there is each; `level` the strongest word of the rule."""

    id: str
    level: str
    words: str


@dataclass(frozen=True)
class Tested:
    """A test, by its file and function; `not_yet` says why it does not hold."""

    file: str
    function: str
    not_yet: str


# Filled by the decorators, when the modules with the tests are imported.
TESTS: Final[dict[str, Tested]] = {}


def rule(id: str, not_yet: str = "") -> Callable[[Test], Test]:
    """This test shows whether that rule holds."""
    assert id in RULES, f"there is no rule {id}"
    return _tie(id, not_yet)


def extension(id: str, not_yet: str = "") -> Callable[[Test], Test]:
    """This test shows whether that addition of RabbitMQ's works."""
    assert id in EXTENSIONS, f"there is no extension {id}"
    return _tie(id, not_yet)


def _tie(id: str, not_yet: str) -> Callable[[Test], Test]:
    def tie(test: Test) -> Test:
        name = "test_" + re.sub(r"[^a-z0-9]", "_", id)
        assert test.__name__ == name, f"the test of {id} is to be called {name}"
        assert id not in TESTS, f"{id} has a test already"
        TESTS[id] = Tested(test.__module__.rpartition(".")[2] + ".py", name, not_yet)
        marked: Test = pytest.mark.conformance(id)(test)
        return pytest.mark.xfail(strict=True, reason=not_yet)(marked) if not_yet else marked

    return tie


def _table(*rows: tuple[str, str, str]) -> dict[str, Rule]:
    return {id: Rule(id, level, words) for id, level, words in rows}


RULES: Final = _table(
    ("delivery-tag.channel-local", "MUST", "A delivery is settled on the channel it came on"),
    ("delivery-tag.non-zero", "MUST", "No delivery has tag 0"),
    (
        "redelivered.implementation",
        "SHOULD",
        "A message that comes again says so, and goes to its first client if it can",
    ),
    ("redelivered.hinting", "MUST", "Our client passes the flag on and decides nothing by it"),
    (
        "connection.start.protocol-name",
        "MUST",
        "An unknown protocol name is answered with a header of ours, then a hang-up",
    ),
    ("connection.start.server-support", "MUST", "Asked for a newer version, the server names its own"),
    ("connection.start.client-support", "MUST", "Our client hangs up on a version it does not speak"),
    (
        "connection.start.server-properties.required-fields",
        "SHOULD",
        "The server says its host, product, version and more",
    ),
    ("connection.start.locales.required-support", "MUST", "en_US is among the locales"),
    (
        "connection.start-ok.client-properties.required-fields",
        "SHOULD",
        "Our client says its product, version and more",
    ),
    ("connection.start-ok.mechanism.security", "SHOULD", "Our client takes the best mechanism it knows"),
    ("connection.start-ok.mechanism.validity", "MUST", "A mechanism that was not offered: hang up, and say nothing"),
    ("connection.tune.frame-max.minimum", "MUST", "Frames of 4,096 bytes are taken before tuning"),
    ("connection.tune-ok.channel-max.upper-limit", "MUST", "More channels than offered: hang up without a close"),
    ("connection.tune-ok.frame-max.minimum", "MUST", "4,096 is the smallest frame size that can be agreed on"),
    ("connection.tune-ok.frame-max.upper-limit", "MUST", "Larger frames than offered: hang up without a close"),
    ("connection.open.virtual-host.separation", "MUST", "What is in one virtual host is not seen from another"),
    ("connection.open.virtual-host.security", "SHOULD", "A user needs permission to open a virtual host"),
    ("connection.close.stability", "MUST", "After close only close and close-ok count; a close is still answered"),
    ("connection.close-ok.reporting", "SHOULD", "A socket that ends without close-ok is logged"),
    ("channel.open.state", "MUST", "A channel cannot be opened twice"),
    ("channel.flow.initial-state", "MAY", "A new channel is active, and can be paused"),
    ("channel.flow.bidirectional", "SHOULD", "Flow is answered at once, however much content is on its way"),
    ("channel.flow.throttling", "MAY", "The server may pause publishers by flow"),
    ("channel.flow.expected-behaviour", "MAY", "Who publishes on a paused channel may be cut off"),
    ("channel.close.stability", "MUST", "After close only close and close-ok count; a close is still answered"),
    ("channel.close-ok.reporting", "SHOULD", "A socket that ends while a channel's close-ok is due is logged"),
    ("exchange.required-types", "MUST", "fanout and direct exist"),
    ("exchange.recommended-types", "SHOULD", "topic and headers exist"),
    ("exchange.required-instances", "MUST", "Each type has its amq. exchange in every virtual host"),
    ("exchange.default-exchange", "MUST", "The exchange without a name routes by queue name"),
    ("exchange.default-access", "MUST", "The default exchange is reached by the empty name, and not to be changed"),
    ("exchange.extensions", "MAY", "There are more exchange types"),
    ("exchange.declare.minimum", "SHOULD", "16 exchanges per virtual host, and far more"),
    ("exchange.declare.exchange.reserved", "MUST", "amq. names are refused unless they are there already"),
    ("exchange.declare.exchange.syntax", "MUST", "Names are of letters, digits, hyphen, underscore, period, colon"),
    ("exchange.declare.type.typed", "MUST", "An exchange keeps its type: 530"),
    ("exchange.declare.type.support", "MUST", "An unknown type is 503"),
    ("exchange.declare.passive.not-found", "MUST", "A passive declare of what is not there is 404"),
    ("exchange.declare.passive.equivalent", "MUST", "A redeclaration has to agree in type, durability and arguments"),
    ("exchange.declare.durable.support", "MUST", "There are durable and transient exchanges"),
    ("exchange.delete.exchange.exists", "MUST", "Deleting what is not there is 404"),
    ("exchange.delete.if-unused.in-use", "MUST", "With if-unused, bindings protect an exchange"),
    ("queue.declare.default-binding", "MUST", "A new queue is bound to the default exchange by its name"),
    ("queue.declare.minimum-queues", "SHOULD", "256 queues per virtual host, and far more"),
    ("queue.declare.queue.default-name", "MUST", "A queue without a name gets one of its own"),
    ("queue.declare.queue.reserved", "MUST", "amq. names are refused unless they are there already"),
    ("queue.declare.queue.syntax", "MUST", "Names are of letters, digits, hyphen, underscore, period, colon"),
    ("queue.declare.passive.passive", "MUST", "A passive declare finds a queue, or is 404"),
    ("queue.declare.passive.equivalent", "MUST", "A redeclaration has to agree in durable, exclusive and arguments"),
    ("queue.declare.durable.persistence", "MUST", "A durable queue is there after a restart"),
    ("queue.declare.durable.types", "MUST", "There are durable and transient queues"),
    ("queue.declare.exclusive.types", "MUST", "There are exclusive and shared queues"),
    (
        "queue.declare.exclusive.exclusive",
        "MUST",
        "Another connection's exclusive queue is 405, whatever one wants of it",
    ),
    ("queue.declare.auto-delete.pre-existence", "MUST", "A redeclaration need not agree in auto-delete"),
    ("queue.bind.duplicates", "MUST", "The same binding twice is no error"),
    ("queue.bind.unique", "MUST", "However many bindings match, a queue gets a message once"),
    ("queue.bind.transient-exchange", "MUST", "A durable queue can be bound to a transient exchange"),
    ("queue.bind.durable-exchange", "MUST", "Bindings between durable things are there after a restart"),
    ("queue.bind.binding-count", "SHOULD", "4 bindings per queue, and far more"),
    ("queue.bind.queue.queue-known", "MUST", "No queue's name, and none declared: 404"),
    ("queue.bind.queue.must-exist", "MUST", "Binding a queue that is not there is 404"),
    ("queue.bind.exchange.exchange-existence", "MUST", "Binding to an exchange that is not there is 404"),
    ("queue.bind.exchange.default-exchange", "MUST", "The empty name means the default exchange"),
    ("queue.bind.routing-key.direct-exchange-key-matching", "MUST", "direct: the same key, and only that"),
    ("queue.unbind.01", "MUST", "An unbind that fails ends the connection"),
    ("queue.unbind.queue.queue-known", "MUST", "No queue's name, and none declared: 404"),
    ("queue.unbind.queue.must-exist", "MUST", "Unbinding a queue that is not there is 404"),
    ("queue.unbind.exchange.must-exist", "MUST", "Unbinding from an exchange that is not there is 404"),
    ("queue.unbind.exchange.default-exchange", "MUST", "The empty name means the default exchange"),
    ("queue.purge.02", "MUST", "What a client holds unacknowledged is not purged"),
    ("queue.purge.03", "MAY", "Purged messages are out of the queue's storage"),
    ("queue.purge.queue.queue-known", "MUST", "No queue's name, and none declared: 404"),
    ("queue.purge.queue.must-exist", "MUST", "Purging a queue that is not there is 404"),
    ("queue.delete.01", "SHOULD", "Messages of a deleted queue go to its dead-letter exchange"),
    ("queue.delete.queue.queue-known", "MUST", "No queue's name, and none declared: 404"),
    ("queue.delete.queue.must-exist", "MUST", "Deleting a queue that is not there is 404"),
    ("queue.delete.if-unused.in-use", "MUST", "With if-unused, consumers protect a queue"),
    ("queue.delete.if-empty.not-empty", "MUST", "With if-empty, messages protect a queue"),
    ("basic.01", "SHOULD", "Persistent messages are there after a restart"),
    ("basic.02", "MUST", "However many persistent messages a queue gets, none is dropped"),
    ("basic.03", "MAY", "Publishers may be slowed by flow"),
    ("basic.04", "MAY", "Transient messages may overflow to disk"),
    ("basic.05", "MAY", "Beyond a queue's limit, messages may be dropped or dead-lettered"),
    ("basic.06", "MUST", "At least two levels of priority: 9 before 0"),
    ("basic.07", "MAY", "Ten levels of priority"),
    ("basic.08", "MUST", "Within a priority in order, persistent or not"),
    ("basic.09", "MUST", "Consumers may do without acknowledgements"),
    ("basic.10", "MUST", "Consumers may acknowledge; what they did not comes again"),
    ("basic.qos.prefetch-size.01", "MUST", "A prefetch size never holds back a single message"),
    ("basic.qos.prefetch-count.01", "MUST", "Never more in advance than both windows allow"),
    ("basic.consume.01", "SHOULD", "16 consumers per queue, and far more"),
    ("basic.consume.consumer-tag.01", "MUST", "A consumer tag in use is 530"),
    ("basic.consume.consumer-tag.02", "MUST", "A consumer tag belongs to its channel; elsewhere it is 530"),
    ("basic.consume.exclusive.01", "MUST", "No exclusive consumer beside others: 403"),
    ("basic.cancel.01", "MUST", "Cancelling is no error when the queue has gone"),
    ("basic.publish.exchange.must-exist", "MUST", "Publishing to an exchange that is not there is 404"),
    ("basic.publish.exchange.default-exchange", "MUST", "The empty name means the default exchange"),
    ("basic.publish.exchange.02", "MUST", "Publishing to an internal exchange is 403"),
    ("basic.publish.exchange.03", "MAY", "An exchange may refuse content with 540; none of ours does"),
    ("basic.publish.mandatory.01", "SHOULD", "mandatory: no route, and the message is returned with 312"),
    ("basic.publish.immediate.01", "SHOULD", "immediate: no consumer ready, and the message is returned with 313"),
    ("basic.deliver.01", "SHOULD", "After so many deliveries a message goes to the dead letters"),
    ("basic.ack.multiple.exists", "MUST", "A tag that is not outstanding is 406, at once even in a transaction"),
    ("basic.reject.01", "SHOULD", "A reject is heard while contents are on their way out"),
    ("basic.reject.02", "SHOULD", "A rejected message can be had by another"),
    ("basic.reject.03", "MUST", "Rejecting is no way of choosing messages: our client acknowledges or gives back"),
    ("basic.reject.requeue.01", "MUST", "A rejected message does not come back on the same channel"),
    ("basic.recover-async.01", "MUST", "What is sent again says so"),
    ("basic.recover.01", "MUST", "What is sent again says so"),
    ("tx.not multiple queues", "MUST", "Nobody may rely on transactions over several queues; here one can"),
    ("tx.not immediate", "MUST", "Nobody may rely on immediate in transactions; here it is returned at commit"),
    ("tx.not mandatory", "MUST", "Nobody may rely on mandatory in transactions; here it is returned at commit"),
    ("tx.commit.transacted", "MUST", "Commit without a transaction is 406"),
    ("tx.rollback.transacted", "MUST", "Rollback without a transaction is 406"),
)

EXTENSIONS: Final = _table(
    ("exchange.bind", "", "Exchanges bound to exchanges: messages travel on"),
    ("exchange.bind.cycle", "", "Exchanges bound in a circle deliver once"),
    ("exchange.bind.self", "", "An exchange bound to itself delivers once"),
    ("exchange.bind.duplicates", "", "Two ways to one queue: one message"),
    ("exchange.unbind", "", "Exchanges unbound: nothing travels on; what is not bound is no error"),
    ("exchange.declare.auto-delete", "", "An auto-delete exchange goes with its last binding"),
    ("exchange.declare.internal", "", "An internal exchange takes messages from exchanges only"),
    ("basic.nack", "", "Several deliveries rejected at once, given back or not"),
    ("confirm.select", "", "Publishes are numbered and confirmed"),
    ("basic.cancel", "", "The server tells of a consumer whose queue has gone, where the client can hear it"),
    (
        "connection.blocked",
        "",
        "Clients that can hear it are told that publishing is blocked, and again when it is not",
    ),
    ("connection.update-secret", "", "A new secret is taken while the connection is open"),
    ("connection.capabilities", "", "The capabilities table names what there is"),
)

_IDEMPOTENT: Final = "RabbitMQ: {0} asserts that it is not there; repeating it is no error"
DIFFERENCES: Final[dict[str, str]] = {
    "exchange.declare.exchange.syntax": "RabbitMQ: the lexicon is not enforced; here any name is taken",
    "queue.declare.queue.syntax": "RabbitMQ: the lexicon is not enforced; here any name is taken",
    "exchange.declare.type.typed": "RabbitMQ: whatever a redeclaration differs in, its type included, is 406",
    "exchange.declare.type.support": "RabbitMQ: an unknown type is 406: the other channels go on",
    "exchange.declare.passive.equivalent": "RabbitMQ: arguments that it does not know are not compared",
    "queue.declare.passive.equivalent": "RabbitMQ: arguments that it does not know are not compared",
    "queue.declare.auto-delete.pre-existence": "RabbitMQ: auto-delete is compared like the rest; a difference is 406",
    "exchange.delete.exchange.exists": _IDEMPOTENT.format("deleting an exchange"),
    "queue.delete.queue.must-exist": _IDEMPOTENT.format("deleting a queue"),
    "queue.unbind.01": "RabbitMQ: what fails in an unbind closes the channel, like any other fault of its kind",
    "queue.unbind.queue.must-exist": _IDEMPOTENT.format("unbinding"),
    "queue.unbind.exchange.must-exist": _IDEMPOTENT.format("unbinding"),
    "queue.bind.exchange.default-exchange": "RabbitMQ: nobody binds to the default exchange: 403",
    "queue.unbind.exchange.default-exchange": "RabbitMQ: nobody unbinds from the default exchange: 403",
    "queue.delete.01": "RabbitMQ: the messages of a deleted queue are not dead-lettered",
    "basic.consume.consumer-tag.02": "RabbitMQ: cancelling a tag that this channel does not have is no error",
    "basic.reject.requeue.01": "RabbitMQ: a message may come back to who rejected it; here, if no other can take it",
}
