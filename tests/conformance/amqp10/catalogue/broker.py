"""What the specification leaves to a broker: addresses, and RabbitMQ's meaning of them."""

from typing import Final

from tests.conformance.catalogue import listed

ADDITIONS: Final = listed(
    ("address.v2-queue", "", "/queues/:queue, as source and as target"),
    ("address.v2-exchange-key", "", "/exchanges/:exchange/:key as target"),
    ("address.v2-exchange", "", "/exchanges/:exchange as target: the key is empty"),
    ("address.v2-null", "", "A null target: each message goes where its `to` says"),
    ("address.v2-percent", "", "Names are percent-encoded"),
    ("address.v1", "", "/queue, /exchange, /amq/queue and /topic, as RabbitMQ 3 had them"),
    ("address.plain", "", "A plain name is a queue"),
    ("address.not-found", "", "No such queue or exchange: amqp:not-found"),
    ("address.malformed", "", "An address that cannot be read: invalid-field"),
    (
        "address.vhost",
        "",
        "hostname `vhost:NAME` opens that virtual host; where there is none of this name, the connection ends",
    ),
    ("address.refused", "", "Without permission: unauthorized-access"),
    ("outcome.unroutable", "", "A message that no queue gets is released"),
    ("outcome.refused", "", "A message that a full queue refuses is rejected"),
)
