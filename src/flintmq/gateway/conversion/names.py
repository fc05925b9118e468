"""Names of annotations and headers that conversion between the protocols reads or writes."""

from typing import Final

# Annotations (RabbitMQ) for properties and headers of 0-9-1 that 1.0 has no field for.
TYPE: Final = "x-basic-type"
DELIVERY_MODE: Final = "x-basic-delivery-mode"
PRIORITY: Final = "x-basic-priority"
EXPIRATION: Final = "x-basic-expiration"
COPIES: Final = "x-cc"
DEATHS: Final = "x-opt-deaths"
RECEIVED: Final = "x-opt-rabbitmq-received-time"
EXCHANGE: Final = "x-exchange"
ROUTING_KEY: Final = "x-routing-key"
# Annotations of FlintMQ: headers that cannot be application-properties because they hold lists or tables, and the
# encoded properties of a message that could not be restored otherwise.
HEADERS: Final = "x-opt-headers"
PROPERTIES_091: Final = "x-opt-amqp-0-9-1-properties"

# Headers of 0-9-1 that COPIES, DEATHS and RECEIVED become.
COPIES_HEADER: Final = "CC"
DEATHS_HEADER: Final = "x-death"
RECEIVED_HEADER: Final = "timestamp_in_ms"
# Headers for a message-id and correlation-id that no short string can hold.
MESSAGE_ID_HEADER: Final = "x-message-id"
CORRELATION_ID_HEADER: Final = "x-correlation-id"

# The type of a 0-9-1 message whose body is the encoded body of a 1.0 message.
ENCODED_TYPE: Final = "amqp-1.0"

# Headers that carry encoded sections (RabbitMQ reads the middle three, too), or the sizes of the data sections.
CARRIED_PREFIX: Final = "x-amqp-1.0-"
CARRIED_HEADER: Final = "x-amqp-1.0-header"
CARRIED_ANNOTATIONS: Final = "x-amqp-1.0-message-annotations"
CARRIED_PROPERTIES: Final = "x-amqp-1.0-properties"
CARRIED_APPLICATION: Final = "x-amqp-1.0-app-properties"
CARRIED_FOOTER: Final = "x-amqp-1.0-footer"
CARRIED_DATA: Final = "x-amqp-1.0-data"

_INTERNAL: Final = (EXCHANGE, ROUTING_KEY, DEATHS_HEADER, HEADERS, PROPERTIES_091)


def header_of(annotation: str | int) -> str | None:
    """The name of the header that an annotation becomes; None if it becomes none."""
    if isinstance(annotation, int) or not annotation.startswith("x-"):
        return None
    if annotation == COPIES:
        return COPIES_HEADER
    if annotation == DEATHS:
        return DEATHS_HEADER
    if annotation == RECEIVED:
        return RECEIVED_HEADER
    if annotation in _INTERNAL or annotation.startswith(("x-basic-", CARRIED_PREFIX)):
        return None
    return annotation
