"""Removes line ends from names of queues and exchanges in methods about definitions, as RabbitMQ does."""

from flintmq.wire.amqp091.methods import Method


def strip_line_ends(method: Method, names: tuple[str, ...]) -> None:
    """Remove CR and LF from the arguments with these names."""
    for attribute in names:
        name = getattr(method, attribute)
        if "\n" in name or "\r" in name:
            setattr(method, attribute, name.replace("\n", "").replace("\r", ""))
