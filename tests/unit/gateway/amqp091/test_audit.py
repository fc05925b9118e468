"""What the audit log is told of methods."""

from flintmq.base.errors import AmqpError
from flintmq.gateway.audit import AuditEvent
from flintmq.wire.amqp091.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from tests.unit.gateway.amqp091.pair import Client, Server


def acts(*methods: Method) -> list[tuple[str, str, str]]:
    """What one channel's methods are told as: act, name, why refused."""
    server = Server()
    server.allow(configure="^[^x].*")
    Client(server).channel().call(*methods)
    return [(act.action, act.name, act.refusal) for act in server.host.events]


def test_changes_are_told() -> None:
    """Each change of definitions, in order; what is there already, or is only looked for, is none."""
    assert acts(
        ExchangeDeclare(exchange="e", type="direct"),
        ExchangeDeclare(exchange="e", type="direct"),
        ExchangeDeclare(exchange="e", passive=True),
        QueueDeclare(queue="q"),
        QueueBind(exchange="e", routing_key="k"),
        QueueBind(exchange="e", routing_key="k"),
        ExchangeBind(destination="e", source="amq.topic", routing_key="#"),
        QueueUnbind(queue="q", exchange="e", routing_key="k"),
        QueuePurge(queue="q"),
        QueueDelete(queue="q"),
        ExchangeDelete(exchange="e"),
    ) == [
        ("exchange.declare", "exchange 'e'", ""),
        ("queue.declare", "queue 'q'", ""),
        ("queue.bind", "queue 'q' from exchange 'e' by key 'k'", ""),
        ("exchange.bind", "exchange 'e' from exchange 'amq.topic' by key '#'", ""),
        ("queue.unbind", "queue 'q' from exchange 'e' by key 'k'", ""),
        ("queue.purge", "queue 'q'", ""),
        ("queue.delete", "queue 'q'", ""),
        ("exchange.delete", "exchange 'e'", ""),
    ]


def test_refusals_are_told() -> None:
    """With the reason that the client gets; by whom, from where and in which virtual host."""
    server = Server()
    server.allow(configure="^$")
    channel = Client(server).channel()
    channel.call(QueueDeclare(queue="q"))
    ((number, error),) = server.host.failed
    assert number == 1
    assert isinstance(error, AmqpError)
    assert server.host.events == [
        AuditEvent("u", "test:1", "amqp 0-9-1", "/", "queue.declare", "queue 'q'", error.text)
    ]
    assert "refused" in error.text


def test_private_queues_are_nobody_elses() -> None:
    """Those of one connection alone, such as for replies, make no noise; nor does a queue that names itself."""
    assert (
        acts(
            QueueDeclare(queue="mine", exclusive=True),
            QueueBind(queue="mine", exchange="amq.direct", routing_key="k"),
            QueueDelete(queue="mine"),
            QueueDeclare(queue=""),
        )
        == []
    )
